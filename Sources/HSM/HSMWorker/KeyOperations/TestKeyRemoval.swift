import PKCS11
public import WorkerProtocol

/// Removes the stored test pairs of an HSM token (``StoredTestPair``), so that none remains or new ones are made. The
/// daemon may use the HSM token meanwhile: a worker needs the pairs only while it opens the HSM token.
public enum TestKeyRemoval {
    /// Logs in and removes the pairs. Blocks.
    /// - Parameter opening: The HSM token; the number of sessions and the time limits have no effect.
    /// - Returns: The number of key pairs removed.
    public static func run(_ opening: HSMTokenOpening) throws(WorkerFailure) -> Int {
        let (_, _, slot, _) = try OpenToken.find(opening)
        var session = Session(closedIn: slot)
        do {
            try session.reopen(in: slot, readWrite: true)
            try TokenLogin(opening).perform(in: &session, of: slot)
            return try StoredTestPair.removeAll(in: &session)
        } catch let error as WorkerFailure {
            throw error
        } catch {
            throw WorkerFailure(.hsmTokenUnavailable, "The test keys cannot be removed: \(error).")
        }
    }
}

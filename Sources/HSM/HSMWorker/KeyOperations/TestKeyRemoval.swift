import PKCS11
public import WorkerProtocol

/// Removes the stored test pairs of an HSM token (``StoredTestPair``), which paytokend no longer uses or which shall be
/// made again. The daemon may serve meanwhile: it needs them at the next opening only.
public enum TestKeyRemoval {
    /// Logs in, and removes them. Blocks.
    /// - Parameter opening: The HSM token; its numbers of sessions and times have no effect.
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

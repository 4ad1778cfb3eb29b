import KeyTypes
import PKCS11
import WorkerProtocol

// Signatures with the HSM token's keys, for TLS handshakes and JSON Web Tokens.
extension OpenToken {
    /// Signs with a key, and counts the key's use.
    ///
    /// Unlike a decryption's input, a signature's input cannot cause a failure: every message can be signed. So a failed
    /// call is repeated, finally in a new session. If that fails too, the HSM token or the key is at fault; a signature
    /// with a test key shows which. A signature that does not verify counts as a failed call.
    ///
    /// - Parameters:
    ///   - use: The use that the key must have.
    ///   - attempt: Makes one signature and verifies it. Returns nil if the signature does not verify.
    func sign(
        with publicKeyHash: [UInt8], for use: KeyUse, in session: inout Session, _ deadline: inout CallDeadline,
        _ attempt: (PrivateKeyEntry, inout Session) throws(CallError) -> [UInt8]?
    ) throws(WorkerFailure) -> [UInt8] {
        var failures = FailedAttempts(unexplained: "a signature that does not verify")
        while true {
            let entry = try borrow(publicKeyHash, for: use, in: &session)
            defer { keys.giveBack(publicKeyHash) }
            let call: CallError?
            do throws(CallError) {
                let signature = try keyUses.reading { () throws(CallError) in
                    let signature = try attempt(entry, &session)
                    if signature != nil { countUse(of: entry) }
                    return signature
                }
                if let signature { return signature }
                call = nil
            } catch {
                call = error
            }
            if let call, call.isBusy {
                guard deadline.wait(), !deadline.isOver else {
                    throw WorkerFailure(.overloaded, "The HSM token was busy until the deadline: \(call).")
                }
            } else {
                try recover(from: call, entry, &failures, &session, &deadline)
            }
            guard !deadline.isOver else {
                throw WorkerFailure(
                    .overloaded, "The HSM token failed \(failures.total) times at one signature: \(failures.last).")
            }
        }
    }

    /// Handles a failed attempt. Returns if the attempt may be repeated, after it has repaired the session, the login
    /// or the key's handle if necessary. Otherwise throws the failure for the daemon.
    ///
    /// - Parameter call: The call that failed; nil if the signature did not verify.
    private func recover(
        from call: CallError?, _ entry: PrivateKeyEntry, _ failures: inout FailedAttempts, _ session: inout Session,
        _ deadline: inout CallDeadline
    ) throws(WorkerFailure) {
        let times = failures.count(call)
        try restore(&session, &deadline)
        if let call, call.isStaleHandle, failures.total < FailedAttempts.attemptLimit {
            return try findAgain(entry, call, &session, &deadline)
        }
        // The fault may be in the session alone, so the next attempt uses a new session.
        if call?.isSessionLost == true || failures.total > 1 { try reopen(&session, &deadline) }
        guard times < FailedAttempts.equalErrorLimit, failures.total < FailedAttempts.attemptLimit else {
            guard let failure = tiers.signingFailure(for: entry.use, in: &session), failure.call?.isBusy != true else {
                throw WorkerFailure(
                    .overloaded, "The HSM token fails to sign with this key, but signs with others: \(failures.last).")
            }
            throw WorkerFailure(
                .hsmTokenUnavailable, "The HSM token does not sign any more: \(failures.last); \(failure).")
        }
    }
}

import PKCS11
import TLSHandshake
import WorkerProtocol

extension OpenToken {
    /// Signs a TLS client's handshake with an identity key.
    ///
    /// The daemon has checked the input already. This process has the key, so it checks again: even a compromised
    /// daemon cannot have an identity key sign anything else.
    ///
    /// Unlike a decryption's input, this input cannot cause a failure: every message can be signed. So a failed call is
    /// repeated, finally in a new session. If that fails too, the HSM token or the key is at fault; a signature with a
    /// test key shows which. A signature that does not verify counts as a failed call.
    func sign(
        _ request: TLSSigning, in session: inout Session, _ deadline: inout CallDeadline
    ) throws(WorkerFailure) -> [UInt8] {
        try request.requireHandshake()
        guard let method = tiers.signatures[request.algorithm] else {
            throw WorkerFailure(
                .notSupported, "The HSM token does not sign by \(request.algorithm.rawValue); its status says why.")
        }
        var failures = FailedAttempts(unexplained: "a signature that does not verify")
        while true {
            let entry = try borrow(request.publicKeyHash, for: .identity, in: &session)
            defer { keys.giveBack(request.publicKeyHash) }
            let call: CallError?
            do throws(CallError) {
                let signature = try keyUses.reading { () throws(CallError) in
                    let signature = try method.sign(request.input, with: entry, in: &session)
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
            guard let failure = tiers.signatures.selfTestFailure(in: &session), failure.call?.isBusy != true else {
                throw WorkerFailure(
                    .overloaded, "The HSM token fails to sign with this key, but signs with others: \(failures.last).")
            }
            throw WorkerFailure(
                .hsmTokenUnavailable, "The HSM token does not sign any more: \(failures.last); \(failure).")
        }
    }
}

extension TLSSigning {
    /// - Throws: `importRefused` unless the input is a client's part of a TLS handshake and the server accepts a
    ///   signature by this algorithm. In TLS 1.2 the server must also be one of Apple's hosts.
    fileprivate func requireHandshake() throws(WorkerFailure) {
        let handshake: ClientCertificateVerifyInput
        do throws(TLSInputError) {
            handshake = try ClientCertificateVerifyInput(parsing: input)
            if case .tls12(let transcript) = handshake { try transcript.requireAppleHost() }
        } catch {
            throw WorkerFailure(
                .importRefused, "An identity key signs TLS handshakes with Apple's hosts only: \(error).")
        }
        guard handshake.permits(algorithm) else {
            throw WorkerFailure(
                .importRefused, "No server takes a signature by \(algorithm.rawValue) in this handshake.")
        }
    }
}

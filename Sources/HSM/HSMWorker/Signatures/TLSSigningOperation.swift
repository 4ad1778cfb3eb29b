import PKCS11
import TLSHandshake
import WorkerProtocol

extension OpenToken {
    /// Signs a TLS client's handshake with an identity key.
    ///
    /// The daemon has checked the input already. This process has the key, so it checks again: even a compromised
    /// daemon cannot have an identity key sign anything else.
    func sign(
        _ request: TLSSigning, in session: inout Session, _ deadline: inout CallDeadline
    ) throws(WorkerFailure) -> [UInt8] {
        try request.requireHandshake()
        guard let method = tiers.signatures[request.algorithm] else {
            throw WorkerFailure(
                .notSupported, "The HSM token does not sign by \(request.algorithm.rawValue); its status says why.")
        }
        return try sign(with: request.publicKeyHash, for: .identity, in: &session, &deadline) {
            (entry, session) throws(CallError) in try method.sign(request.input, with: entry, in: &session)
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

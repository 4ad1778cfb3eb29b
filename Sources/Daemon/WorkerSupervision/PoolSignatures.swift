package import TLSHandshake
package import WorkerProtocol

// The signatures of identity and service keys at the HSM tokens of the pool.
extension HSMTokenPool {
    /// Signs a TLS handshake with an identity key.
    /// - Parameters:
    ///   - holders: the names of the HSM tokens that show the key.
    /// - Returns: the signature, as long as the modulus, and the name of the HSM token that made it.
    package func sign(
        _ signing: TLSSigning, heldBy holders: [String], for requester: Requester
    ) async throws(WorkerFailure) -> (signature: [UInt8], hsmToken: String) {
        func signs(_ hsmToken: HSMToken) -> Bool { hsmToken.tlsAlgorithms.contains(signing.algorithm) }
        let hsmToken = next(among: holders, where: signs) ?? hsmTokenToWaitFor(among: holders)
        let signature = try await sign(.signTLS(signing), at: hsmToken, for: requester) {
            if case .tlsSignature(let signature) = $0 { signature } else { nil }
        }
        return (signature, hsmToken.name)
    }

    /// Has a JSON Web Token built and signed with a service key.
    /// - Parameter holders: the names of the HSM tokens that show the key.
    /// - Returns: the token in compact form (RFC 7515 §7.1), and the name of the HSM token that signed it.
    package func sign(
        _ signing: JWTSigning, heldBy holders: [String], for requester: Requester
    ) async throws(WorkerFailure) -> (token: [UInt8], hsmToken: String) {
        let hsmToken = next(among: holders, where: { _ in true }) ?? hsmTokenToWaitFor(among: holders)
        let token = try await sign(.signJWT(signing), at: hsmToken, for: requester) {
            if case .jsonWebToken(let token) = $0 { token } else { nil }
        }
        return (token, hsmToken.name)
    }

    /// Makes one signature. It is never repeated at another HSM token. Otherwise the signatures of a failing HSM token
    /// could take more sessions of another HSM token than its ``SignatureLimit`` permits.
    private func sign(
        _ request: WorkerRequest, at hsmToken: HSMToken, for requester: Requester,
        _ answer: @escaping @Sendable (WorkerAnswer) -> [UInt8]?
    ) async throws(WorkerFailure) -> [UInt8] {
        let terms = CallTerms(requester: requester, deadline: .now + Self.deadline(callTimeout: hsmToken.callTimeout))
        return try await hsmToken.signatures.run(for: requester, until: terms.deadline ?? .now) {
            () async throws(WorkerFailure) in try await hsmToken.call(request, terms: terms, answer)
        }
    }

    /// Returns the algorithms that all serving HSM tokens among these support now, in order of preference; an empty array
    /// if none serves.
    package func tlsAlgorithms(of holders: [String]) -> [TLSSignatureAlgorithm] {
        let serving = all.filter { holders.contains($0.name) && $0.isServing }.map(\.tlsAlgorithms)
        return TLSSignatureAlgorithm.allCases.filter { algorithm in
            !serving.isEmpty && serving.allSatisfy { $0.contains(algorithm) }
        }
    }
}

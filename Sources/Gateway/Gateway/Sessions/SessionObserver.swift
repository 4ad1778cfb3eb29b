import Foundation
import TLSHandshake

/// Receives the events of sessions, for metrics and the log. It receives no secret.
protocol SessionObserver: Sendable {
    /// Reports the end of a session's request.
    ///
    /// - Parameter outcome: `ok`, or the code of the refusal.
    func sessionEnded(outcome: String, after: Duration)
    func handshakeEnded(outcome: String)
    /// Reports a request to paytokend for a signature.
    func signatureEnded(outcome: String, after: Duration)
    func connectionTaken(isNew: Bool)
    /// Reports a session that used an identity whose certificate expires at `ends`.
    func identityUsed(merchantIdentifier: String, ends: Date, now: Date)
}

/// Reports the outcome and the duration of each signature to an observer.
struct ObservedIdentities: MerchantIdentitySource {
    private let source: any MerchantIdentitySource
    private let observer: any SessionObserver

    init(_ source: any MerchantIdentitySource, _ observer: any SessionObserver) {
        self.source = source
        self.observer = observer
    }

    func identities(
        of merchantIdentifier: String, for origin: SessionOrigin
    ) async throws(IdentityFailure) -> [MerchantIdentity] {
        try await source.identities(of: merchantIdentifier, for: origin)
    }

    func signature(
        by publicKeyHash: String, _ algorithm: TLSSignatureAlgorithm, over input: [UInt8], for origin: SessionOrigin
    ) async throws(IdentityFailure) -> [UInt8] {
        let began = ContinuousClock.now
        do {
            let signature = try await source.signature(by: publicKeyHash, algorithm, over: input, for: origin)
            observer.signatureEnded(outcome: "ok", after: .now - began)
            return signature
        } catch {
            // The session's deadline passed while paytokend was signing, so Apple did not cause the delay.
            let outcome = error == .late ? "deadline_exceeded" : SessionFailure.paytokend(error).outcome
            observer.signatureEnded(outcome: outcome, after: .now - began)
            throw error
        }
    }
}

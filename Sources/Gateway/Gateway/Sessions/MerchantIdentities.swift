package import DaemonAPI
import Encodings
package import Foundation
import Locks
import NIOCore
package import TLSHandshake
import X509

/// A merchant's certificate, and the signature algorithms of its key, which is in paytokend's HSM tokens.
package struct MerchantIdentity: Sendable, Hashable {
    /// Base64 of 32 bytes, which identifies the key.
    package let publicKeyHash: String
    /// DER, with the merchant's own certificate first.
    package let certificateChain: [[UInt8]]
    package let notBefore: Date
    package let notAfter: Date
    /// The algorithms in the order of preference. TLS 1.3 requires ``TLSHandshake/TLSSignatureAlgorithm/pssSHA256``.
    package let algorithms: [TLSSignatureAlgorithm]

    /// Returns nil if there is no readable certificate, or no known algorithm.
    package init?(_ identity: TLSIdentity) {
        let chain = identity.certificateChain.map { Base64.decode($0) }
        let known = identity.algorithms.compactMap(TLSSignatureAlgorithm.init(rawValue:))
        guard let own = chain.first.flatMap({ $0 }), !chain.contains(nil), !known.isEmpty,
            let certificate = try? Certificate(derEncoded: own)
        else { return nil }
        publicKeyHash = identity.publicKeyHash
        certificateChain = chain.compactMap { $0 }
        notBefore = certificate.notValidBefore
        notAfter = certificate.notValidAfter
        algorithms = known
    }
}

/// The source of merchants' certificates and of signatures with their keys.
package protocol MerchantIdentitySource: Sendable {
    /// Returns the merchant's active identities, newest first, or an empty array if it has none.
    func identities(
        of merchantIdentifier: String, for origin: SessionOrigin
    ) async throws(IdentityFailure) -> [MerchantIdentity]

    /// Returns a signature of 256 bytes over `input`. The input is the unhashed data that TLS passes to a certificate's
    /// key.
    func signature(
        by publicKeyHash: String, _ algorithm: TLSSignatureAlgorithm, over input: [UInt8], for origin: SessionOrigin
    ) async throws(IdentityFailure) -> [UInt8]
}

/// The reason why paytokend returned no identity or no signature.
package enum IdentityFailure: Error, Sendable, Equatable {
    case unreachable(UnixSocketClientError)
    /// paytokend refused with this code and sentence.
    case refused(code: String, message: String)
    /// This version cannot read paytokend's response.
    case unreadable
    /// The session's deadline passed before paytokend responded.
    case late

    /// Returns true if paytokend no longer signs with this key. Another key of the merchant may still be usable.
    var concernsKey: Bool {
        guard case .refused(let code, _) = self else { return false }
        return ["key_not_active", "unknown_public_key_hash", "key_not_found"].contains(code)
    }
}

/// Requests identities and signatures from paytokend, through its payments socket. The gateway's account needs the role
/// `session` in paytokend's access rules.
struct PaytokendIdentities: MerchantIdentitySource {
    private let paytokend: PaytokendCalls

    init(_ paytokend: PaytokendCalls) { self.paytokend = paytokend }

    private struct Identities: Decodable {
        let items: [TLSIdentity]
    }

    func identities(
        of merchantIdentifier: String, for origin: SessionOrigin
    ) async throws(IdentityFailure) -> [MerchantIdentity] {
        let target = "/v1/tls-identities?merchantIdentifier=" + PercentEncoding.encoded(merchantIdentifier)
        let items = try await answer(Identities.self, to: .get(target), for: origin).items
        let identities = items.compactMap(MerchantIdentity.init)
        guard identities.count == items.count else { throw .unreadable }
        return identities
    }

    func signature(
        by publicKeyHash: String, _ algorithm: TLSSignatureAlgorithm, over input: [UInt8], for origin: SessionOrigin
    ) async throws(IdentityFailure) -> [UInt8] {
        let request = TLSSignatureRequest(publicKeyHash: publicKeyHash, algorithm: algorithm, input: input)
        guard let body = try? JSONCoding.encode(request) else { throw .unreadable }
        let answer = try await answer(
            TLSSignatureAnswer.self, to: .post("/v1/tls-signatures", body: body), for: origin)
        guard let signature = Base64.decode(answer.signature), signature.count == 256 else { throw .unreadable }
        return signature
    }

    private func answer<Answer: Decodable>(
        _ type: Answer.Type, to request: ClientRequest, for origin: SessionOrigin
    ) async throws(IdentityFailure) -> Answer {
        var request = request
        request.traceparent = origin.traceparent
        // The request to paytokend ends at the session's deadline at the latest.
        let left = Duration.nanoseconds((origin.deadline - .now()).nanoseconds)
        guard left > .zero else { throw .late }
        let deadline = ContinuousClock.now + left
        let answer: ClientAnswer
        do { answer = try await paytokend.send(request, for: origin.client, before: deadline).answer } catch {
            switch error {
            case .deadlineExceeded, .busy: if deadline <= .now { throw .late }
            default: break
            }
            throw .unreachable(error)
        }
        guard answer.isSuccess else {
            guard let refusal = answer.refusal else { throw .unreadable }
            throw .refused(code: refusal.code, message: refusal.message)
        }
        guard let decoded = try? answer.decoded(as: type) else { throw .unreadable }
        return decoded
    }
}

/// Keeps paytokend's responses about merchants' identities for a few seconds, since each costs a request. This is safe
/// because paytokend refuses to sign with a key that has since been suspended.
final class IdentityCache: Sendable {
    private struct Entry {
        let identities: [MerchantIdentity]
        let until: ContinuousClock.Instant
    }

    private let source: any MerchantIdentitySource
    private let lifetime: Duration
    /// The lifetime of an entry for a merchant without an identity. It is short, so that an identity is used soon after
    /// an operator has activated it. The entry still prevents a client from causing a request to paytokend with each of
    /// its own requests.
    private let lifetimeOfNone: Duration
    private let entries = Mutex<[String: Entry]>([:])

    /// The maximum number of merchants in the cache. A full cache removes an arbitrary merchant to make room for
    /// another.
    private static let maximumMerchants = 1024

    init(_ source: any MerchantIdentitySource, lifetime: Duration = .seconds(10), ofNone: Duration = .seconds(1)) {
        self.source = source
        self.lifetime = lifetime
        lifetimeOfNone = ofNone
    }

    func identities(
        of merchantIdentifier: String, for origin: SessionOrigin
    ) async throws(IdentityFailure) -> [MerchantIdentity] {
        let now = ContinuousClock.now
        if let entry = entries.withLock({ $0[merchantIdentifier] }), entry.until > now { return entry.identities }
        let identities = try await source.identities(of: merchantIdentifier, for: origin)
        entries.withLock { entries in
            if entries.count >= Self.maximumMerchants {
                entries = entries.filter { $0.value.until > now }
                // A merchant without an identity is not added to a full cache. Otherwise requests with made-up names
                // would remove other merchants' certificates.
                if entries.count >= Self.maximumMerchants, identities.isEmpty { return }
                if entries.count >= Self.maximumMerchants, let any = entries.keys.first { entries[any] = nil }
            }
            entries[merchantIdentifier] = Entry(
                identities: identities, until: now + (identities.isEmpty ? lifetimeOfNone : lifetime))
        }
        return identities
    }

    func forget(_ merchantIdentifier: String) { entries.withLock { $0[merchantIdentifier] = nil } }
}

import Crypto
import CryptoExtras
import DaemonAPI
import Encodings
import Foundation
import NIOSSL
import TLSHandshake
import TestSupport
import TokenForge

@testable import Gateway

/// Identities with keys in the tests' memory, in place of paytokend.
final class SoftwareIdentities: MerchantIdentitySource {
    struct Key: Sendable {
        let identity: TLSIdentity
        let key: _RSA.Signing.PrivateKey
    }

    /// The key of `merchant.com.example.identity`. All tests share it, because generating RSA keys takes time.
    static let shared = Task { try Key(merchant: merchantIdentifier) }
    static let merchantIdentifier = "merchant.com.example.identity"

    private let keys: Shared<[String: [Key]]>
    /// The failure of each key's signature, by the key's publicKeyHash. The entry "" is the failure of the request for
    /// the list of keys.
    let failures = Shared<[String: IdentityFailure]>([:])
    /// The inputs that were signed, in order.
    let inputs = Shared<[ClientCertificateVerifyInput]>([])
    let algorithms = Shared<[TLSSignatureAlgorithm]>([])
    let listed = Shared(0)
    /// A latch that delays signatures while it is closed.
    let latch = Latch(isOpen: true)

    init(_ keys: [String: [Key]]) { self.keys = Shared(keys) }

    /// Makes a source with the shared merchant's identity and an identity of `merchant.com.example.other`.
    static func twoMerchants() async throws -> SoftwareIdentities {
        SoftwareIdentities([
            merchantIdentifier: [try await shared.value],
            "merchant.com.example.other": [try Key(merchant: "merchant.com.example.other")],
        ])
    }

    /// Makes a source with only the shared merchant's identity.
    static func usual() async throws -> SoftwareIdentities {
        SoftwareIdentities([merchantIdentifier: [try await shared.value]])
    }

    func identities(
        of merchantIdentifier: String, for origin: SessionOrigin
    ) async throws(IdentityFailure) -> [MerchantIdentity] {
        listed.change { $0 += 1 }
        if let failure = failures.current[""] { throw failure }
        return (keys.current[merchantIdentifier] ?? []).compactMap { MerchantIdentity($0.identity) }
    }

    func signature(
        by publicKeyHash: String, _ algorithm: TLSSignatureAlgorithm, over input: [UInt8], for origin: SessionOrigin
    ) async throws(IdentityFailure) -> [UInt8] {
        await latch.pass()
        if let failure = failures.current[publicKeyHash] { throw failure }
        do {
            // This parser throws for the inputs that paytokend would refuse.
            let parsed = try ClientCertificateVerifyInput(parsing: input)
            guard parsed.permits(algorithm) else { throw IdentityFailure.unreadable }
            if case .tls12(let transcript) = parsed { try transcript.requireAppleHost() }
            inputs.change { $0.append(parsed) }
            algorithms.change { $0.append(algorithm) }
            guard
                let key = keys.current.values.joined().first(where: { $0.identity.publicKeyHash == publicKeyHash })?.key
            else { throw IdentityFailure.refused(code: "unknown_public_key_hash", message: "") }
            let digest = SHA256.hash(data: input)
            let padding: _RSA.Signing.Padding = algorithm == .pssSHA256 ? .PSS : .insecurePKCS1v1_5
            return Array(try key.signature(for: digest, padding: padding).rawRepresentation)
        } catch { throw error as? IdentityFailure ?? .unreadable }
    }
}

extension SoftwareIdentities.Key {
    init(merchant: String, authority: ForgeAuthority? = nil) throws {
        let profile = MerchantCertificateProfile(merchantIdentifier: merchant, kind: .merchantIdentity)
        let forged = try ForgedMerchant(
            authority: authority ?? SharedForge.authority, type: .rsa2048, profile: profile)
        identity = TLSIdentity(
            publicKeyHash: Base64.encode(forged.merchant.publicKeyHash),
            certificateChain: [Base64.encode(forged.certificate)], notAfter: profile.notAfter,
            algorithms: ["rsa_pss_rsae_sha256", "rsa_pkcs1_sha256"])
        key = try _RSA.Signing.PrivateKey(pemRepresentation: forged.key.pem)
    }

    /// The same key, but limited to signing with these algorithms.
    func with(_ algorithms: [TLSSignatureAlgorithm]) -> Self {
        var identity = identity
        identity.algorithms = algorithms.map(\.rawValue)
        return Self(identity: identity, key: key)
    }
}

/// Stores the events that the session client reports.
final class RecordedSessions: SessionObserver {
    let sessions = Shared<[String]>([])
    let handshakes = Shared<[String]>([])
    let signatures = Shared<[String]>([])
    let connections = Shared<[Bool]>([])
    let ends = Shared<[Date]>([])

    func sessionEnded(outcome: String, after: Duration) { sessions.change { $0.append(outcome) } }
    func handshakeEnded(outcome: String) { handshakes.change { $0.append(outcome) } }
    func signatureEnded(outcome: String, after: Duration) { signatures.change { $0.append(outcome) } }
    func connectionTaken(isNew: Bool) { connections.change { $0.append(isNew) } }
    func identityUsed(merchantIdentifier: String, ends: Date, now: Date) { self.ends.change { $0.append(ends) } }
}

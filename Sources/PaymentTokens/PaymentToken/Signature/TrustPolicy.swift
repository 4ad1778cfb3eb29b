internal import BoundedTable
internal import Crypto
internal import Encodings
public import Foundation
internal import Locks
public import Refusals
internal import SwiftASN1
@_spi(DisableValidityCheck) public import X509

// Unsafe: The hasher reads the bytes within the closure.

/// The rules for trusted signers: the first three points of step 1 of Apple's payment token format reference.
///
/// A chain has a leaf, an intermediate and a root of this policy. All three must be valid at the signing time, and not
/// distrusted. They must have the key usages of a signer and of certificate authorities, respectively, and Apple's
/// marker extensions. Accepted chains are cached, since checking the root's P-384 signature takes ten times as long as
/// checking the payment token's signature.
///
/// The policy does not check revocation (no OCSP, no CRL), because every payment would have to wait for a server on the
/// Internet. An operator revokes a certificate by listing its fingerprint under `distrusted`. Reloading the
/// configuration makes a new policy with an empty cache.
public final class TrustPolicy: Sendable {
    private let roots: CertificateStore
    /// The subjects of the roots, in DER.
    private let rootNames: Set<ArraySlice<UInt8>>
    private let distrusted: Set<[UInt8]>
    private let cache: Mutex<ChainCache>

    /// - Parameters:
    ///   - roots: the only certificates at which a chain may end; `AppleRootCAG3` in production.
    ///   - distrusted: SHA-256 fingerprints, 32 bytes each, of leaves, intermediates or roots.
    ///   - chainCacheCapacity: the largest number of cached chains; Apple uses a few leaves at a time.
    public init(roots: [Certificate], distrusted: Set<[UInt8]>, chainCacheCapacity: Int = 64) {
        self.roots = CertificateStore(roots)
        rootNames = Set(roots.compactMap { root in try? CertificateFields(der: DER.bytes(of: root)).subject })
        self.distrusted = distrusted
        self.cache = Mutex(ChainCache(capacity: chainCacheCapacity))
    }

    /// The number of cached chains.
    var rememberedChains: Int { cache.withLock { cache in cache.count } }

    /// - Throws: `certificate_untrusted`; `marker_oid_missing` for a chain that is otherwise trusted.
    public func evaluate(_ evidence: SignatureEvidence) async throws(Refusal) -> VerifiedChain {
        let key = ChainCache.Key(leafDER: evidence.leafDER, intermediateDER: evidence.intermediateDER)
        if let chain = cache.withLock({ cache in cache.chain(for: key, validAt: evidence.signingTime) }) {
            return chain
        }

        try checkNamesAndKeys(of: evidence)
        guard let leaf = try? Certificate(derEncoded: evidence.leafDER),
            let intermediate = try? Certificate(derEncoded: evidence.intermediateDER)
        else { throw .certificateUntrusted("a certificate cannot be read") }
        let root = try await root(over: leaf, intermediate: intermediate)
        guard let rootDescription = try? CertificateDescription(root)
        else { throw .certificateUntrusted("the root certificate cannot be read") }
        let chain = VerifiedChain(
            leaf: CertificateDescription(leaf, der: evidence.leafDER),
            intermediate: CertificateDescription(intermediate, der: evidence.intermediateDER),
            root: rootDescription)

        try checkDistrust(of: [(evidence.leafDER, "leaf"), (evidence.intermediateDER, "intermediate")])
        guard !distrusted.contains(chain.root.sha256)
        else { throw .certificateUntrusted("the root certificate is distrusted by configuration") }
        for (certificate, name) in zip(chain.certificates, ["leaf", "intermediate", "root"]) {
            guard certificate.isValid(at: evidence.signingTime)
            else { throw .certificateUntrusted("the \(name) certificate was not valid at the signing time") }
        }
        try Self.checkMarkers(leaf: leaf, intermediate: intermediate)

        cache.withLock { cache in cache.insert(chain, for: key) }
        return chain
    }

    /// Refuses certificates that cannot form a chain to a root, before any costly check. Any caller can present any
    /// number of certificates, and only chains to a root are cached.
    private func checkNamesAndKeys(of evidence: SignatureEvidence) throws(Refusal) {
        guard let leaf = try? CertificateFields(der: evidence.leafDER),
            let intermediate = try? CertificateFields(der: evidence.intermediateDER)
        else { throw .certificateUntrusted("a certificate cannot be read") }
        guard leaf.issuer == intermediate.subject, rootNames.contains(intermediate.issuer)
        else { throw .certificateUntrusted(Self.noChain) }
        guard !SignerKey.isTooLong(subjectPublicKeyInfo: intermediate.subjectPublicKeyInfo)
        else { throw .certificateUntrusted("the intermediate's key has more than \(SignerKey.maximumRSABits) bits") }
    }

    private static let noChain =
        "the certificates do not form a chain from the signer to a trusted root (RFC 5280 §6)"

    /// Refuses a certificate if the fingerprint of any encoding that passes verification is distrusted.
    private func checkDistrust(of certificates: [(der: [UInt8], name: String)]) throws(Refusal) {
        for (der, name) in certificates {
            guard let fingerprints = try? CertificateMalleability.fingerprints(of: der)
            else { throw .certificateUntrusted("the \(name) certificate is not strictly DER") }
            guard distrusted.isDisjoint(with: fingerprints)
            else { throw .certificateUntrusted("the \(name) certificate is distrusted by configuration") }
        }
    }

    /// The root at which the path from `leaf` through `intermediate` ends.
    private func root(over leaf: Certificate, intermediate: Certificate) async throws(Refusal) -> Certificate {
        // The caller, not the verifier, checks the validity period at the signing time, which differs between payment
        // tokens.
        var verifier = Verifier(rootCertificates: roots) {
            RFC5280Policy.withValidityCheckDisabled()
            ApplePayChainPolicy()
        }
        switch await verifier.validate(leaf: leaf, intermediates: CertificateStore([intermediate])) {
        case .validCertificate(let chain):
            return chain.root
        case .couldNotValidate(let failures):
            // RFC5280Policy's reasons contain whole certificates, which are too long for a refusal.
            let reasons = failures.map(\.policyFailureReason.description).filter { reason in
                !reason.hasPrefix("RFC5280Policy")
            }
            throw .certificateUntrusted(reasons.first ?? Self.noChain)
        }
    }

    private static func checkMarkers(leaf: Certificate, intermediate: Certificate) throws(Refusal) {
        for (certificate, marker, name) in [
            (leaf, ASN1ObjectIdentifier.applePayLeafMarker, "leaf"),
            (intermediate, ASN1ObjectIdentifier.applePayIntermediateMarker, "intermediate"),
        ] where certificate.extensions[oid: marker] == nil {
            throw Refusal(
                .markerOIDMissing,
                "The payment token's signer is not one that Apple uses for Apple Pay; do not use it.",
                details: "the \(name) certificate has no extension \(marker)")
        }
    }
}

extension DER {
    fileprivate static func bytes(of certificate: Certificate) throws -> [UInt8] {
        var serializer = DER.Serializer()
        try serializer.serialize(certificate)
        return serializer.serializedBytes
    }
}

/// The requirements on an Apple Pay chain in addition to RFC 5280's path rules. It must be exactly leaf, intermediate
/// and root, each with the key usage for its purpose.
///
/// `RFC5280Policy` does not check key usage. The certificates are counted because a `Verifier` accepts a leaf that is
/// itself a root as a chain of one.
private struct ApplePayChainPolicy: VerifierPolicy {
    /// Apple's marker extensions may be critical.
    let verifyingCriticalExtensions: [ASN1ObjectIdentifier] = [.applePayLeafMarker, .applePayIntermediateMarker]

    func chainMeetsPolicyRequirements(chain: UnverifiedCertificateChain) -> PolicyEvaluationResult {
        guard chain.count == 3
        else { return .failsToMeetPolicy(reason: "the chain is not leaf, intermediate and root") }
        do {
            return try evaluate(leaf: chain[0].extensions, intermediate: chain[1].extensions)
        } catch {
            return .failsToMeetPolicy(reason: "an extension of the chain's certificates cannot be read")
        }
    }

    private func evaluate(
        leaf: Certificate.Extensions, intermediate: Certificate.Extensions
    ) throws -> PolicyEvaluationResult {
        if case .isCertificateAuthority = try leaf.basicConstraints {
            return .failsToMeetPolicy(reason: "the leaf is a certificate authority")
        }
        guard let leafUsage = try leaf.keyUsage, leafUsage.digitalSignature
        else { return .failsToMeetPolicy(reason: "the leaf's key usage is not digitalSignature") }
        guard case .isCertificateAuthority = try intermediate.basicConstraints
        else { return .failsToMeetPolicy(reason: "the intermediate is not a certificate authority") }
        guard let intermediateUsage = try intermediate.keyUsage, intermediateUsage.keyCertSign
        else { return .failsToMeetPolicy(reason: "the intermediate's key usage is not keyCertSign") }
        return .meetsPolicy
    }
}

/// Accepted chains, keyed by the exact bytes of leaf and intermediate. Their number is limited; the oldest is removed
/// first.
///
/// Each `TrustPolicy` has its own cache, so the roots and the distrusted certificates need not be part of the key.
/// Only certificates that chain to a root are added, so untrusted callers cannot displace genuine chains.
struct ChainCache {
    struct Key: Hashable {
        let leafDER: [UInt8]
        let intermediateDER: [UInt8]

        /// Hashes only the bytes of the leaf, in one call, because an array's own hashing takes one byte at a time.
        /// Equality compares both certificates.
        func hash(into hasher: inout Hasher) {
            unsafe leafDER.withUnsafeBytes { unsafe hasher.combine(bytes: $0) }
        }
    }

    private var chains: BoundedTable<Key, VerifiedChain>

    init(capacity: Int) {
        chains = BoundedTable(capacity: capacity)
    }

    /// The accepted chain, if `signingTime` is within the validity periods of all three certificates.
    func chain(for key: Key, validAt signingTime: Date) -> VerifiedChain? {
        guard let chain = chains[key],
            chain.certificates.allSatisfy({ certificate in certificate.isValid(at: signingTime) })
        else { return nil }
        return chain
    }

    mutating func insert(_ chain: VerifiedChain, for key: Key) { chains.set(chain, for: key) }

    var count: Int { chains.count }
}

/// A chain that a `TrustPolicy` accepted for a payment token's signing time: leaf, intermediate, root.
public struct VerifiedChain: Sendable, Equatable {
    public let leaf: CertificateDescription
    public let intermediate: CertificateDescription
    public let root: CertificateDescription

    /// Leaf, intermediate, root: the order in responses.
    public var certificates: [CertificateDescription] { [leaf, intermediate, root] }
}

/// A certificate as described in responses and audit records.
public struct CertificateDescription: Sendable, Equatable {
    /// The subject as RFC 4514 writes it.
    public let subject: String
    /// The issuer as RFC 4514 writes it.
    public let issuer: String
    /// The serial number in lower-case hexadecimal, two digits for each byte.
    public let serialNumber: String
    public let notBefore: Date
    public let notAfter: Date
    /// SHA-256 of the DER, 32 bytes.
    public let sha256: [UInt8]

    init(
        subject: String, issuer: String, serialNumber: String, notBefore: Date, notAfter: Date, sha256: [UInt8]
    ) {
        self.subject = subject
        self.issuer = issuer
        self.serialNumber = serialNumber
        self.notBefore = notBefore
        self.notAfter = notAfter
        self.sha256 = sha256
    }

    /// - Parameter der: the bytes from which `certificate` was parsed.
    public init(_ certificate: Certificate, der: [UInt8]) {
        subject = certificate.subject.description
        issuer = certificate.issuer.description
        serialNumber = Hexadecimal.encode(certificate.serialNumber.bytes)
        notBefore = certificate.notValidBefore
        notAfter = certificate.notValidAfter
        sha256 = Array(SHA256.hash(data: der))
    }
}

extension CertificateDescription {
    /// The fingerprint in lower-case hexadecimal, 64 characters.
    public var sha256Hex: String { Hexadecimal.encode(sha256) }

    /// - Throws: an error if the certificate cannot be written as DER.
    public init(_ certificate: Certificate) throws {
        var serializer = DER.Serializer()
        try serializer.serialize(certificate)
        self.init(certificate, der: serializer.serializedBytes)
    }

    /// Returns true if `time` is within the validity period, both ends included (RFC 5280 §4.1.2.5).
    func isValid(at time: Date) -> Bool {
        notBefore <= time && time <= notAfter
    }
}

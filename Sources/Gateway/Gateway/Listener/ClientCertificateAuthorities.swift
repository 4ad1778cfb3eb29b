import Foundation
import SwiftASN1
import X509

/// The reason why the names in a client's certificate are not accepted. Each description is a fixed text for display,
/// except that one contains an object identifier.
enum ClientChainFault: Error, Sendable, Equatable, CustomStringConvertible {
    case noAuthorities
    case unreadable
    case repeatedSubject
    case notForClients
    case criticalExtension(ASN1ObjectIdentifier)
    case notValidNow
    case noPath
    case brokenRule
    case resumed

    var description: String {
        switch self {
        case .noAuthorities: "listener.tls.client_ca is not configured"
        case .unreadable: "it, or an issuer that was sent with it, cannot be read"
        case .repeatedSubject: "two of the certificates that were sent have the same subject"
        case .notForClients: "its extendedKeyUsage, or an issuer's critical one, does not name clientAuth"
        case .criticalExtension(let identifier):
            "it, or an issuer, has an unknown critical extension"
                + (identifier.description.utf8.count <= 64 ? ", \(identifier)" : "")
        case .notValidNow: "it, or an issuer, is not valid now"
        case .noPath: "no path of issuers leads from it to listener.tls.client_ca"
        case .resumed: "its issuers are unknown in a resumed TLS session; connect again"
        case .brokenRule: "its path breaks a rule of RFC 5280, such as a name constraint or a path's length"
        }
    }
}

/// Verifies the chain of a client certificate: path validation according to RFC 5280, and the TLS client purpose.
struct ClientCertificateAuthorities: Sendable {
    let roots: [Certificate]

    /// The maximum number of certificates in a chain: the client's and a few issuers.
    static let longestChain = 4

    /// Returns true if the chain has one to ``longestChain`` certificates, and they have at most
    /// ``PresentedCertificate/maximumBytes`` bytes in total.
    static func isWithinSizeLimits(_ chain: [[UInt8]]) -> Bool {
        (1...longestChain).contains(chain.count)
            && chain.reduce(0) { $0 + $1.count } <= PresentedCertificate.maximumBytes
    }

    /// Verifies a client's chain.
    ///
    /// - Parameter chain: the certificates as DER, the client's own first.
    /// - Returns: the time until which all certificates of the path are valid.
    func accept(_ chain: [[UInt8]]) async throws(ClientChainFault) -> Date {
        guard !roots.isEmpty else { throw .noAuthorities }
        let certificates = chain.compactMap { try? Certificate(derEncoded: $0) }
        guard Self.isWithinSizeLimits(chain), certificates.count == chain.count else { throw .unreadable }
        // Certificates with the same subject and key may each have issued the others. The search for a path would try
        // them in every order and verify a signature each time. An unknown client could cause that work at no cost.
        guard Set(certificates.map(\.subject)).count == chain.count else { throw .repeatedSubject }
        try Self.checkExtensions(of: certificates)
        var verifier = Verifier(rootCertificates: CertificateStore(roots)) {
            RFC5280Policy()
            ClientExtensionsPolicy()
        }
        switch await verifier.validate(
            leaf: certificates[0], intermediates: CertificateStore(certificates.dropFirst()))
        {
        case .validCertificate(let path): return path.map(\.notValidAfter).min() ?? .distantPast
        case .couldNotValidate(let failures):
            let (now, paths) = (Date(), failures.map(\.chain))
            if (paths.flatMap { $0 } + certificates).contains(where: { !$0.isValid(at: now) }) { throw .notValidNow }
            throw paths.isEmpty ? .noPath : .brokenRule
        }
    }

    private static func checkExtensions(of chain: [Certificate]) throws(ClientChainFault) {
        let known = RFC5280Policy().verifyingCriticalExtensions + ClientExtensionsPolicy().verifyingCriticalExtensions
        for (index, certificate) in chain.enumerated() {
            if let unknown = certificate.extensions.first(where: { $0.critical && !known.contains($0.oid) }) {
                throw .criticalExtension(unknown.oid)
            }
            guard ClientExtensionsPolicy.isForClients(certificate, isIssuer: index > 0) else { throw .notForClients }
        }
        do { _ = try chain[0].extensions.subjectAlternativeNames } catch { throw .unreadable }
    }
}

/// Accepts the critical extensions of a client's certificate that `RFC5280Policy` does not handle: the extended key
/// usage and the subject alternative name. The latter is critical if the certificate has no other name, as for a SPIFFE
/// workload (RFC 5280 §4.2.1.6).
private struct ClientExtensionsPolicy: VerifierPolicy {
    let verifyingCriticalExtensions: [ASN1ObjectIdentifier] = [
        .X509ExtensionID.extendedKeyUsage, .X509ExtensionID.subjectAlternativeName,
    ]

    func chainMeetsPolicyRequirements(chain: UnverifiedCertificateChain) -> PolicyEvaluationResult {
        chain.enumerated().allSatisfy { Self.isForClients($1, isIssuer: $0 > 0) }
            ? .meetsPolicy : .failsToMeetPolicy(reason: "a certificate is not for TLS clients")
    }

    /// Returns true if the extended key usage is absent or names client authentication (RFC 5280 §4.2.1.12). An
    /// issuer's extended key usage is checked only if it is critical: the RFC defines no effect on the certificates
    /// that the issuer signs.
    static func isForClients(_ certificate: Certificate, isIssuer: Bool) -> Bool {
        guard let found = certificate.extensions[oid: .X509ExtensionID.extendedKeyUsage], !isIssuer || found.critical
        else { return true }
        guard let usage = try? ExtendedKeyUsage(found) else { return false }
        return usage.contains(.clientAuth) || isIssuer && usage.contains(.any)
    }
}

extension Certificate {
    fileprivate func isValid(at time: Date) -> Bool { notValidBefore <= time && time <= notValidAfter }
}

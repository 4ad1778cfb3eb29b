import Crypto
import Foundation
import SwiftASN1
import Synchronization
import X509

/// The certificate whose key a client has proved in its TLS handshake, read once.
struct PresentedCertificate: Sendable {
    /// Of its DER.
    let sha256: [UInt8]
    /// DNS names in lower case, and URIs, of its subjectAltName (RFC 5280 §4.2.1.6).
    let names: Set<String>
    let notBefore: Date
    let notAfter: Date
    /// The generation of the clients' list under whose certificate authorities its chain was verified; nil when it was not.
    private let verifiedGeneration: Int?

    /// A certificate is of a few kilobytes; more is none.
    static let maximumBytes = 16_384

    /// - Parameter verifiedGeneration: nil where the chain was not verified.
    init?(der: [UInt8], verifiedGeneration: Int?) {
        guard der.count <= Self.maximumBytes, let certificate = try? Certificate(derEncoded: der) else { return nil }
        sha256 = Array(SHA256.hash(data: Data(der)))
        notBefore = certificate.notValidBefore
        notAfter = certificate.notValidAfter
        names = Set(
            ((try? certificate.extensions.subjectAlternativeNames) ?? nil)?.compactMap { name in
                switch name {
                case .dnsName(let name): name.lowercased()
                case .uniformResourceIdentifier(let text): text
                default: nil
                }
            } ?? [])
        self.verifiedGeneration = verifiedGeneration
    }

    init(sha256: [UInt8], names: Set<String>, notBefore: Date, notAfter: Date, verifiedGeneration: Int?) {
        self.sha256 = sha256
        self.names = names
        self.notBefore = notBefore
        self.notAfter = notAfter
        self.verifiedGeneration = verifiedGeneration
    }

    func isValid(at time: Date) -> Bool { (notBefore...max(notBefore, notAfter)).contains(time) }

    /// Whether one of the certificate authorities in force issued it. After a reload those are others, perhaps, and a connection
    /// from before must be made anew.
    func isVerified(under generation: Int) -> Bool { verifiedGeneration == generation }
}

/// Verifies the chain of a client certificate: RFC 5280's path validation, and that the certificate is for TLS clients.
struct ClientCertificateAuthorities: Sendable {
    let roots: [Certificate]

    /// A client shows its own certificate and a few issuers.
    static let longestChain = 4

    /// At most ``longestChain`` certificates of ``PresentedCertificate/maximumBytes`` together.
    static func isOfUsualSize(_ chain: [[UInt8]]) -> Bool {
        (1...longestChain).contains(chain.count)
            && chain.reduce(0) { $0 + $1.count } <= PresentedCertificate.maximumBytes
    }

    /// - Parameter chain: as DER, the client's own first.
    /// - Returns: until when all certificates of its path are valid; nil where there is no path.
    func accept(_ chain: [[UInt8]]) async -> Date? {
        guard !roots.isEmpty, Self.isOfUsualSize(chain) else { return nil }
        let certificates = chain.compactMap { try? Certificate(derEncoded: $0) }
        // Certificates of one subject and key may each have issued each other. The search for a path tries them in every order,
        // each with its signature, and the client is not known yet.
        guard certificates.count == chain.count, Set(certificates.map(\.subject)).count == chain.count,
            Self.isForClients(certificates[0])
        else { return nil }
        var verifier = Verifier(rootCertificates: CertificateStore(roots)) {
            RFC5280Policy()
        }
        let result = await verifier.validate(
            leaf: certificates[0], intermediates: CertificateStore(certificates.dropFirst()))
        guard case .validCertificate(let path) = result else { return nil }
        return path.map(\.notValidAfter).min()
    }

    /// RFC 5280 §4.2.1.12: where there is an extended key usage it must name client authentication.
    private static func isForClients(_ certificate: Certificate) -> Bool {
        guard let usage = try? certificate.extensions.extendedKeyUsage else {
            return !certificate.extensions.contains { $0.oid == .X509ExtensionID.extendedKeyUsage }
        }
        return usage.contains(.clientAuth)
    }
}

/// The clients' certificates whose chains were verified in the handshakes of one TLS context, and until when those are valid.
///
/// In a resumed session (RFC 8446 §2.2, RFC 5077) a client shows no chain again; its own certificate stands in the ticket. Tickets are
/// sealed with keys of one context, so the chain was verified in another handshake of this one and by the same authorities,
/// or was not.
final class VerifiedClientCertificates: Sendable {
    /// Beyond so many a client is not remembered, and known by its name in whole handshakes only.
    static let most = 4096

    /// By the SHA-256 of the client's certificate.
    private let ends = Mutex<[[UInt8]: Date]>([:])

    func remember(_ certificate: [UInt8], until end: Date, now: Date = Date()) {
        ends.withLock { ends in
            let name = Array(SHA256.hash(data: certificate))
            if ends.count >= Self.most, ends[name] == nil { ends = ends.filter { $0.value >= now } }
            if ends.count < Self.most || ends[name] != nil { ends[name] = end }
        }
    }

    func contains(_ certificate: [UInt8], at time: Date = Date()) -> Bool {
        ends.withLock { $0[Array(SHA256.hash(data: certificate))].map { time <= $0 } ?? false }
    }
}

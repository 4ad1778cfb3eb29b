import Crypto
import Foundation
import Locks
import SwiftASN1
import X509

/// The certificate whose key a client has proved to possess in its TLS handshake. It is parsed once.
struct PresentedCertificate: Sendable {
    /// SHA-256 of the certificate's DER.
    let sha256: [UInt8]
    let names: Set<CertificateName>
    let notBefore: Date
    let notAfter: Date
    /// The result of verifying the chain: the generation of the client list whose authorities verified it, or the
    /// reason for the failure.
    private let verification: Result<Int, ClientChainFault>

    /// The size limit of a certificate; a genuine one has a few kilobytes.
    static let maximumBytes = 16_384

    init?(der: [UInt8], _ verification: Result<Int, ClientChainFault>) {
        guard der.count <= Self.maximumBytes, let certificate = try? Certificate(derEncoded: der) else { return nil }
        sha256 = Array(SHA256.hash(data: Data(der)))
        notBefore = certificate.notValidBefore
        notAfter = certificate.notValidAfter
        names = Set(
            ((try? certificate.extensions.subjectAlternativeNames) ?? nil)?.compactMap { name in
                switch name {
                case .dnsName(let name): .dns(name.lowercased())
                case .uniformResourceIdentifier(let text): .uri(text)
                default: nil
                }
            } ?? [])
        self.verification = verification
    }

    init(
        sha256: [UInt8], names: Set<CertificateName>, notBefore: Date, notAfter: Date,
        _ verification: Result<Int, ClientChainFault>
    ) {
        self.sha256 = sha256
        self.names = names
        self.notBefore = notBefore
        self.notAfter = notAfter
        self.verification = verification
    }

    func isValid(at time: Date) -> Bool { (notBefore...max(notBefore, notAfter)).contains(time) }

    /// Returns true if the chain was verified with the authorities of this generation. Each reload begins another
    /// generation, so a client that is identified by a certificate's name must then connect again.
    func isVerified(under generation: Int) -> Bool { (try? verification.get()) == generation }

    /// Returns the reason why the certificate does not identify a client.
    func identificationFault(at time: Date, under generation: Int) -> String {
        guard isValid(at: time) else { return "it is not valid now" }
        switch verification {
        case .success(generation): return "no client has its SHA-256 or one of its names"
        case .success: return "the configuration was reloaded; connect again"
        case .failure(let fault): return "no client has its SHA-256, and its names are not trusted: \(fault)"
        }
    }
}

/// Client certificates whose chains were verified in full handshakes of one TLS context, each with the time until which
/// its path is valid.
///
/// A resumed session (RFC 8446 §2.2, RFC 5077) has the client's certificate from its ticket, but no chain that could be
/// verified. Each ticket is sealed with the keys of one context. The chain was therefore verified in an earlier
/// handshake of the same context, with the same authorities, or not at all.
final class VerifiedClientCertificates: Sendable {
    /// The maximum number of certificates that are remembered. A client with a further certificate needs a full
    /// handshake to be identified by a name in it.
    static let most = 4096

    /// The time until which each certificate's path is valid, by the SHA-256 of the certificate.
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

import ConfigurationFile
import Encodings
import Foundation
import HostSystem
import NIOSSL
import Processors
import X509

/// `listener.tls`: the server's certificate, its key, and the authorities of client certificates.
///
/// Keeps the content of the files. A reload reads them again.
struct TLSFiles: Sendable, Equatable {
    /// The server's certificate first, then its issuers.
    let certificates: [NIOSSLCertificate]
    let privateKey: NIOSSLPrivateKey
    /// The expiry of the server's certificate.
    let notAfter: Date
    /// The roots of client certificates; nil without `client_ca`.
    let clientAuthorities: [Certificate]?

    static let keys = ["certificate", "private_key", "client_ca"]
    static let maximumBytes = 1 << 20
    static let maximumKeyBytes = 65_536
    /// The time before the certificate's expiry at which the warning begins, in seconds. It is long enough for a manual
    /// renewal.
    static let expiryWarningTime = 30.0 * 86_400
    /// The cipher suites of TLS 1.2, on both sides of the gateway: an ephemeral key and an AEAD (RFC 9325 §4.1, §4.2).
    /// All suites of TLS 1.3 are of this kind.
    static let cipherSuites = "ECDHE+AESGCM:ECDHE+CHACHA20"
}

extension TLSFiles {
    /// Reads the section; returns nil if it has reported a problem.
    init?(_ section: ConfigurationSection) {
        let certificates = section.certificates("certificate")
        let key = section.tlsPrivateKey("private_key")
        let authorities = section.node("client_ca") == nil ? nil : section.certificates("client_ca")
        guard let certificates, let key, authorities != nil || section.node("client_ca") == nil,
            let leaf = certificates.first
        else { return nil }
        self.certificates = certificates.map(\.tls)
        privateKey = key
        notAfter = leaf.x509.notValidAfter
        clientAuthorities = authorities?.map(\.x509)
        section.warnOfExpiry(notAfter, now: Date())
        // The server creates the same context at each start. Creating it here reports a key that does not match the
        // certificate as a problem of the configuration.
        guard (try? NIOSSLContext(configuration: serverConfiguration(requestsCertificates: false))) != nil else {
            section.problem("private_key", "is not the key of the certificate; give the two that belong together")
            return nil
        }
    }

    /// Returns settings for TLS 1.2 and 1.3 (RFC 9325 §3.1.1), without renegotiation.
    ///
    /// - Parameter requestsCertificates: true to request a certificate from clients, which is optional for them.
    func serverConfiguration(requestsCertificates: Bool) -> TLSConfiguration {
        var configuration = TLSConfiguration.makeServerConfiguration(
            certificateChain: certificates.map { .certificate($0) }, privateKey: .privateKey(privateKey))
        configuration.restrictAlgorithms()
        configuration.cipherSuites = Self.cipherSuites
        configuration.renegotiationSupport = .none
        // The time is short, because a peer that does not answer the TLS closure alert occupies a connection until the
        // time has passed.
        configuration.shutdownTimeout = .seconds(1)
        configuration.certificateVerification = requestsCertificates ? .optionalVerification : .none
        return configuration
    }
}

extension ConfigurationSection {
    /// Warns of a server certificate that has expired or expires soon, since clients refuse an expired one.
    fileprivate func warnOfExpiry(_ notAfter: Date, now: Date) {
        let left = notAfter.timeIntervalSince(now)
        guard left < TLSFiles.expiryWarningTime else { return }
        warning(
            .certificateEnd, "certificate",
            "the server's certificate \(left > 0 ? "ends" : "ended") on \(RFC3339.string(notAfter)); renew it and reload"
        )
    }

    /// Returns the certificates of a PEM file, or nil if it has reported a problem.
    fileprivate func certificates(_ name: String) -> [(tls: NIOSSLCertificate, x509: Certificate)]? {
        guard let text = text(name), !text.isEmpty else {
            problem(name, "is missing; name a file of certificates in PEM")
            return nil
        }
        let path = reader.absolute(text)
        do throws(SmallFile.Failure) {
            let bytes = try SmallFile.bytes(at: path, maximumBytes: TLSFiles.maximumBytes)
            let found = (try? NIOSSLCertificate.fromPEMBytes(bytes)) ?? []
            let read = found.compactMap { certificate in
                (try? certificate.toDERBytes()).flatMap { try? Certificate(derEncoded: $0) }.map { (certificate, $0) }
            }
            guard !read.isEmpty, read.count == found.count else {
                problem(name, "\(path) has no certificates in PEM, or one that is not X.509")
                return nil
            }
            return read
        } catch {
            problem(name, "\(path) cannot be read: \(error)")
            return nil
        }
    }

    /// Returns the private key in a PEM file that only this program's user and root can read. Returns nil if it has
    /// reported a problem.
    fileprivate func tlsPrivateKey(_ name: String) -> NIOSSLPrivateKey? {
        guard node(name) != nil else {
            problem(name, "is missing; name the file of the certificate's key in PEM")
            return nil
        }
        guard
            let path = secretFile(
                name, use: "can impersonate this server", maximumBytes: TLSFiles.maximumKeyBytes, hasLines: true)
        else { return nil }
        guard let key = try? NIOSSLPrivateKey(file: path, format: .pem) else {
            problem(name, "\(path) has no private key in PEM that is not encrypted")
            return nil
        }
        return key
    }
}

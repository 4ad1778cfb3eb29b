import Crypto
import Foundation
import SwiftASN1
import TestSupport
import X509

/// Certificates from a test authority, for a server at localhost and for clients, as PEM files.
struct TestCertificates {
    struct Pair {
        let certificate: Certificate
        let key: P256.Signing.PrivateKey

        var der: [UInt8] {
            get throws {
                var serializer = DER.Serializer()
                try serializer.serialize(certificate)
                return serializer.serializedBytes
            }
        }

        /// The value of `certificate_sha256`.
        var sha256: String {
            get throws { SHA256.hash(data: try der).map { String(format: "%02x", $0) }.joined() }
        }
    }

    let directory: FreshDirectory
    let authority: Pair
    let server: Pair
    /// A client certificate for backend.shop.example.
    let client: Pair
    /// A client certificate from another authority.
    let other: Pair

    /// Writes `ca`, `server`, `client` and `other`, each as `.pem` and, except `ca`, `.key`.
    init(in directory: FreshDirectory) throws {
        self.directory = directory
        authority = try Self.made("Test authority", issuer: nil, isAuthority: true)
        server = try Self.made("localhost", issuer: authority, names: ["localhost"], ips: [[127, 0, 0, 1]])
        client = try Self.made("backend", issuer: authority, names: ["backend.shop.example"], isClient: true)
        other = try Self.made("outsider", issuer: nil, names: ["backend.shop.example"], isClient: true)
        try directory.write(authority.certificate.serializeAsPEM().pemString + "\n", to: "ca.pem")
        try write(server, to: "server")
        try write(client, to: "client")
        try write(other, to: "other")
    }

    func write(_ pair: Pair, to name: String) throws {
        try directory.write(pair.certificate.serializeAsPEM().pemString + "\n", to: "\(name).pem")
        try directory.write(pair.key.pemRepresentation + "\n", to: "\(name).key")
    }

    /// Issues a certificate from the test authority or from one below it.
    ///
    /// - Parameters:
    ///   - isCritical: true to make its purposes and names critical, as for a SPIFFE workload.
    ///   - more: further extensions.
    func issue(
        _ name: String, names: [String] = [], uris: [String] = [], ends: Date = Date(timeIntervalSinceNow: 86_400),
        isClient: Bool = true, isCritical: Bool = false, more: [Certificate.Extension] = [], by issuer: Pair? = nil
    ) throws -> Pair {
        try Self.made(
            name, issuer: issuer ?? authority, names: names, uris: uris, isClient: isClient, isCritical: isCritical,
            more: more, ends: ends)
    }

    /// Issues an authority below the test authority or below another one. If it has the same subject and `key` as
    /// another authority, it differs from that one by its serial number and `names`.
    func issueAuthority(
        _ name: String, names: [String] = [], key: P256.Signing.PrivateKey = .init(), by issuer: Pair? = nil
    ) throws -> Pair {
        try Self.made(name, issuer: issuer ?? authority, names: names, isAuthority: true, key: key)
    }

    private static func made(
        _ name: String, issuer: Pair?, names: [String] = [], uris: [String] = [], ips: [[UInt8]] = [],
        isAuthority: Bool = false, isClient: Bool = false, isCritical: Bool = false,
        more: [Certificate.Extension] = [], ends: Date = Date(timeIntervalSinceNow: 86_400),
        key: P256.Signing.PrivateKey = .init()
    ) throws -> Pair {
        let subject = try DistinguishedName { CommonName(name) }
        let extensions = try Certificate.Extensions {
            if isAuthority {
                Critical(BasicConstraints.isCertificateAuthority(maxPathLength: nil))
                Critical(KeyUsage(keyCertSign: true))
                if !names.isEmpty { SubjectAlternativeNames(names.map { .dnsName($0) }) }
            } else {
                Critical(BasicConstraints.notCertificateAuthority)
                let usage = try ExtendedKeyUsage([isClient ? .clientAuth : .serverAuth])
                let alternatives = SubjectAlternativeNames(
                    names.map { .dnsName($0) } + uris.map { .uniformResourceIdentifier($0) }
                        + ips.map { .ipAddress(ASN1OctetString(contentBytes: $0[...])) })
                if isCritical {
                    Critical(usage)
                    Critical(alternatives)
                } else {
                    usage
                    alternatives
                }
                for extension_ in more { extension_ }
            }
        }
        let certificate = try Certificate(
            version: .v3, serialNumber: Certificate.SerialNumber(), publicKey: .init(key.publicKey),
            notValidBefore: min(Date(timeIntervalSinceNow: -3_600), ends.addingTimeInterval(-60)), notValidAfter: ends,
            issuer: issuer?.certificate.subject ?? subject, subject: subject, signatureAlgorithm: .ecdsaWithSHA256,
            extensions: extensions, issuerPrivateKey: .init(issuer?.key ?? key))
        return Pair(certificate: certificate, key: key)
    }
}

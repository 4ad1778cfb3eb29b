import Crypto
import Foundation
import TestSupport

/// Certificates made by openssl, in forms that TokenForge's authorities do not issue.
struct OpenSSLCertificates {
    enum Key: String {
        case p256 = "-newkey ec -pkeyopt ec_paramgen_curve:P-256"
        case p384 = "-newkey ec -pkeyopt ec_paramgen_curve:P-384"
        case rsa2048 = "-newkey rsa:2048"
        case rsa3072 = "-newkey rsa:3072"
        case ed25519 = "-newkey ed25519"
    }

    static let merchantExtension = "1.2.840.113635.100.6.32"

    /// The SHA-256 of `identifier` in upper-case hexadecimal, as in Apple's certificates.
    static func hash(_ identifier: String) -> String {
        SHA256.hash(data: Data(identifier.utf8)).hexadecimal.uppercased()
    }

    /// Makes a self-signed certificate, and returns its DER.
    ///
    /// - Parameters:
    ///   - subject: lines of an openssl distinguished_name section.
    ///   - extensions: lines of an openssl extension section.
    static func make(_ key: Key = .p256, subject: [String], extensions: [String]) async throws -> [UInt8] {
        let directory = try FreshDirectory()
        let configuration = """
            [req]
            distinguished_name = subject
            x509_extensions = extensions
            prompt = no
            string_mask = utf8only
            [subject]
            \(subject.joined(separator: "\n"))
            [extensions]
            \(extensions.joined(separator: "\n"))
            """
        try directory.write(configuration, to: "openssl.cnf")
        let result = try await Program.run(
            Program.installed("openssl"),
            ["req", "-x509", "-nodes", "-days", "30", "-config", directory.path("openssl.cnf")]
                + key.rawValue.split(separator: " ").map(String.init)
                + ["-keyout", "/dev/null", "-outform", "DER", "-out", directory.path("certificate.der")])
        guard result.status == 0 else { throw Failed(reason: result.error) }
        return Array(try Data(contentsOf: URL(filePath: directory.path("certificate.der"))))
    }

    struct Failed: Error { let reason: String }
}

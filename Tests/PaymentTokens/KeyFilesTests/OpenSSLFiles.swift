import Foundation
import KeyFiles
import SecretMemory
import TestSupport
import Testing

/// A fresh directory in which the openssl command writes the tests' files, so that they come from another
/// implementation.
struct OpenSSLFiles {
    let directory: FreshDirectory

    init() throws { directory = try FreshDirectory() }

    func path(_ name: String) -> String { directory.path(name) }

    func bytes(_ name: String) throws -> [UInt8] { Array(try Data(contentsOf: URL(filePath: path(name)))) }

    func text(_ name: String) throws -> String { String(decoding: try bytes(name), as: UTF8.self) }

    func openssl(_ command: String) async throws { try await directory.openssl(command) }

    /// Makes `ec.pem` (PKCS#8) and `ec.p8`, the same key in DER. Reading any form of the key must return the bytes of
    /// `ec.p8`.
    static func ec() async throws -> OpenSSLFiles {
        let files = try OpenSSLFiles()
        try await files.openssl("genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out ec.pem")
        try await files.openssl("pkcs8 -topk8 -nocrypt -in ec.pem -outform DER -out ec.p8")
        return files
    }

    /// Makes `rsa.pem` (PKCS#8) and `rsa.p8`, the same key in DER.
    static func rsa() async throws -> OpenSSLFiles {
        let files = try OpenSSLFiles()
        try await files.openssl("genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out rsa.pem")
        try await files.openssl("pkcs8 -topk8 -nocrypt -in rsa.pem -outform DER -out rsa.p8")
        return files
    }

    /// Makes the files of ``ec()``, and the key in every other usual format.
    static func everything() async throws -> OpenSSLFiles {
        let files = try await ec()
        try await files.openssl("req -x509 -new -key ec.pem -subj /CN=merchant -days 30 -out certificate.pem")
        try await files.openssl("x509 -in certificate.pem -outform DER -out certificate.der")
        try await files.openssl("req -new -key ec.pem -subj /CN=merchant -out request.pem")
        try await files.openssl("req -in request.pem -outform DER -out request.der")
        try await files.openssl("pkey -in ec.pem -pubout -out public.pem")
        try await files.openssl("pkey -in ec.pem -pubout -outform DER -out public.der")
        try await files.openssl(
            "pkcs12 -export -inkey ec.pem -in certificate.pem -passout pass:secret -out bundle.p12")
        try await files.openssl("crl2pkcs7 -nocrl -certfile certificate.pem -out bundle.p7b")
        try await files.openssl("crl2pkcs7 -nocrl -certfile certificate.pem -outform DER -out bundle.p7c")
        try await files.openssl("ecparam -name prime256v1 -out parameters.pem")
        return files
    }

    func privateKeyError(_ name: String, passwordFile: String? = nil) -> KeyFileError? {
        do throws(KeyFileError) {
            _ = try PrivateKeyFile(path: path(name), passwordFile: passwordFile)
            return nil
        } catch {
            return error
        }
    }

    func certificateError(_ name: String) -> KeyFileError? {
        do throws(KeyFileError) {
            _ = try CertificateFile(path: path(name))
            return nil
        } catch {
            return error
        }
    }
}

extension PrivateKeyFile {
    /// A copy of the PKCS#8 bytes, for comparison with openssl's.
    borrowing func contents() -> [UInt8] { unsafe pkcs8.withUnsafeBytes { unsafe Array($0) } }
}

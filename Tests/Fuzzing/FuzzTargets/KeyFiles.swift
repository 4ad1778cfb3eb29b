import Crypto
import CryptoExtras
import Foundation
import KeyFiles
import X509

extension FuzzTarget {
    /// A key's or a certificate's file: PEM, DER, PKCS#7, PKCS#8, PKCS#12. swift-crypto must read the key, and
    /// swift-certificates the certificate; and a key that is written is read as the same.
    ///
    /// The first octet selects the kind that the user names. The password is `password`.
    static let keyFiles = FuzzTarget(name: "key-files", longest: 6000, sources: ["KeyFiles", "CLibcrypto"]) { input in
        guard let first = input.first else { return }
        let folder = KeyFolder.shared
        let path = try folder.write(input.dropFirst())
        let password = first & 4 != 0 ? folder.password : nil
        switch first & 3 {
        case 0:
            guard let key = try? PrivateKeyFile(path: path, passwordFile: password) else { return }
            try check(key, in: folder)
        case 1:
            guard let bundle = try? PKCS12File(path: path, passwordFile: password) else { return }
            try check(bundle.privateKey, in: folder)
            if let certificate = try? bundle.certificate(inBundle: path) { try check(certificate) }
        default:
            if let certificate = try? CertificateFile(path: path) { try check(certificate) }
        }
    }

    private static func check(_ key: borrowing PrivateKeyFile, in folder: KeyFolder) throws {
        let pkcs8 = unsafe key.pkcs8.withUnsafeBytes { unsafe Data($0) }
        do {
            switch key.algorithm {
            case .ec: _ = try P256.Signing.PrivateKey(derRepresentation: pkcs8)
            case .rsa: _ = try _RSA.Signing.PrivateKey(derRepresentation: pkcs8)
            }
        } catch {
            throw Disagreement("swift-crypto refuses a key that was accepted: \(error)")
        }
        let path = try folder.write(pkcs8)
        let again: Data
        do {
            again = unsafe try PrivateKeyFile(path: path).pkcs8.withUnsafeBytes { unsafe Data($0) }
        } catch {
            throw Disagreement("a key that was written is refused: \(error)")
        }
        try expect(again == pkcs8, "a key is read otherwise than it was written")
    }

    private static func check(_ certificate: CertificateFile) throws {
        do {
            _ = try Certificate(derEncoded: certificate.der)
        } catch {
            throw Disagreement("swift-certificates refuses a certificate that was accepted: \(error)")
        }
    }
}

/// The file of one run at a time, and its password.
private struct KeyFolder: Sendable {
    static let shared = KeyFolder()

    let password: String
    private let file: String

    init() {
        (password, file) = (ScratchFolder.path + "/password", ScratchFolder.path + "/file")
        for (path, content) in [(password, "password"), (file, "")] {
            _ = FileManager.default.createFile(
                atPath: path, contents: Data(content.utf8), attributes: [.posixPermissions: 0o600])
        }
    }

    /// Returns the path of the file, whose mode stays.
    func write(_ content: some DataProtocol) throws -> String {
        try Data(content).write(to: URL(filePath: file))
        return file
    }
}

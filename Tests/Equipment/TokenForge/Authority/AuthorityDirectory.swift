public import Foundation
import X509

/// Storage of an authority in a directory, so that several commands can mint payment tokens under one root.
///
/// The directory has two files for each of `root`, `intermediate`, `leaf-ec`, `leaf-rsa` and `developer-relations`.
/// NAME.pem is the certificate, and NAME.key.pem the private key (PKCS#8, mode 0600).
extension ForgeAuthority {
    private static let names = ["root", "intermediate", "leaf-ec", "leaf-rsa", "developer-relations"]

    private var members: [CertifiedKey] { [root, intermediate, leafEC, leafRSA, developerRelations] }

    /// Writes the files. Creates `directory` with mode 0700 if it is missing.
    public func write(to directory: URL) throws {
        try FileManager.default.createDirectory(
            at: directory, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        for (name, member) in zip(Self.names, members) {
            try SecretFile.write(Array(member.key.pem.utf8), to: directory.appending(path: "\(name).key.pem"))
            try Data(member.certificatePEM.utf8).write(to: directory.appending(path: "\(name).pem"))
        }
    }

    /// Reads the authority that ``write(to:)`` wrote.
    public init(directory: URL) throws {
        func read(_ name: String, _ subject: (ForgeKey) -> Name, _ issuer: Name) throws -> CertifiedKey {
            let key = try ForgeKey(pem: Self.text(directory.appending(path: "\(name).key.pem")))
            let file = directory.appending(path: "\(name).pem")
            guard let der = ForgePEM.bytes(try Self.text(file), label: "CERTIFICATE") else {
                throw ForgeFailure.file(path: file.path, reason: "holds no certificate in PEM")
            }
            let certificate = try Certificate(derEncoded: der)
            return CertifiedKey(
                key: key, certificate: der, subject: subject(key), issuer: issuer,
                serialNumber: Array(certificate.serialNumber.bytes), notBefore: certificate.notValidBefore,
                notAfter: certificate.notValidAfter)
        }
        self.init(
            root: try read("root", { _ in Self.rootName }, Self.rootName),
            intermediate: try read("intermediate", { _ in Self.intermediateName }, Self.rootName),
            leafEC: try read("leaf-ec", Self.leafName(for:), Self.intermediateName),
            leafRSA: try read("leaf-rsa", Self.leafName(for:), Self.intermediateName),
            developerRelations: try read("developer-relations", { _ in Self.developerRelationsName }, Self.rootName))
    }

    private static func text(_ file: URL) throws(ForgeFailure) -> String {
        guard let data = try? Data(contentsOf: file), let text = String(data: data, encoding: .utf8) else {
            throw .file(path: file.path, reason: "cannot be read; `token-forge authority DIR` makes an authority")
        }
        return text
    }
}

/// Writes files that only their owner may read.
public enum SecretFile {
    /// Writes `bytes` into a file that is created with mode 0600, so that no other account can ever read it.
    public static func write(_ bytes: [UInt8], to file: URL) throws {
        try? FileManager.default.removeItem(at: file)
        guard
            FileManager.default.createFile(atPath: file.path, contents: nil, attributes: [.posixPermissions: 0o600])
        else { throw ForgeFailure.file(path: file.path, reason: "cannot be written") }
        let handle = try FileHandle(forWritingTo: file)
        try handle.write(contentsOf: Data(bytes))
        try handle.close()
    }
}

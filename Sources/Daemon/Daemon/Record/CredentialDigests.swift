import AuditChain
import Crypto
import Encodings
import Foundation
import SecretMemory

// Unsafe: A secret's pointer is used only within the closure that hashes it.

/// The keyed digests of the PINs and of the database password, for the record. A change of a digest shows when the secret
/// was changed; the date of its file does not.
///
/// A digest is HMAC-SHA256 with a random key of 32 bytes. The key is in a file of the state directory, which only the
/// daemon's user can read, and never in the record. So an export lets no reader test guessed PINs. The host is the place
/// for it, and not the ledger: hosts can share a ledger, and its copies leave the host. A person who can read the key can
/// read the PIN files too. A new key changes all digests, so the record also has a digest that identifies the key.
struct CredentialDigests: Sendable, Equatable {
    /// The digests by the names of their values in the record. Secrets whose files cannot be read are absent. Empty if
    /// the key's file cannot be read or made.
    private(set) var values: [String: AuditDigest] = [:]

    /// Without any digest.
    init() {}

    /// - Parameters:
    ///   - files: the paths of the secrets' files, by the names of their values in the record.
    ///   - directory: the state directory.
    init(of files: [String: String], keyIn directory: String) {
        guard let key = Self.key("\(directory)/credential-digest-key") else { return }
        values["credentials.key"] = Self.digest("credentials.key", SecretBytes(copying: []), key)
        for (name, path) in files {
            guard let secret = try? SecretBytes(contentsOfFile: path) else { continue }
            values[name] = Self.digest(name, secret, key)
        }
    }

    func write(into recorded: inout ConfigurationValues) {
        for (name, digest) in values { recorded.set(name, ConfigurationValue(digest)) }
    }

    /// Returns the key in the file. Makes the file if there is none, or if its content is not a key.
    private static func key(_ path: String) -> SymmetricKey? {
        if let stored = stored(path) { return stored }
        let text = Hexadecimal.encode((0..<32).map { _ in UInt8.random(in: .min ... .max) })
        let attributes: [FileAttributeKey: Any] = [.posixPermissions: 0o600]
        guard FileManager.default.createFile(atPath: path, contents: Data((text + "\n").utf8), attributes: attributes)
        else { return nil }
        return stored(path)
    }

    private static func stored(_ path: String) -> SymmetricKey? {
        guard let text = try? SecretBytes(contentsOfFile: path) else { return nil }
        let bytes = unsafe text.withUnsafeBytes { unsafe Hexadecimal.decode(String(decoding: $0, as: UTF8.self)) }
        return bytes.flatMap { $0.count == 32 ? SymmetricKey(data: $0) : nil }
    }

    /// Hashes the name after its length, so that equal secrets under two names have different digests.
    private static func digest(_ name: String, _ secret: borrowing SecretBytes, _ key: SymmetricKey) -> AuditDigest? {
        var code = HMAC<SHA256>(key: key)
        code.update(data: [UInt8(truncatingIfNeeded: name.utf8.count)] + Array(name.utf8))
        unsafe secret.withUnsafeBytes { unsafe code.update(data: $0) }
        return AuditDigest(bytes: Array(code.finalize()))
    }
}

extension Configuration {
    /// Computes the digests of the secrets again.
    mutating func readCredentials() {
        var files = Dictionary(hsmTokens.map { ("tokens.\($0.name).pin_digest", $0.pinFile) }) { first, _ in first }
        if case .postgresql(let database) = ledger.place { files["ledger.password_digest"] = database.passwordFile }
        credentials = CredentialDigests(of: files, keyIn: stateDirectory)
    }
}

import AuditChain
import Crypto
import Glibc
import SecretMemory

// Unsafe: A secret's pointer is used only within the closure that hashes or copies it.

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
        guard let key = Self.key(RandomKeyFile(path: "\(directory)/credential-digest-key")) else { return }
        values["credentials.key"] = Self.digest("credentials.key", SecretBytes(copying: []), key)
        for (name, path) in files {
            guard let secret = try? SecretBytes(contentsOfFile: path) else { continue }
            values[name] = Self.digest(name, secret, key)
        }
    }

    func write(into recorded: inout ConfigurationValues) {
        for (name, digest) in values { recorded.set(name, ConfigurationValue(digest)) }
    }

    /// Returns the key in the file. Makes the file if there is none, or if its content is not a key. Returns nil if the
    /// file cannot be read for another reason, since the key may still be in it.
    private static func key(_ file: RandomKeyFile) -> SymmetricKey? {
        do throws(RandomKeyFile.Fault) {
            return symmetric(try file.read())
        } catch .unreadable(let error) where error.reason != .unreadable(ENOENT) && error.reason != .empty {
            return nil
        } catch {
            guard (try? file.create()) != nil, let key = try? file.read() else { return nil }
            return symmetric(key)
        }
    }

    private static func symmetric(_ key: borrowing SecretBytes) -> SymmetricKey {
        unsafe key.withUnsafeBytes { unsafe SymmetricKey(data: $0) }
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
    package mutating func readCredentials() {
        var files = Dictionary(hsmTokens.map { ("tokens.\($0.name).pin_digest", $0.pinFile) }) { first, _ in first }
        if case .postgresql(let database) = ledger.place { files["ledger.password_digest"] = database.passwordFile }
        credentials = CredentialDigests(of: files, keyIn: stateDirectory)
    }
}

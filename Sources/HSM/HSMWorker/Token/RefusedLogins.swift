import Crypto
import Encodings
import Glibc
import PKCS11
import SecretMemory

// Unsafe: The system calls use paths only until they return. The PIN's pointer is used only within the closure that
// hashes it.

/// The PINs that an HSM token has refused, remembered across restarts, so that no wrong PIN is tried twice. HSM tokens
/// count wrong PINs and lock after a few.
///
/// A small file contains a random key, and an HMAC-SHA256 with that key for each refused pair of HSM token and PIN. A
/// person who can read the file can test guessed PINs against it. So it has mode 0600 and is in the ledger's directory.
struct RefusedLogins: Sendable {
    let path: String

    private static let header = "paytokend refused logins 1"
    private static let digestByteCount = 32
    /// The maximum number of digests in the file. A further digest replaces the oldest.
    private static let maximumDigests = 16
    private static let largestFile = 4096

    struct Unusable: Error {
        /// Part of a sentence for an operator.
        let reason: String
    }

    private struct Content {
        let key: [UInt8]
        var digests: [[UInt8]]
    }

    /// - Returns: nil if `path` is empty, which means that no file is configured.
    /// - Throws: ``Unusable`` when the file does not exist and cannot be made.
    init?(path: String) throws(Unusable) {
        guard !path.isEmpty else { return nil }
        self.path = path
        if read() == nil { try write(Content(key: Self.randomKey(), digests: [])) }
    }

    func contains(_ pin: borrowing SecretBytes, for hsmToken: TokenInfo) -> Bool {
        guard let content = read() else { return false }
        let digest = Self.digest(pin, hsmToken, content.key)
        return content.digests.contains(digest)
    }

    func remember(_ pin: borrowing SecretBytes, for hsmToken: TokenInfo) throws(Unusable) {
        var content = read() ?? Content(key: Self.randomKey(), digests: [])
        let digest = Self.digest(pin, hsmToken, content.key)
        guard !content.digests.contains(digest) else { return }
        content.digests = content.digests.suffix(Self.maximumDigests - 1) + [digest]
        try write(content)
    }

    /// Forgets all refusals after a successful login, at which HSM tokens reset their own count.
    func forget() throws(Unusable) {
        guard let content = read(), !content.digests.isEmpty else { return }
        try write(Content(key: content.key, digests: []))
    }

    private static func randomKey() -> [UInt8] {
        var generator = SystemRandomNumberGenerator()
        return (0..<digestByteCount).map { _ in UInt8.random(in: .min ... .max, using: &generator) }
    }

    /// Hashes each field after its length, so that the fields of two HSM tokens never join to the same bytes.
    private static func digest(_ pin: borrowing SecretBytes, _ hsmToken: TokenInfo, _ key: [UInt8]) -> [UInt8] {
        var code = HMAC<SHA256>(key: SymmetricKey(data: key))
        for field in [hsmToken.manufacturer, hsmToken.model, hsmToken.serialNumber, hsmToken.label] {
            code.update(data: [UInt8(truncatingIfNeeded: field.utf8.count)] + Array(field.utf8))
        }
        unsafe pin.withUnsafeBytes { unsafe code.update(data: $0) }
        return Array(code.finalize())
    }

    // MARK: The file

    /// The file's content; nil if there is no file, or if its format is not the one that this program writes.
    private func read() -> Content? {
        let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var content: [UInt8] = []
        while content.count <= Self.largestFile,
            let piece = BlockingDescriptor.read(atMost: Self.largestFile, from: descriptor)
        {
            content += piece
        }
        guard content.count <= Self.largestFile else { return nil }
        let lines = String(decoding: content, as: UTF8.self).split(separator: "\n")
        let values = lines.dropFirst().compactMap { Self.octets($0) }
        guard lines.first == Self.header[...], let key = values.first, values.count == lines.count - 1 else {
            return nil
        }
        return Content(key: key, digests: Array(values.dropFirst()))
    }

    private static func octets(_ text: Substring) -> [UInt8]? {
        Hexadecimal.decode(text).flatMap { $0.count == digestByteCount ? $0 : nil }
    }

    /// Writes a new file that replaces the old one. If an error occurs before the replacement, the old content remains.
    private func write(_ content: Content) throws(Unusable) {
        let text = ([Self.header] + ([content.key] + content.digests).map { Hexadecimal.encode($0) }).joined(
            separator: "\n")
        let new = "\(path).\(getpid())"
        let descriptor = unsafe open(new, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { throw Self.unusable(path) }
        defer { close(descriptor) }
        guard BlockingDescriptor.write(Array((text + "\n").utf8), to: descriptor), fsync(descriptor) == 0 else {
            _ = unsafe unlink(new)
            throw Unusable(reason: "\(path) cannot be written")
        }
        guard unsafe rename(new, path) == 0 else {
            let failure = Self.unusable(path)
            _ = unsafe unlink(new)
            throw failure
        }
    }

    private static func unusable(_ path: String) -> Unusable {
        Unusable(reason: unsafe "\(path) cannot be written: \(String(cString: strerror(errno)))")
    }
}

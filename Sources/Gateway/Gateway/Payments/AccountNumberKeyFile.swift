import Encodings
import Glibc
import Logging
import Processors
import SecretMemory
import ServerProgram

// Unsafe: The system calls use paths and buffers only until they return. The loop in `decodedKey(_:)` stays within both
// buffers, because its guard checks that the text has two digits for each byte of the key.

/// The file that contains the key for recognising account numbers in a processor's later responses. The key is written
/// as 64 hexadecimal digits on one line.
struct AccountNumberKeyFile: Sendable, Equatable {
    /// The file's absolute path.
    let path: String
    /// True if the gateway creates a missing file. This is permitted only if the store is an SQLite file and the
    /// configuration names no key file. Gateways that share a store need the same key, so none of them may create its
    /// own. An SQLite store has only one gateway.
    let isCreatedIfMissing: Bool

    enum Fault: Error, CustomStringConvertible {
        case unreadable(SecretFileError)
        case malformed(path: String)

        var description: String {
            switch self {
            case .unreadable(let error): error.description
            case .malformed(let path):
                "the key's file \(path) does not have 64 hexadecimal digits on one line; make it with openssl rand -hex 32"
            }
        }
    }

    func read() throws(Fault) -> AccountNumberKey {
        let text: SecretBytes
        do throws(SecretFileError) { text = try SecretBytes(contentsOfFile: path) } catch { throw .unreadable(error) }
        guard let key = Self.decodedKey(text) else { throw .malformed(path: path) }
        return AccountNumberKey(key)
    }

    var exists: Bool { unsafe access(path, F_OK) == 0 }

    /// Writes a random key to a temporary file, and renames that file to ``path``. After a failure, ``path`` therefore
    /// never names an incomplete file. The gateway has already locked the store, so no other process creates the file
    /// at the same time.
    func create() throws(SystemCallFault) {
        var generator = SystemRandomNumberGenerator()
        let bytes = (0..<AccountNumberKey.byteCount).map { _ in UInt8.random(in: .min ... .max, using: &generator) }
        let text = Array((Hexadecimal.encode(bytes) + "\n").utf8)
        let temporaryPath = path + ".partial"
        let descriptor = unsafe open(temporaryPath, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw SystemCallFault(call: "open", errorNumber: errno) }
        defer { close(descriptor) }
        guard unsafe write(descriptor, text, text.count) == text.count else {
            throw SystemCallFault(call: "write", errorNumber: errno)
        }
        guard fsync(descriptor) == 0 else { throw SystemCallFault(call: "fsync", errorNumber: errno) }
        guard unsafe rename(temporaryPath, path) == 0 else { throw SystemCallFault(call: "rename", errorNumber: errno) }
    }

    struct SystemCallFault: Error {
        let call: String
        let errorNumber: CInt
    }

    private static func decodedKey(_ text: borrowing SecretBytes) -> SecretBytes? {
        guard text.count == 2 * AccountNumberKey.byteCount else { return nil }
        var key = SecretBytes(count: AccountNumberKey.byteCount)
        let isHexadecimal = unsafe key.withUnsafeMutableBytes { bytes in
            unsafe text.withUnsafeBytes { digits in
                var isHexadecimal = true
                for index in 0..<digits.count {
                    let value = unsafe Character(UnicodeScalar(digits[index])).hexDigitValue
                    isHexadecimal = isHexadecimal && value != nil
                    unsafe bytes[index / 2] = bytes[index / 2] << 4 | UInt8(value ?? 0)
                }
                return isHexadecimal
            }
        }
        guard isHexadecimal else { return nil }
        return key
    }
}

extension AccountNumberKey {
    /// Returns the key in the file. Creates a missing file first if ``AccountNumberKeyFile/isCreatedIfMissing`` is
    /// true. Returns nil if `file` is nil, or if the file cannot be created now, for example because the disk is full.
    /// The gateway then recognises account numbers only by their form.
    ///
    /// - Throws: a failure to start if the file cannot be read or does not contain a key.
    static func loaded(from file: AccountNumberKeyFile?, logger: Logger) throws(StartFailure) -> AccountNumberKey? {
        guard let file else { return nil }
        if file.isCreatedIfMissing, !file.exists {
            do throws(AccountNumberKeyFile.SystemCallFault) {
                try file.create()
                logger.notice("the key for account numbers was made", metadata: ["file": "\(file.path)"])
            } catch {
                logger.warning(
                    "the key for account numbers cannot be made; until the next start they are recognised by their form alone",
                    metadata: ["file": "\(file.path)", "reason": "\(error.call): error number \(error.errorNumber)"])
                return nil
            }
        }
        do throws(AccountNumberKeyFile.Fault) {
            let key = try file.read()
            logger.info("account numbers are recognised by a key", metadata: ["key.name": "\(key.name)"])
            return key
        } catch {
            throw StartFailure(.configuration, "store.account_number_key_file: \(error)")
        }
    }
}

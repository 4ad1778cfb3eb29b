import Encodings
import Glibc
import Logging
import Processors
import SecretMemory
import ServerProgram

// Unsafe: The system calls use paths only until they return. Both loops over the key stay within the sizes that the
// guard has checked.

/// The file of the key that recognises account numbers in a processor's later responses: 64 hexadecimal digits on one
/// line.
struct AccountNumberKeyFile: Sendable, Equatable {
    /// The file's absolute path.
    let path: String
    /// True if the gateway creates a missing file. It does so for a store in a file, which has no other gateway that
    /// needs the same key.
    let isMadeIfMissing: Bool

    enum Fault: Error, CustomStringConvertible {
        case file(SecretFileError)
        case notAKey(path: String)

        var description: String {
            switch self {
            case .file(let error): error.description
            case .notAKey(let path):
                "the key's file \(path) does not have 64 hexadecimal digits on one line; make it with openssl rand -hex 32"
            }
        }
    }

    func read() throws(Fault) -> AccountNumberKey {
        let text: SecretBytes
        do throws(SecretFileError) { text = try SecretBytes(contentsOfFile: path) } catch { throw .file(error) }
        guard let key = Self.decoded(text) else { throw .notAKey(path: path) }
        return AccountNumberKey(key)
    }

    var exists: Bool { unsafe access(path, F_OK) == 0 }

    /// Makes the file with a random key, completely or not at all. The gateway already has the store's lock, so no
    /// other process makes the file.
    func make() throws(SystemFault) {
        var generator = SystemRandomNumberGenerator()
        let bytes = (0..<AccountNumberKey.byteCount).map { _ in UInt8.random(in: .min ... .max, using: &generator) }
        let text = Array((Hexadecimal.encode(bytes) + "\n").utf8)
        let partial = path + ".partial"
        let descriptor = unsafe open(partial, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw SystemFault(call: "open", number: errno) }
        defer { close(descriptor) }
        guard unsafe write(descriptor, text, text.count) == text.count else {
            throw SystemFault(call: "write", number: errno)
        }
        guard fsync(descriptor) == 0 else { throw SystemFault(call: "fsync", number: errno) }
        guard unsafe rename(partial, path) == 0 else { throw SystemFault(call: "rename", number: errno) }
    }

    struct SystemFault: Error {
        let call: String
        let number: CInt
    }

    private static func decoded(_ text: borrowing SecretBytes) -> SecretBytes? {
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
    /// Returns the key in the configured file, and makes a missing file if ``isMadeIfMissing`` is true. Returns nil if
    /// no file is configured, or if the file cannot be made now, for example because the disk is full. Payments then
    /// continue without a key.
    static func made(_ file: AccountNumberKeyFile?, logger: Logger) throws(StartFailure) -> AccountNumberKey? {
        guard let file else { return nil }
        if file.isMadeIfMissing, !file.exists {
            do throws(AccountNumberKeyFile.SystemFault) {
                try file.make()
                logger.notice("the key for account numbers was made", metadata: ["file": "\(file.path)"])
            } catch {
                logger.warning(
                    "the key for account numbers cannot be made; until the next start they are recognised by their form alone",
                    metadata: ["file": "\(file.path)", "reason": "\(error.call): error number \(error.number)"])
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

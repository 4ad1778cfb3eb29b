import ArgumentParser
import Foundation

/// KEY on the command line: 44 characters are a publicKeyHash in base64, anything else is hex or the beginning of it,
/// at least 8 characters.
struct KeyReference: Equatable {
    /// Lower-case hex, 8 to 64 characters.
    let hex: String

    init?(argument: String) {
        if argument.utf8.count == 44 {
            guard let bytes = Data(base64Encoded: argument), bytes.count == 32 else { return nil }
            hex = bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
        } else {
            guard (8...64).contains(argument.utf8.count), argument.utf8.allSatisfy(Self.isHexDigit) else { return nil }
            hex = argument.lowercased()
        }
    }

    /// For the command line: what is wrong is said.
    static func parse(_ argument: String) throws -> KeyReference {
        guard let key = KeyReference(argument: argument) else {
            throw ValidationError(
                "a key is named by its publicKeyHash: all 44 characters of base64, or at least 8 characters of hex from its "
                    + "beginning; key show tells both.")
        }
        return key
    }

    /// The beginning of a publicKeyHash in hex, as people pass it around; `-` for what is no base64.
    static func short(base64: String) -> String {
        guard let bytes = Data(base64Encoded: base64) else { return "-" }
        return bytes.prefix(4).map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }

    private static func isHexDigit(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "f"),
            UInt8(ascii: "A")...UInt8(ascii: "F"):
            true
        default: false
        }
    }
}

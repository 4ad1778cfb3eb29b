import ArgumentParser
import Foundation

/// KEY on the command line: 44 characters are a publicKeyHash in base64, anything else is hex or the beginning of it,
/// at least 8 characters.
struct KeyReference: ExpressibleByArgument, Equatable {
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

    static var defaultCompletionKind: CompletionKind { .key }

    private static func isHexDigit(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "f"),
            UInt8(ascii: "A")...UInt8(ascii: "F"):
            true
        default: false
        }
    }
}

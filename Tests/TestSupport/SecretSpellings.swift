import Foundation

/// How a secret can stand in what a program writes: as it is, in hexadecimal of either case, and in base64, alone or in
/// the middle of other bytes.
public enum SecretSpellings {
    public static func of(_ secret: [UInt8]) -> [[UInt8]] {
        let hex = secret.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
        return [secret, Array(hex.utf8), Array(hex.uppercased().utf8)] + (0..<3).map { base64(secret, after: $0) }
    }

    /// The characters that depend on the secret alone when `offset` bytes (modulo 3) stand before it: RFC 4648 §4 takes
    /// three bytes as four characters.
    private static func base64(_ secret: [UInt8], after offset: Int) -> [UInt8] {
        let bytes = [UInt8](repeating: 0, count: offset) + secret
        let text = Array(Data(bytes).base64EncodedString().utf8)
        let shared = [0, 2, 3][offset]
        let open = [0, 3, 2][bytes.count % 3]
        return Array(text.dropFirst(shared).dropLast(open))
    }

    /// Whether `text` has the secret in any spelling.
    public static func isFound(_ secret: [UInt8], in text: [UInt8]) -> Bool {
        let data = Data(text)
        return of(secret).contains { data.range(of: Data($0)) != nil }
    }
}

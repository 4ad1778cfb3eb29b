/// A user's or script's name for a merchant key: the publicKeyHash of 32 bytes in base64, as in a payment token's
/// header, or in hexadecimal, or only its first hexadecimal digits.
///
/// A text of 44 characters is base64, although it could also be 44 hexadecimal digits. Other texts are 8 to 64
/// hexadecimal digits in either case.
public struct KeyReference: Sendable, Hashable {
    /// 8 to 64 lower-case hexadecimal digits.
    public let hex: String

    /// The length of a publicKeyHash in base64.
    public static let base64Length = 44
    /// The allowed number of hexadecimal digits.
    public static let hexLengths = 8...64

    /// Returns nil unless `text` has one of the forms of a key's name.
    public init?(_ text: String) {
        if text.utf8.count == Self.base64Length {
            guard let hash = Base64.decode(text), hash.count == 32 else { return nil }
            hex = Hexadecimal.encode(hash)
        } else {
            guard Self.hexLengths.contains(text.utf8.count),
                text.utf8.allSatisfy({ Hexadecimal.value(of: $0) != nil })
            else { return nil }
            hex = text.lowercased()
        }
    }

    /// True if the name contains all 32 bytes, so that only one key can match.
    public var isWhole: Bool { hex.utf8.count == Self.hexLengths.upperBound }

    /// Returns true if the name matches the key with this publicKeyHash.
    public func matches(_ publicKeyHash: [UInt8]) -> Bool {
        hex.utf8.enumerated().allSatisfy { index, digit in
            guard index / 2 < publicKeyHash.count else { return false }
            let byte = publicKeyHash[index / 2]
            return Hexadecimal.value(of: digit) == (index % 2 == 0 ? byte >> 4 : byte & 0x0F)
        }
    }
}

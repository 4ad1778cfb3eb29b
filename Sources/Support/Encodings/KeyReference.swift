/// How a person or a script names a merchant key: by its publicKeyHash, 32 bytes, in base64 as it stands in a payment token's
/// header, in hexadecimal, or by the beginning of its hexadecimal.
///
/// 44 characters are base64 (44 hexadecimal digits would be, too); anything else is 8 to 64 hexadecimal digits in either case.
public struct KeyReference: Sendable, Hashable {
    /// 8 to 64 lower-case hexadecimal digits.
    public let hex: String

    /// The length of a publicKeyHash in base64.
    public static let base64Length = 44
    /// The lengths of its hexadecimal and of a beginning of it.
    public static let hexLengths = 8...64

    /// Nil unless `text` names a key.
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

    /// Whether all 32 bytes are named, so that no second key can be meant.
    public var isWhole: Bool { hex.utf8.count == Self.hexLengths.upperBound }

    /// Whether the key with this publicKeyHash is one that is meant.
    public func matches(_ publicKeyHash: [UInt8]) -> Bool {
        hex.utf8.enumerated().allSatisfy { index, digit in
            guard index / 2 < publicKeyHash.count else { return false }
            let byte = publicKeyHash[index / 2]
            return Hexadecimal.value(of: digit) == (index % 2 == 0 ? byte >> 4 : byte & 0x0F)
        }
    }
}

/// The form of a card's account number (ISO/IEC 7812-1): 12 to 19 digits, the last of which is the check digit (Annex
/// B).
public enum AccountNumberForm {
    /// The characters that may separate the digits of one number.
    public enum Separators: Sendable {
        case anything
        case nonLetters
    }

    /// Returns true if some digits in the text form an account number.
    ///
    /// A number begins and ends at the boundary of a group of digits, so digits inside a longer group do not count.
    public static func isIn(_ text: String, separatedBy separators: Separators) -> Bool {
        // Groups of adjacent digits, in stretches that contain no letter.
        var stretches: [[[UInt8]]] = [[]]
        var isInGroup = false
        for byte in text.utf8 {
            let digit = byte &- UInt8(ascii: "0")
            if digit < 10 {
                if !isInGroup { stretches[stretches.count - 1].append([]) }
                stretches[stretches.count - 1][stretches[stretches.count - 1].count - 1].append(digit)
            } else if separators == .nonLetters, isLetter(byte) {
                stretches.append([])
            }
            isInGroup = digit < 10
        }
        return stretches.contains { groups in groups.indices.contains { hasNumber(at: $0, groups) } }
    }

    /// The text with `*` for each digit except its last four.
    public static func masked(_ text: String) -> String {
        var shown = 4
        let bytes = text.utf8.reversed().map { byte in
            guard isDigit(byte) else { return byte }
            shown -= 1
            return shown >= 0 ? byte : UInt8(ascii: "*")
        }
        return String(decoding: bytes.reversed(), as: UTF8.self)
    }

    static func isDigit(_ byte: UInt8) -> Bool { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) }

    private static func isLetter(_ byte: UInt8) -> Bool {
        (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte | 0x20)
    }

    private static func hasNumber(at first: Int, _ groups: [[UInt8]]) -> Bool {
        var digits: [UInt8] = []
        for group in groups[first...] {
            digits += group
            guard digits.count <= 19 else { return false }
            if digits.count >= 12, hasCheckDigit(digits) { return true }
        }
        return false
    }

    private static func hasCheckDigit(_ digits: [UInt8]) -> Bool {
        let sum = digits.reversed().enumerated().reduce(0) { sum, digit in
            let weighted = Int(digit.element) * (digit.offset.isMultiple(of: 2) ? 1 : 2)
            return sum + weighted / 10 + weighted % 10
        }
        return sum.isMultiple(of: 10)
    }
}

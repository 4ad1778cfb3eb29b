/// Whether a text of a reply may have a card's account number in it, whatever the reply calls it.
public enum AccountNumberForm {
    /// Whether there are 12 to 19 digits with no letter between them, the last of them the check digit of the others
    /// (ISO/IEC 7812-1, Annex B). Radial's tokens have letters within the number, by its example.
    public static func isIn(_ text: String) -> Bool {
        var digits: [Int] = []
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"): digits.append(Int(byte - UInt8(ascii: "0")))
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"):
                if isAccountNumber(digits) { return true }
                digits = []
            default: break
            }
        }
        return isAccountNumber(digits)
    }

    private static func isAccountNumber(_ digits: [Int]) -> Bool {
        guard (12...19).contains(digits.count) else { return false }
        var sum = 0
        for (place, digit) in digits.reversed().enumerated() {
            let weighted = place.isMultiple(of: 2) ? digit : 2 * digit
            sum += weighted / 10 + weighted % 10
        }
        return sum.isMultiple(of: 10)
    }
}

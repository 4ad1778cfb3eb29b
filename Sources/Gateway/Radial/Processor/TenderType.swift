public import SecretMemory

/// The kind of card in the URI of an authorization, `…/payments/creditcard/auth/VC.xml`: the three that the schema
/// names (Payment-Datatypes-1.0.xsd, TenderTypeType).
public enum TenderType: String, Sendable, CaseIterable {
    case visa = "VC"
    case masterCard = "MC"
    case americanExpress = "AM"

    /// The path of an authorization below the address of the store's payments (`…/v1.0/stores/STORE/payments/`): the
    /// page "Credit Card Authorization (card not present)", URI example.
    public var authorizationPath: String { "creditcard/auth/\(rawValue).xml" }

    /// Chooses by the account number's first digits (ISO/IEC 7812): 4 for Visa; 51 to 55 and 2221 to 2720 for
    /// Mastercard; 34 and 37 for American Express. Returns nil for other numbers.
    public init?(accountNumber: borrowing SecretBytes) {
        guard accountNumber.count >= 4 else { return nil }
        var prefix = 0
        for index in 0..<4 {
            let digit = Int(accountNumber[index]) - 0x30
            guard (0...9).contains(digit) else { return nil }
            prefix = prefix * 10 + digit
        }
        switch prefix {
        case 4000...4999: self = .visa
        case 5100...5599, 2221...2720: self = .masterCard
        case 3400...3499, 3700...3799: self = .americanExpress
        default: return nil
        }
    }
}

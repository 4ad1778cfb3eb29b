public import Foundation

/// The result that ended an attempt, or a payment.
///
/// The texts come from a processor and may contain a card's account number. The initialiser masks every text that
/// contains digits in the form of an account number, so that no account number reaches the store, a client or the log.
public struct PaymentOutcome: Sendable, Equatable {
    /// The reason, as a word from a closed list or from the processor's documentation: 1 to 100 printable ASCII
    /// characters; nil for a payment that needs no reason.
    public internal(set) var reason: String?
    /// The processor's code for an authorized or captured payment: 1 to 100 printable ASCII characters.
    public internal(set) var authorizationCode: String?
    /// The processor's identifier of the payment: 1 to 100 printable ASCII characters.
    public internal(set) var processorReference: String?
    /// The time of the processor's response.
    public internal(set) var processedAt: Date?

    public init(
        reason: String? = nil, authorizationCode: String? = nil, processorReference: String? = nil,
        processedAt: Date? = nil
    ) {
        self.reason = Self.displayable(reason)
        self.authorizationCode = Self.displayable(authorizationCode)
        self.processorReference = Self.displayable(processorReference)
        self.processedAt = processedAt
    }

    /// Reads the stored values; returns nil if all of them are absent.
    init?(
        storedReason reason: String?, authorizationCode: String?, processorReference: String?, processedAt: Date?
    ) {
        guard reason != nil || authorizationCode != nil || processorReference != nil || processedAt != nil else {
            return nil
        }
        self.init(
            reason: reason, authorizationCode: authorizationCode, processorReference: processorReference,
            processedAt: processedAt)
    }

    /// Returns this outcome. A missing processor reference or authorization code is taken from the earlier outcome. A
    /// person needs these values to find the payment at the processor.
    func completed(from earlier: PaymentOutcome?) -> PaymentOutcome {
        var outcome = self
        outcome.processorReference = processorReference ?? earlier?.processorReference
        outcome.authorizationCode = authorizationCode ?? earlier?.authorizationCode
        return outcome
    }

    /// Returns a copy in which a text is masked if its digits contain an account number.
    ///
    /// - Parameter isAccountNumberIn: receives all ASCII digits of a text, in order, regardless of the characters
    ///   between them.
    public func masked(where isAccountNumberIn: (_ digits: [UInt8]) -> Bool) -> PaymentOutcome {
        func maskedText(_ text: String?) -> String? {
            text.map { text in
                let digits = text.utf8.filter(AccountNumberForm.isDigit)
                return isAccountNumberIn(digits) ? AccountNumberForm.masked(text) : text
            }
        }
        var outcome = self
        outcome.reason = maskedText(reason)
        outcome.authorizationCode = maskedText(authorizationCode)
        outcome.processorReference = maskedText(processorReference)
        return outcome
    }

    /// The names of the texts that have at least eight masked digits, for the log.
    public var maskedTexts: [String] {
        [("reason", reason), ("authorizationCode", authorizationCode), ("reference", processorReference)]
            .filter { ($0.1?.utf8.count { $0 == UInt8(ascii: "*") } ?? 0) >= 8 }.map(\.0)
    }

    /// Makes a processor's text safe for display: keeps at most 100 printable ASCII characters, and masks account
    /// numbers.
    private static func displayable(_ text: String?) -> String? {
        guard let text else { return nil }
        let scalars = text.unicodeScalars.filter { (0x20...0x7E).contains($0.value) }
        var printable = String(String.UnicodeScalarView(scalars))
        if AccountNumberForm.isIn(printable, separatedBy: .anything), !isUUID(printable) {
            printable = AccountNumberForm.masked(printable)
        }
        // The text is masked before it is truncated. Otherwise a truncated account number would not be recognised.
        return printable.isEmpty ? nil : String(printable.prefix(100))
    }

    /// Returns true for a UUID (RFC 9562, section 4) with a hexadecimal letter. Many processors identify payments by
    /// UUIDs, and nearly every UUID happens to contain digits that form an account number. No account number is written
    /// in the groups of a UUID, so UUIDs are not masked.
    private static func isUUID(_ text: String) -> Bool {
        guard text.utf8.count == 36, let uuid = UUID(uuidString: text) else { return false }
        let (version, variant) = (uuid.uuid.6 >> 4, uuid.uuid.8 >> 6)
        return (1...8).contains(version) && variant == 0b10
            && text.utf8.contains { (UInt8(ascii: "a")...UInt8(ascii: "f")).contains($0 | 0x20) }
    }
}

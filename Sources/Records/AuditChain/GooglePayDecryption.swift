internal import KeyTypes
internal import StrictJSON

/// A request to decrypt a Google Pay message. Members are left out of the record if the request was refused before they
/// were known.
public struct GooglePayDecryption: Sendable, Equatable {
    /// SHA-256 of the caller's reference.
    public var reference: AuditDigest?
    /// The amount and the currency that the caller stated. The payment token names neither.
    public var amount: AuditText?
    public var currency: AuditText?
    /// The kind of the card number in the message.
    public var authMethod: AuditText?
    /// The keys that were tried, in this order; each may have been used in the HSM. The record's own publicKeyHash is that
    /// of the key that opened the message.
    public var triedKeys: [AuditDigest] = []

    public init(reference: AuditDigest? = nil, amount: AuditText? = nil, currency: AuditText? = nil) {
        self.reference = reference
        self.amount = amount
        self.currency = currency
    }

    func write(into writer: inout JSONWriter) {
        writer.member("wallet", "google-pay")
        writer.member("reference", reference?.hex)
        writer.member("amount", amount?.text)
        writer.member("currency", currency?.text)
        writer.member("authMethod", authMethod?.text)
        if !triedKeys.isEmpty { writer.member("triedKeys", triedKeys.map(\.base64)) }
    }
}

extension AuditEntry {
    /// True if the record names Google Pay as the wallet of its key or its payment token.
    public var namesGooglePay: Bool { details["wallet"]?.stringValue == Wallet.googlePay.rawValue }
}

extension AuditText {
    /// Takes a merchant's identifier at Google. One of 20 digits is kept, although ``init(_:)`` would mask it: no account
    /// number has more than 19. Any other text is sanitised.
    public init(merchantAtGoogle identifier: String) {
        let isNumber = identifier.utf8.count == 20 && identifier.utf8.allSatisfy { (0x30...0x39).contains($0) }
        self = isNumber ? AuditText(stored: identifier) : AuditText(identifier)
    }
}

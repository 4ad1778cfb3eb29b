public import Refusals
public import StrictJSON

/// The decrypted payment data: one JSON object ("Payment Data Keys" of Apple's format reference).
///
/// Read here is what is compared with the caller's expectations, and nothing else: the caller gets the decrypted bytes
/// as Apple wrote them. A member that is absent or of another type than documented reads as nil.
public struct PaymentPayload: Sendable {
    /// Deeper than anything Apple documents, and shallow enough for the reader.
    private static let limits = JSONLimits(maximumDepth: 64)

    private let json: JSONObject

    /// - Throws: `decryption_failed` unless `plaintext` is one well-formed JSON object in UTF-8 whose names differ.
    public init(plaintext: [UInt8]) throws(Refusal) {
        guard let value = try? JSONValue(parsing: plaintext, limits: Self.limits), let object = value.objectValue
        else { throw .decryptionFailed }
        json = object
    }

    /// ISO 4217 numeric code; a string, for its leading zeros.
    public var currencyCode: String? { json["currencyCode"]?.stringValue }
    /// In the unit that Apple wrote, exact.
    public var transactionAmount: ExactDecimal? { json["transactionAmount"]?.numberValue?.decimal }
}

extension PaymentPayload: Unprintable {}

/// Cardholder data and what carries it: printing, interpolating, dumping or reflecting it gives the type's name and
/// nothing else, so that no log line and no crash report can carry it.
public protocol Unprintable: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {}

extension Unprintable {
    public var description: String { "\(Self.self)(not printable)" }
    public var debugDescription: String { description }
    public var customMirror: Mirror { Mirror(self, children: [], displayStyle: .struct) }
}

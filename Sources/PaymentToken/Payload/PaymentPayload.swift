public import Refusals
public import StrictJSON

/// The decrypted payment data, read into types: "Payment Data Keys" of Apple's format reference.
///
/// The schema refuses nothing: a member that is absent or of another type than documented reads as nil, and members
/// that Apple adds tomorrow are in `json`. Every text here is cardholder data: it has no description and no reflection,
/// so that no log line, interpolation or crash report can carry it.
public struct PaymentPayload: Sendable {
    /// Deeper than anything Apple documents, and shallow enough for the reader.
    static let limits = JSONLimits(maximumDepth: 64)

    /// The whole dictionary.
    public let json: JSONObject

    /// - Throws: `decryption_failed` unless `plaintext` is one well-formed JSON object in UTF-8 whose names differ.
    public init(plaintext: [UInt8]) throws(Refusal) {
        guard let value = try? JSONValue(parsing: plaintext, limits: Self.limits), let object = value.objectValue
        else { throw .decryptionFailed }
        json = object
    }

    /// Device-specific account number of the card (DPAN).
    public var applicationPrimaryAccountNumber: String? { json["applicationPrimaryAccountNumber"]?.stringValue }
    /// YYMMDD.
    public var applicationExpirationDate: String? { json["applicationExpirationDate"]?.stringValue }
    /// ISO 4217 numeric code; a string, for its leading zeros.
    public var currencyCode: String? { json["currencyCode"]?.stringValue }
    /// In the unit that Apple wrote, exact.
    public var transactionAmount: ExactDecimal? { json["transactionAmount"]?.numberValue?.decimal }
    public var cardholderName: String? { json["cardholderName"]?.stringValue }
    /// Hexadecimal.
    public var deviceManufacturerIdentifier: String? { json["deviceManufacturerIdentifier"]?.stringValue }
    /// Which detailed payment data there is.
    public var paymentDataType: PaymentDataType? { json["paymentDataType"]?.stringValue.map(PaymentDataType.init) }
    /// The cryptogram and its companions, by `paymentDataType`.
    public var detailedPaymentData: DetailedPaymentData? {
        guard let type = paymentDataType, let object = json["paymentData"]?.objectValue else { return nil }
        return DetailedPaymentData(type: type, json: object)
    }
    /// For a multitoken request: the submerchants' cryptograms. Entries that are no objects are left out.
    public var authenticationResponses: [AuthenticationResponse]? {
        json["authenticationResponses"]?.arrayValue.map { entries in
            entries.compactMap { entry in entry.objectValue.map(AuthenticationResponse.init(json:)) }
        }
    }
    /// For a merchant token request: the payment network's identifier of the merchant token.
    public var merchantTokenIdentifier: String? { json["merchantTokenIdentifier"]?.stringValue }
    /// For a merchant token request: the card's art, last four digits and expiration date.
    public var merchantTokenMetadata: MerchantTokenMetadata? {
        json["merchantTokenMetadata"]?.objectValue.map(MerchantTokenMetadata.init(json:))
    }
}

extension PaymentPayload: Unprintable {}

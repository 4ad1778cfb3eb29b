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

/// The `paymentDataType` member of the payment data.
public enum PaymentDataType: Sendable, Equatable {
    case threeDSecure
    case emv
    /// A type that was not known when this was written.
    case other(String)

    public init(_ name: String) {
        switch name {
        case "3DSecure": self = .threeDSecure
        case "EMV": self = .emv
        default: self = .other(name)
        }
    }
}

/// The inner `paymentData` dictionary: "Detailed Payment Data Keys" for 3-D Secure and for EMV.
public enum DetailedPaymentData: Sendable {
    case threeDSecure(ThreeDSecureData)
    case emv(EMVData)
    case other(UnknownData)

    init(type: PaymentDataType, json: JSONObject) {
        switch type {
        case .threeDSecure: self = .threeDSecure(ThreeDSecureData(json: json))
        case .emv: self = .emv(EMVData(json: json))
        case .other: self = .other(UnknownData(json: json))
        }
    }

    public struct ThreeDSecureData: Sendable, Unprintable {
        public let json: JSONObject
        /// Base64, as defined by 3-D Secure.
        public var onlinePaymentCryptogram: String? { json["onlinePaymentCryptogram"]?.stringValue }
        /// The network may add it; when there, it must be passed on to the processor.
        public var eciIndicator: String? { json["eciIndicator"]?.stringValue }
    }

    public struct EMVData: Sendable, Unprintable {
        public let json: JSONObject
        /// Base64 of the Secure Element's EMV structure.
        public var emvData: String? { json["emvData"]?.stringValue }
        /// Hexadecimal; encrypted with the bank's key. RSA_v1 only.
        public var encryptedPINData: String? { json["encryptedPINData"]?.stringValue }
    }

    /// Of a type that was not known when this was written.
    public struct UnknownData: Sendable, Unprintable {
        public let json: JSONObject
    }
}

extension DetailedPaymentData: Unprintable {}

/// One submerchant's part of a multitoken request.
public struct AuthenticationResponse: Sendable, Unprintable {
    public let json: JSONObject
    /// The submerchant, as the coordinating merchant named it.
    public var merchantIdentifier: String? { json["merchantIdentifier"]?.stringValue }
    /// The payment network's cryptogram for the submerchant.
    public var authenticationData: String? { json["authenticationData"]?.stringValue }
    /// The amount authorised for the submerchant. Apple writes this one as a string; a number is read as well.
    public var transactionAmount: ExactDecimal? {
        switch json["transactionAmount"] {
        case .string(let text): ExactDecimal(text)
        case .number(let number): number.decimal
        default: nil
        }
    }
}

/// The card behind a merchant token: Apple's MerchantTokenMetadata.
public struct MerchantTokenMetadata: Sendable, Unprintable {
    public let json: JSONObject
    /// Last four digits, expiration date and the like of the card behind the token.
    public var cardMetadata: JSONObject? { json["cardMetadata"]?.objectValue }
    /// The card's pictures.
    public var cardArt: [JSONValue]? { json["cardArt"]?.arrayValue }
}

/// Cardholder data and what carries it: printing, interpolating, dumping or reflecting it gives the type's name and nothing else.
public protocol Unprintable: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {}

extension Unprintable {
    public var description: String { "\(Self.self)(not printable)" }
    public var debugDescription: String { description }
    public var customMirror: Mirror { Mirror(self, children: [], displayStyle: .struct) }
}

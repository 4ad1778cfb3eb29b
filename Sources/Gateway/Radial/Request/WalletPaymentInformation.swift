internal import Encodings
internal import StrictJSON

/// An Apple payment token in Radial's elements: part of a ``CreditCardAuthRequest``, or a separate document for a
/// payment token that is only decrypted.
///
/// Only EC_v1 is accepted: a payment token for an RSA key has a wrappedKey, for which no element is documented.
/// Radial's examples break base64 and the transaction identifier into lines, so white space in them is skipped. The
/// type does not check whether the parts are a genuine payment token.
public struct WalletPaymentInformation: Sendable, Equatable {
    /// ApplePayTransactionId: 64 hexadecimal digits, stored in lower case.
    public let transactionId: String
    /// Base64 of a SubjectPublicKeyInfo in DER.
    public let ephemeralPublicKey: String
    /// Base64 of 32 bytes: SHA-256 of the merchant key's SubjectPublicKeyInfo. (Radial's table describes
    /// EphemeralPublicKey in these words, by mistake.)
    public let publicKeyHash: String
    /// The payment token's format, which is always `EC_v1`.
    public let version: String
    /// The encrypted payment data in base64.
    public let data: String
    /// A detached CMS signature in base64.
    public let signature: String
    /// ApplicationData: the SHA-256 of the payment request's applicationData, as in the payment token's header, in 64
    /// hexadecimal digits, stored in lower case. This element is an extension, not one of Radial's: without it, the
    /// signature of a payment token that has applicationData cannot be verified.
    public let applicationData: String?

    static let name = "WalletPaymentInformation"

    /// The permitted lengths of base64; the largest document of ``CreditCardAuthRequest`` could not contain more.
    private static let maximumBase64 = 1...(128 << 10)

    /// Parses a document whose root element is WalletPaymentInformation.
    public init(parsing bytes: [UInt8], limits: XMLLimits = XMLLimits()) throws(DocumentError) {
        try self.init(ElementFields.root(bytes, Self.name, limits: limits), path: Self.name)
    }

    init(_ element: XMLElement, path: String) throws(DocumentError) {
        let fields = try ElementFields(
            element, path: path,
            children: [
                "ApplePayTransactionId", "EphemeralPublicKey", "PublicKeyHash", "Version", "Data", "Signature",
                "ApplicationData",
            ], unknown: .refused)
        // The version is checked first. A payment token of another format has other elements, and the error would
        // otherwise name a missing element.
        version = try fields.requiredText("Version", 1...32).trimmingXMLWhiteSpace
        if version == "RSA_v1" || version == "RSA_v2" { throw fields.fault(.formatWithoutElements, "Version") }
        guard version == "EC_v1" else { throw fields.fault(.unknownFormat, "Version") }
        _ = try fields.required("ApplePayTransactionId")
        guard let identifier = try Self.hexadecimal("ApplePayTransactionId", fields) else {
            throw fields.fault(.missing, "ApplePayTransactionId")
        }
        transactionId = identifier
        ephemeralPublicKey = try Self.base64("EphemeralPublicKey", fields)
        publicKeyHash = try Self.base64("PublicKeyHash", fields, bytes: 32)
        data = try Self.base64("Data", fields)
        signature = try Self.base64("Signature", fields)
        applicationData = try Self.hexadecimal("ApplicationData", fields)
    }

    private static func base64(
        _ name: String, _ fields: ElementFields, bytes count: Int? = nil
    ) throws(DocumentError) -> String {
        let text = try fields.requiredText(name, maximumBase64).removingXMLWhiteSpace
        guard let bytes = Base64.decode(text) else { throw fields.fault(.notBase64, name) }
        if let count, bytes.count != count { throw fields.fault(.notBase64OfBytes(count), name) }
        return text
    }

    private static func hexadecimal(_ name: String, _ fields: ElementFields) throws(DocumentError) -> String? {
        guard let text = try fields.nonblankText(name, maximumBase64)?.removingXMLWhiteSpace else { return nil }
        guard let bytes = Hexadecimal.decode(text), bytes.count == 32 else {
            throw fields.fault(.notHexadecimal(digits: 64), name)
        }
        return Hexadecimal.encode(bytes)
    }

    /// The payment token's paymentData as Apple writes it, as JSON: `version`, `data`, `signature`, and `header` with
    /// `ephemeralPublicKey`, `publicKeyHash`, `transactionId` and, if there is one, `applicationData`.
    public var paymentData: [UInt8] {
        var json = JSONWriter(capacity: data.utf8.count + signature.utf8.count + 512)
        json.beginObject()
        json.member("version", version)
        json.member("data", data)
        json.member("signature", signature)
        json.member("header")
        json.beginObject()
        json.member("ephemeralPublicKey", ephemeralPublicKey)
        json.member("publicKeyHash", publicKeyHash)
        json.member("transactionId", transactionId)
        json.member("applicationData", applicationData)
        json.endObject()
        json.endObject()
        return json.bytes
    }
}

public import GooglePayToken
public import Payments
import SecretMemory
public import StrictJSON

/// Reads the decrypted payment data of Apple and Google, JSON dictionaries.
///
/// The reader copies secrets into memory that is wiped. The parsed JSON keeps them in ordinary memory too, so a process
/// that uses the reader must not be dumpable.
public enum PaymentDataReader {
    /// The reason why the payment data cannot be submitted.
    public enum Fault: Error, Sendable, Equatable {
        /// A member is absent, or its form differs from the wallet's documentation.
        case member(String)
        /// The value of `paymentDataType` is not one of ``PaymentDataType``.
        case unknownType
    }

    /// Returns Apple's payment data as typed members.
    ///
    /// - Parameters:
    ///   - json: the parsed dictionary.
    ///   - bytes: the text of the same dictionary, as it was decrypted.
    public static func credential(_ json: JSONObject, bytes: [UInt8]) throws(Fault) -> PaymentCredential {
        let number = try accountNumber("applicationPrimaryAccountNumber", in: json)
        guard let expiration = ExpirationDate(try text("applicationExpirationDate", in: json)) else {
            throw .member("applicationExpirationDate")
        }
        guard let type = PaymentDataType(rawValue: try text("paymentDataType", in: json)) else { throw .unknownType }
        guard let detail = json["paymentData"]?.objectValue else { throw .member("paymentData") }
        let proof: PaymentProof
        switch type {
        case .threeDSecure:
            proof = .threeDSecure(
                ThreeDSecureProof(
                    cryptogram: secret(try text("onlinePaymentCryptogram", in: detail)),
                    eciIndicator: detail["eciIndicator"]?.stringValue))
        case .emv:
            proof = .emv(
                EMVProof(
                    data: secret(try text("emvData", in: detail)),
                    encryptedPIN: secret(detail["encryptedPINData"]?.stringValue ?? "")))
        }
        var metadata: [UInt8] = []
        if let value = json["merchantTokenMetadata"] {
            var writer = JSONWriter(capacity: 512)
            writer.value(value)
            metadata = writer.bytes
        }
        return PaymentCredential(
            accountNumber: number, expirationDate: expiration,
            cardholderName: secret(json["cardholderName"]?.stringValue ?? ""),
            deviceManufacturerIdentifier: json["deviceManufacturerIdentifier"]?.stringValue, proof: proof,
            merchantResponses: try responses(json),
            merchantTokenIdentifier: json["merchantTokenIdentifier"]?.stringValue,
            merchantTokenMetadata: SecretBytes(copying: metadata), dictionary: SecretBytes(copying: bytes))
    }

    /// Returns Google's payment data as typed members. paytokend has read the same plaintext strictly, so it is one that
    /// Google signed.
    ///
    /// - Parameters:
    ///   - json: the parsed plaintext.
    ///   - bytes: the text of the same object.
    ///   - method: the kind of card number that paytokend's answer states.
    public static func googlePayCredential(
        _ json: JSONObject, bytes: [UInt8], as method: GooglePayPayload.AuthMethod
    ) throws(Fault) -> PaymentCredential {
        guard let details = json["paymentMethodDetails"]?.objectValue else { throw .member("paymentMethodDetails") }
        guard details["authMethod"]?.stringValue == method.rawValue else { throw .member("authMethod") }
        guard let year = details["expirationYear"]?.numberValue?.int,
            let month = details["expirationMonth"]?.numberValue?.int,
            let expiration = ExpirationDate(year: year, month: month)
        else { throw .member("expirationYear or expirationMonth") }
        let proof: PaymentProof =
            switch method {
            case .panOnly: .absent
            case .cryptogram3DS:
                .threeDSecure(
                    ThreeDSecureProof(
                        cryptogram: secret(try text("cryptogram", in: details)),
                        eciIndicator: details["eciIndicator"]?.stringValue))
            }
        return PaymentCredential(
            accountNumber: try accountNumber("pan", in: details), expirationDate: expiration, proof: proof,
            dictionary: SecretBytes(copying: bytes))
    }

    /// Returns the amount to be paid with Apple's payment data, or nil if there is none. `transactionAmount` is a number of minor units
    /// (``Amount``).
    ///
    /// - Throws: a fault if the amount is not a whole number of minor units, or if the currency is not one of
    ///   ``Currency/all``.
    public static func amount(_ json: JSONObject) throws(Fault) -> Amount? {
        guard let value = json["transactionAmount"], !value.isNull else { return nil }
        guard let number = value.numberValue?.int else { throw .member("transactionAmount") }
        guard let currency = json["currencyCode"]?.stringValue.flatMap({ Currency(number: $0) }) else {
            throw .member("currencyCode")
        }
        guard let amount = Amount(minorUnits: Int64(number), currency: currency) else {
            throw .member("transactionAmount")
        }
        return amount
    }

    private static func responses(_ json: JSONObject) throws(Fault) -> [MerchantResponse] {
        guard let value = json["authenticationResponses"], !value.isNull else { return [] }
        guard let elements = value.arrayValue, elements.count <= 100 else { throw .member("authenticationResponses") }
        var responses: [MerchantResponse] = []
        for element in elements {
            guard let object = element.objectValue else { throw .member("authenticationResponses") }
            let amount = object["transactionAmount"]
            responses.append(
                MerchantResponse(
                    merchantIdentifier: try text("merchantIdentifier", in: object),
                    authenticationData: secret(object["authenticationData"]?.stringValue ?? ""),
                    transactionAmount: amount?.stringValue ?? amount?.numberValue?.text))
        }
        return responses
    }

    private static func accountNumber(_ name: String, in object: JSONObject) throws(Fault) -> SecretBytes {
        let number = try text(name, in: object)
        guard (8...19).contains(number.utf8.count), number.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else {
            throw .member(name)
        }
        return secret(number)
    }

    private static func text(_ name: String, in object: JSONObject) throws(Fault) -> String {
        guard let text = object[name]?.stringValue, !text.isEmpty else { throw .member(name) }
        return text
    }

    private static func secret(_ text: String) -> SecretBytes { SecretBytes(copying: Array(text.utf8)) }
}

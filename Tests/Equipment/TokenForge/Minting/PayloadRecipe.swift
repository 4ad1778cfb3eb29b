import Foundation

/// The content of the dictionary that a payment token contains encrypted (Apple's "Payment token format reference",
/// Payment Data Keys).
///
/// Account numbers and cryptograms are fictitious. The account numbers begin with 4 or 5 and have valid check digits
/// (Luhn), so that searches for leaked account numbers find them.
public struct PayloadRecipe: Sendable {
    public enum Kind: String, Sendable, CaseIterable {
        case threeDSecure = "3DSecure"
        case emv = "EMV"
    }

    public var kind: Kind = .threeDSecure
    /// The member `applicationPrimaryAccountNumber`.
    public var accountNumber = "4817499130000004"
    /// The member `applicationExpirationDate`, YYMMDD.
    public var expirationDate = "291231"
    /// The member `currencyCode`: three digits of ISO 4217.
    public var currencyCode = "840"
    /// The member `transactionAmount`, as JSON text.
    public var amount = "1099"
    public var cardholderName: String?
    public var deviceManufacturerIdentifier = "040010030273"
    /// The bytes of `onlinePaymentCryptogram` (3DSecure) or `emvData` (EMV). The JSON contains them in base64.
    public var cryptogram: [UInt8]
    /// The member `eciIndicator`; nil to omit it, as some networks do.
    public var eciIndicator: String? = "5"
    /// The member `encryptedPINData` (EMV only), in hexadecimal; nil to omit it.
    public var encryptedPINData: String?
    /// The member `merchantTokenIdentifier`; nil to omit it. If it is present, `merchantTokenMetadata` is too.
    public var merchantTokenIdentifier: String?
    /// The submerchants in `authenticationResponses`, each with identifier, cryptogram and amount.
    public var authenticationResponses: [(merchantIdentifier: String, authenticationData: String, amount: String)] = []
    /// Additional members, each as JSON text `"name":value`.
    public var extraMembers: [String] = []

    public init(_ kind: Kind = .threeDSecure) {
        self.kind = kind
        cryptogram = (0..<(kind == .emv ? 120 : 20)).map { _ in UInt8.random(in: .min ... .max) }
    }

    /// The texts that no program may print: the account number and the cryptogram, in the form of the JSON.
    public var secrets: [String] {
        [accountNumber, Data(cryptogram).base64EncodedString()] + (encryptedPINData.map { [$0] } ?? [])
            + authenticationResponses.map(\.authenticationData)
    }

    /// The dictionary as JSON, with members in Apple's order and without blanks.
    public var json: [UInt8] {
        var members = [
            "\"applicationPrimaryAccountNumber\":\(JSONText.string(accountNumber))",
            "\"applicationExpirationDate\":\(JSONText.string(expirationDate))",
            "\"currencyCode\":\(JSONText.string(currencyCode))", "\"transactionAmount\":\(amount)",
        ]
        if let cardholderName { members.append("\"cardholderName\":\(JSONText.string(cardholderName))") }
        members += [
            "\"deviceManufacturerIdentifier\":\(JSONText.string(deviceManufacturerIdentifier))",
            "\"paymentDataType\":\(JSONText.string(kind.rawValue))", "\"paymentData\":\(detail)",
        ]
        if !authenticationResponses.isEmpty {
            let entries = authenticationResponses.map {
                "{\"merchantIdentifier\":\(JSONText.string($0.merchantIdentifier)),"
                    + "\"authenticationData\":\(JSONText.string($0.authenticationData)),"
                    + "\"transactionAmount\":\(JSONText.string($0.amount))}"
            }
            members.append("\"authenticationResponses\":[\(entries.joined(separator: ","))]")
        }
        if let merchantTokenIdentifier {
            members.append("\"merchantTokenIdentifier\":\(JSONText.string(merchantTokenIdentifier))")
            members.append("\"merchantTokenMetadata\":{\"cardMetadata\":{\"expirationDate\":\"291231\"}}")
        }
        return Array("{\((members + extraMembers).joined(separator: ","))}".utf8)
    }

    private var detail: String {
        let encoded = JSONText.string(Data(cryptogram).base64EncodedString())
        switch kind {
        case .threeDSecure:
            let eci = eciIndicator.map { ",\"eciIndicator\":\(JSONText.string($0))" } ?? ""
            return "{\"onlinePaymentCryptogram\":\(encoded)\(eci)}"
        case .emv:
            let pin = encryptedPINData.map { ",\"encryptedPINData\":\(JSONText.string($0))" } ?? ""
            return "{\"emvData\":\(encoded)\(pin)}"
        }
    }
}

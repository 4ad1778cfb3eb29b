import PaymentToken
import Refusals
import StrictJSON
import TestSupport
import Testing
import TokenForge

@Suite("Payment payload")
struct PaymentPayloadTests {
    @Test("3-D Secure data is read by Apple's table")
    func threeDSecure() throws {
        let payload = try payload(
            """
            {"applicationPrimaryAccountNumber":"4817499130000004","applicationExpirationDate":"291231",
             "currencyCode":"036","transactionAmount":1099,"cardholderName":"A B",
             "deviceManufacturerIdentifier":"040010030273","paymentDataType":"3DSecure",
             "paymentData":{"onlinePaymentCryptogram":"AAEC","eciIndicator":"5"}}
            """)
        #expect(payload.applicationPrimaryAccountNumber == "4817499130000004")
        #expect(payload.applicationExpirationDate == "291231")
        #expect(payload.currencyCode == "036")
        #expect(payload.transactionAmount == ExactDecimal(1099))
        #expect(payload.cardholderName == "A B")
        #expect(payload.deviceManufacturerIdentifier == "040010030273")
        #expect(payload.paymentDataType == .threeDSecure)
        guard case .threeDSecure(let data) = payload.detailedPaymentData else {
            Issue.record("not 3-D Secure")
            return
        }
        #expect(data.onlinePaymentCryptogram == "AAEC")
        #expect(data.eciIndicator == "5")
    }

    @Test("EMV data is read by Apple's table, with the encrypted PIN")
    func emv() throws {
        let payload = try payload(
            #"{"paymentDataType":"EMV","paymentData":{"emvData":"nyYI","encryptedPINData":"0a0b"}}"#)
        #expect(payload.paymentDataType == .emv)
        guard case .emv(let data) = payload.detailedPaymentData else {
            Issue.record("not EMV")
            return
        }
        #expect(data.emvData == "nyYI")
        #expect(data.encryptedPINData == "0a0b")
    }

    @Test("Multitoken and merchant token requests are read by Apple's tables")
    func tokenRequests() throws {
        let payload = try payload(
            """
            {"authenticationResponses":[
               {"merchantIdentifier":"sub.1","authenticationData":"AAA=","transactionAmount":"12.50"},
               {"merchantIdentifier":"sub.2","authenticationData":"BBB=","transactionAmount":7}],
             "merchantTokenIdentifier":"DNITHE001",
             "merchantTokenMetadata":{"cardMetadata":{"fpanSuffix":"1234"},"cardArt":[{"type":"image/png"}]}}
            """)
        let responses = try #require(payload.authenticationResponses)
        #expect(responses.map(\.merchantIdentifier) == ["sub.1", "sub.2"])
        #expect(responses.map(\.authenticationData) == ["AAA=", "BBB="])
        #expect(responses.map(\.transactionAmount) == [ExactDecimal("12.5"), ExactDecimal(7)])
        #expect(payload.merchantTokenIdentifier == "DNITHE001")
        #expect(payload.merchantTokenMetadata?.cardMetadata?["fpanSuffix"]?.stringValue == "1234")
        #expect(payload.merchantTokenMetadata?.cardArt?.count == 1)
    }

    @Test("What TokenForge encrypts is read", arguments: PayloadRecipe.Kind.allCases)
    func forged(kind: PayloadRecipe.Kind) throws {
        let recipe = PayloadRecipe(kind)
        let payload = try PaymentPayload(plaintext: recipe.json)
        #expect(payload.applicationPrimaryAccountNumber == recipe.accountNumber)
        #expect(payload.currencyCode == recipe.currencyCode)
        #expect(payload.transactionAmount == ExactDecimal(recipe.amount))
    }

    @Test("Unknown types and members survive, and members of another type read as absent")
    func schemaRefusesNothing() throws {
        let payload = try payload(
            """
            {"applicationPrimaryAccountNumber":4817,"currencyCode":840,"transactionAmount":"1099","paymentDataType":"5DSecure",
             "paymentData":{"new":[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]},"authenticationResponses":{},"tomorrow":null}
            """)
        #expect(payload.applicationPrimaryAccountNumber == nil)
        #expect(payload.currencyCode == nil)
        #expect(payload.transactionAmount == nil)
        #expect(payload.paymentDataType == .other("5DSecure"))
        #expect(payload.authenticationResponses == nil)
        #expect(payload.json["tomorrow"]?.isNull == true)
        guard case .other(let data) = payload.detailedPaymentData else {
            Issue.record("type known")
            return
        }
        #expect(data.json["new"] != nil)
        #expect(try self.payload("{}").detailedPaymentData == nil)
    }

    @Test(
        "What is not one well-formed JSON object in UTF-8 fails as a decryption, without details",
        arguments: [
            "", "[]", "null", "\"x\"", "{}{}", "{} x", "{", "\u{FEFF}{}", #"{"a":1,"a":2}"#, #"{"a":"\uD800"}"#, "x",
        ])
    func notAnObject(text: String) throws {
        let refusal = try refusal { _ = try payload(text) }
        #expect(refusal?.code == .decryptionFailed)
        #expect(refusal?.details == nil)
        #expect(refusal == .decryptionFailed)
    }

    @Test("Bytes that are not UTF-8 fail as a decryption")
    func notUTF8() throws {
        let bytes = Array(#"{"a":""#.utf8) + [0xFF] + Array(#""}"#.utf8)
        #expect(try refusal { _ = try PaymentPayload(plaintext: bytes) }?.code == .decryptionFailed)
    }

    @Test("Nothing of a payload can be printed, dumped or reflected")
    func notPrintable() throws {
        let payload = try payload(
            """
            {"applicationPrimaryAccountNumber":"4817499130000004","paymentDataType":"3DSecure",
             "paymentData":{"onlinePaymentCryptogram":"4817499130000004"},
             "authenticationResponses":[{"authenticationData":"4817499130000004"}],
             "merchantTokenMetadata":{"cardMetadata":{"fpanSuffix":"4817499130000004"}}}
            """)
        let data = try #require(payload.detailedPaymentData)
        guard case .threeDSecure(let secure) = data else {
            Issue.record("not 3-D Secure")
            return
        }
        let parts: [Any] = [
            payload, data, secure, try #require(payload.authenticationResponses),
            try #require(payload.merchantTokenMetadata),
            [payload], ["key": payload], Optional(payload) as Any, (1, payload),
        ]
        for part in parts {
            var dumped = ""
            dump(part, to: &dumped)
            for text in ["\(part)", String(reflecting: part), String(describing: part), dumped] {
                #expect(!text.contains("4817"), "\(type(of: part))")
            }
        }
        #expect(Mirror(reflecting: payload).children.isEmpty)
    }

    @Test("Nothing of a token can be printed")
    func tokenNotPrintable() throws {
        let token = try Minting.token()
        #expect("\(token)\(String(reflecting: token))".count < 80)
        #expect(Mirror(reflecting: token).children.isEmpty)
    }

    private func payload(_ text: String) throws -> PaymentPayload {
        try PaymentPayload(plaintext: Array(text.utf8))
    }
}

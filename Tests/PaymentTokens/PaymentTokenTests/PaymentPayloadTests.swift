import PaymentToken
import Refusals
import StrictJSON
import TestSupport
import Testing
import TokenForge

@Suite("Payment payload")
struct PaymentPayloadTests {
    @Test("Reads currency and amount from the members that Apple's table names")
    func comparedMembers() throws {
        let payload = try payload(
            """
            {"applicationPrimaryAccountNumber":"4817499130000004","applicationExpirationDate":"291231",
             "currencyCode":"036","transactionAmount":1099,"cardholderName":"A B",
             "deviceManufacturerIdentifier":"040010030273","paymentDataType":"3DSecure",
             "paymentData":{"onlinePaymentCryptogram":"AAEC","eciIndicator":"5"}}
            """)
        #expect(payload.currencyCode == "036")
        #expect(payload.transactionAmount == ExactDecimal(1099))
    }

    @Test("Reads TokenForge's payloads", arguments: PayloadRecipe.Kind.allCases)
    func forged(kind: PayloadRecipe.Kind) throws {
        let recipe = PayloadRecipe(kind)
        let payload = try PaymentPayload(plaintext: recipe.json)
        #expect(payload.currencyCode == recipe.currencyCode)
        #expect(payload.transactionAmount == ExactDecimal(recipe.amount))
    }

    @Test("Accepts an unknown paymentDataType and unknown members, and reads a member of the wrong type as absent")
    func schemaRefusesNothing() throws {
        let payload = try payload(
            """
            {"applicationPrimaryAccountNumber":4817,"currencyCode":840,"transactionAmount":"1099","paymentDataType":"5DSecure",
             "paymentData":{"new":[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]},"authenticationResponses":{},"tomorrow":null}
            """)
        #expect(payload.currencyCode == nil)
        #expect(payload.transactionAmount == nil)
    }

    @Test(
        "Reports anything but one well-formed JSON object in UTF-8 as a failed decryption, without details",
        arguments: [
            "", "[]", "null", "\"x\"", "{}{}", "{} x", "{", "\u{FEFF}{}", #"{"a":1,"a":2}"#, #"{"a":"\uD800"}"#, "x",
        ])
    func notAnObject(text: String) throws {
        let refusal = try refusal { _ = try payload(text) }
        #expect(refusal?.code == .decryptionFailed)
        #expect(refusal?.details == nil)
        #expect(refusal == .decryptionFailed)
    }

    @Test("Reports bytes that are not UTF-8 as a failed decryption")
    func notUTF8() throws {
        let bytes = Array(#"{"a":""#.utf8) + [0xFF] + Array(#""}"#.utf8)
        #expect(try refusal { _ = try PaymentPayload(plaintext: bytes) }?.code == .decryptionFailed)
    }

    @Test("Never prints, dumps or reflects part of a payload")
    func notPrintable() throws {
        let payload = try payload(
            """
            {"applicationPrimaryAccountNumber":"4817499130000004","paymentDataType":"3DSecure",
             "paymentData":{"onlinePaymentCryptogram":"4817499130000004"},
             "authenticationResponses":[{"authenticationData":"4817499130000004"}],
             "merchantTokenMetadata":{"cardMetadata":{"fpanSuffix":"4817499130000004"}}}
            """)
        for part: Any in [payload, [payload], ["key": payload], Optional(payload) as Any, (1, payload)] {
            var dumped = ""
            dump(part, to: &dumped)
            for text in ["\(part)", String(reflecting: part), String(describing: part), dumped] {
                #expect(!text.contains("4817"), "\(type(of: part))")
            }
        }
        #expect(Mirror(reflecting: payload).children.isEmpty)
    }

    @Test("Never prints part of a payment token")
    func tokenNotPrintable() throws {
        let paymentToken = try Minting.paymentToken()
        #expect("\(paymentToken)\(String(reflecting: paymentToken))".count < 80)
        #expect(Mirror(reflecting: paymentToken).children.isEmpty)
    }

    private func payload(_ text: String) throws -> PaymentPayload {
        try PaymentPayload(plaintext: Array(text.utf8))
    }
}

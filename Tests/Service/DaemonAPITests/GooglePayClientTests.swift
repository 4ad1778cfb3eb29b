import Refusals
import StrictJSON
import Testing

@testable import DaemonAPI

/// The forms in which a client of paytokend writes requests for Google Pay and reads their answers.
@Suite struct GooglePayClientTests {
    private static let token = #"{"signedMessage":"{\"tag\":\"a\\u003d\"}"}"#

    @Test("A written request is read with the same content, and the payment token's text stays as it is")
    func request() throws {
        let attempts = ["00000000000000a1", "00000000000000a2"]
        let body = GooglePayDecryptRequest.body(
            paymentToken: Array(Self.token.utf8), merchantIdentifier: "BCR2DN4TEXAMPLE", amount: "10.99",
            currency: "EUR",
            authMethod: "CRYPTOGRAM_3DS", reference: "order-1", attempt: "00000000000000a3", after: attempts)
        #expect(String(decoding: body, as: UTF8.self).contains(Self.token))
        let read = try GooglePayDecryptRequest(parsing: body)
        #expect(try read.token == JSONValue(parsing: Self.token))
        #expect(read.merchantIdentifier == "BCR2DN4TEXAMPLE" && read.amount == "10.99" && read.currency == "EUR")
        #expect(read.authMethod == "CRYPTOGRAM_3DS" && read.common.reference == "order-1")
        #expect(read.common.attempt == "00000000000000a3" && read.common.after == attempts)

        let short = GooglePayDecryptRequest.body(
            paymentToken: Array(Self.token.utf8), merchantIdentifier: "M", amount: "1", currency: "JPY", reference: nil)
        let least = try GooglePayDecryptRequest(parsing: short)
        #expect(least.authMethod == nil && least.common.reference == nil && least.common.attempt == nil)
    }

    @Test("An answer is read with its plaintext, and another body is not one")
    func answer() throws {
        let answer = GooglePayDecryptAnswer(
            transactionId: String(repeating: "0a", count: 32), messageId: "m", authMethod: "PAN_ONLY",
            merchantIdentifier: "BCR2DN4TEXAMPLE", publicKeyHash: "47DE", protection: "B", repeated: true,
            audit: AuditReference(node: "n", sequence: 7))
        let (read, paymentData, members) = try #require(
            GooglePayDecryptAnswer.read(answer.json(paymentData: Array(#"{"messageId":"m"}"#.utf8))))
        #expect(read.transactionId == answer.transactionId && read.messageId == "m" && read.authMethod == "PAN_ONLY")
        #expect(read.merchantIdentifier == "BCR2DN4TEXAMPLE" && read.publicKeyHash == "47DE")
        #expect(read.protection == "B" && read.repeated && read.audit == AuditReference(node: "n", sequence: 7))
        #expect(paymentData["messageId"] == .string("m") && members["paymentData"] == .object(paymentData))
        for body in [#"{}"#, #"{"code":"forbidden","message":"No."}"#, "[", #"{"transactionId":1}"#] {
            #expect(GooglePayDecryptAnswer.read(Array(body.utf8)) == nil)
        }
    }
}

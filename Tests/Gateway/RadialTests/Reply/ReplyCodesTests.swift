import Payments
import Radial
import Testing

@Suite("A reply's codes in one line")
struct ReplyCodesTests {
    private func reply(
        response: String? = "APPROVED", authorization: String = "AP01", cvv2: String = "0", avs: String = "E",
        phone: String? = "", tender: String? = "VC"
    ) throws -> CreditCardAuthReply {
        let dollars = try #require(Currency(letters: "USD"))
        return CreditCardAuthReply(
            orderId: "1", accountToken: "4054131ImpMJ6965", responseCode: response,
            authorizationResponseCode: authorization, bankAuthorizationCode: "614653", cvv2ResponseCode: cvv2,
            avsResponseCode: avs, phoneResponseCode: phone, nameResponseCode: phone, emailResponseCode: phone,
            amountAuthorized: try #require(Amount(minorUnits: 1499, currency: dollars)), tenderType: tender)
    }

    @Test("writes the published example's line, and reads it back")
    func line() throws {
        let codes = ReplyCodes(try reply())
        #expect(codes.text == "Code=APPROVED Auth=AP01 CVV2=0 AVS=E Tender=VC")
        #expect(ReplyCodes(text: codes.text) == codes)
        #expect(codes.avsResponseCode == "E" && codes.phoneResponseCode == nil && codes.tenderType == "VC")
    }

    @Test("writes at most 100 characters, and reads the longest line back whole")
    func longest() throws {
        let codes = ReplyCodes(
            try reply(
                response: "AcceptOrderWithException", authorization: "12345678", cvv2: "1234", avs: "1234",
                phone: "12", tender: "1234"))
        #expect(codes.text.utf8.count == 100)
        #expect(ReplyCodes(text: codes.text) == codes)
    }

    @Test(
        "omits undocumented codes, so that the line never contains an account number",
        arguments: ["4111111111111111", "411111111", "A B", "A=B", "<E>", ""])
    func others(code: String) throws {
        let codes = ReplyCodes(
            try reply(response: code, authorization: code, cvv2: code, avs: code, phone: code, tender: code))
        #expect(codes.text.isEmpty)
    }

    @Test(
        "refuses any other text",
        arguments: [
            "", "interrupted", "Code=", "Code=A Code=A", "Code=APPROVED  AVS=E", "Pan=4111", "Code=4111", "AVS=12345",
        ])
    func none(text: String) { #expect(ReplyCodes(text: text) == nil) }
}

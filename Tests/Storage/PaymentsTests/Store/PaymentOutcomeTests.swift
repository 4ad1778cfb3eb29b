import Payments
import Testing

@Suite("Masking of a processor's texts")
struct PaymentOutcomeTests {
    @Test(
        "masks 12 to 19 digits with a valid check digit, with any separators",
        arguments: [
            ("4111111111111111", "************1111"), ("card 4111 1111 1111 1111", "card **** **** **** 1111"),
            ("4111-1111/1111.1111", "****-****/****.1111"), ("4111a1111b1111c1111", "****a****b****c1111"),
            ("A41111111/11111111", "A********/****1111"),
            ("code 51: 4111x1111x1111x1111", "code **: ****x****x****x1111"),
            ("4111111111111111=2612101", "****************=***2101"), ("378282246310005", "***********0005"),
            ("630400000000", "********0000"), ("6304000000000000000", "***************0000"),
            ("٤4111111111111111", "************1111"), ("4111\u{0}1111\n11111111", "************1111"),
            (
                "41111111-1111-1111-1111-111111111111 4111111111111111",
                "********-****-****-****-************ ************1111"
            ),
        ])
    func masked(_ text: String, expected: String) {
        let outcome = PaymentOutcome(reason: text, authorizationCode: text, processorReference: text)
        #expect(outcome.reason == expected)
        #expect(outcome.authorizationCode == expected && outcome.processorReference == expected)
        #expect(outcome.maskedTexts == ["reason", "authorizationCode", "reference"])
        #expect(PaymentOutcome(reason: expected).reason == expected)
    }

    @Test(
        "does not mask text without an account number",
        arguments: [
            "4111111111111112", "code 51, limit 10000", "A1B2C3", "sim-000001", "4054131ImpMJ6965", "98765432109876",
            "41111111111", "63040000000000000000", "Code=APPROVED Auth=AP01 CVV2=M AVS=Z Tender=VC",
            // RFC 9562, Appendix A: a UUID with enough digits to resemble an account number.
            "919108f7-52d1-4320-9bac-f847db4148a8", "017F22E2-79B0-7CC3-98C4-DC0C0C07398F",
        ])
    func kept(_ text: String) {
        let outcome = PaymentOutcome(reason: text, authorizationCode: text, processorReference: text)
        #expect(outcome.reason == text && outcome.authorizationCode == text && outcome.processorReference == text)
        #expect(outcome.maskedTexts.isEmpty)
    }

    @Test("masks a number that begins before the hundredth character and continues after it, where the text is cut")
    func cut() {
        let text = String(repeating: "x", count: 90) + "4111111111111111"
        #expect(PaymentOutcome(reason: text).reason == String(repeating: "x", count: 90) + "**********")
    }

    @Test("masks a known account number in any surroundings, even with a wrong check digit")
    func known() {
        let number = Array("4111111111111811".utf8)
        let outcome = PaymentOutcome(
            reason: "no 1041-1111 1111x1118-1199", authorizationCode: "4111111111111113",
            processorReference: "41111111-1111-1811-8112-aaaaaaaaaaaa"
        ).masked { $0.contains(number) }
        #expect(outcome.reason == "no ****-**** ****x****-1199")
        #expect(outcome.authorizationCode == "4111111111111113")
        #expect(outcome.processorReference == "********-****-****-8112-aaaaaaaaaaaa")
    }
}

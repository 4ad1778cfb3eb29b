import Crypto
import Encodings
import PaymentToken
import Refusals
import StrictJSON
import Testing

@Suite("Expected details")
struct ExpectedDetailsTests {
    @Test(
        "Refuses an expectation with a wrong form as malformed_request",
        arguments: [
            #"{"currencyCode":840}"#, #"{"currencyCode":"84"}"#, #"{"currencyCode":"8400"}"#,
            #"{"currencyCode":"USD"}"#,
            #"{"currencyCode":null}"#, #"{"currencyCode":"８40"}"#, #"{"transactionAmount":"1099"}"#,
            #"{"transactionAmount":null}"#, #"{"transactionAmount":1e9999}"#, #"{"applicationData":"*"}"#,
            #"{"applicationData":1}"#, #"{"applicationDataHash":null}"#, #"{"applicationDataHash":"00"}"#,
            #"{"applicationDataHash":"\#(String(repeating: "g", count: 64))"}"#,
            #"{"applicationData":null,"applicationDataHash":"\#(String(repeating: "0", count: 64))"}"#,
            #"{"applicationData":"AAAA","applicationDataHash":"\#(String(repeating: "0", count: 64))"}"#,
            #"{"merchantIdentifier":""}"#, #"{"merchantIdentifier":null}"#, #"{"merchantIdentifier":[]}"#,
            #"{"amount":1099}"#, #"{"currencycode":"840"}"#, #"{"":1}"#,
        ])
    func malformed(text: String) throws {
        #expect(try refusal { _ = try expected(text) }?.code == .malformedRequest)
    }

    @Test("Does not repeat an unknown member's name in a refusal")
    func unknownName() throws {
        let refusal = try refusal { _ = try expected(#"{"4817499130000004":1}"#) }
        #expect(refusal?.details?.contains("4817") == false)
    }

    @Test("Checks nothing and lists nothing without expectations")
    func nothing() throws {
        let paymentToken = try Minting.paymentToken(applicationData: [1])
        for details in [ExpectedDetails.nothing, try expected("{}")] {
            #expect(details.checkedMembers == [])
            try details.checkMerchant("m")
            try details.checkApplicationData(paymentToken)
            try details.checkCurrency(payload("{}"))
            try details.checkAmount(payload("{}"))
        }
    }

    @Test("Lists the checked members as the request spelled them")
    func checkedMembers() throws {
        let hash = String(repeating: "0", count: 64)
        #expect(
            try expected(
                #"{"merchantIdentifier":"m","applicationData":null,"transactionAmount":1,"currencyCode":"840"}"#
            ).checkedMembers == ["currencyCode", "transactionAmount", "applicationData", "merchantIdentifier"])
        #expect(try expected(#"{"applicationDataHash":"\#(hash)"}"#).checkedMembers == ["applicationDataHash"])
    }

    @Test("Compares the merchant byte for byte")
    func merchant() throws {
        let details = try expected(#"{"merchantIdentifier":"merchant.é"}"#)
        try details.checkMerchant("merchant.\u{E9}")
        for other in ["merchant.e\u{301}", "Merchant.é", "merchant", "", "merchant.é "] {
            #expect(try refusal { try details.checkMerchant(other) }?.code == .merchantMismatch)
        }
    }

    @Test("Accepts applicationData as original data or as its hash, and compares it with the payment token's hash")
    func applicationData() throws {
        let paymentToken = try Minting.paymentToken(applicationData: Array("order 1".utf8))
        let data = Base64.encode(Array("order 1".utf8))
        let hash = Hexadecimal.encode(Array(SHA256.hash(data: Array("order 1".utf8))))
        try expected(#"{"applicationData":"\#(data)"}"#).checkApplicationData(paymentToken)
        try expected(#"{"applicationDataHash":"\#(hash.uppercased())"}"#).checkApplicationData(paymentToken)
        for text in [
            #"{"applicationData":null}"#, #"{"applicationData":""}"#,
            #"{"applicationData":"\#(Base64.encode(Array("order 2".utf8)))"}"#,
            #"{"applicationDataHash":"\#(String(repeating: "0", count: 64))"}"#,
        ] {
            #expect(
                try refusal { try expected(text).checkApplicationData(paymentToken) }?.code == .applicationDataMismatch)
        }
    }

    @Test("Matches a payment token without applicationData only if null is expected")
    func noApplicationData() throws {
        let paymentToken = try Minting.paymentToken()
        try expected(#"{"applicationData":null}"#).checkApplicationData(paymentToken)
        #expect(
            try refusal { try expected(#"{"applicationData":""}"#).checkApplicationData(paymentToken) }?.code
                == .applicationDataMismatch)
    }

    @Test("Compares currencies as three digits, and reports an absent or unreadable one as a mismatch")
    func currency() throws {
        let details = try expected(#"{"currencyCode":"036"}"#)
        try details.checkCurrency(payload(#"{"currencyCode":"036"}"#))
        for text in [
            "{}", #"{"currencyCode":"36"}"#, #"{"currencyCode":36}"#, #"{"currencyCode":"840"}"#,
            #"{"currencyCode":null}"#,
            #"{"currencyCode":"036 "}"#,
        ] {
            #expect(try refusal { try details.checkCurrency(payload(text)) }?.code == .currencyMismatch)
        }
    }

    @Test(
        "Compares amounts as exact decimals in any notation",
        arguments: ["1099", "1099.0", "1.099e3", "109900e-2"])
    func amount(text: String) throws {
        try expected(#"{"transactionAmount":1099}"#).checkAmount(payload(#"{"transactionAmount":\#(text)}"#))
        try expected(#"{"transactionAmount":\#(text)}"#).checkAmount(payload(#"{"transactionAmount":1099}"#))
    }

    @Test(
        "Reports a different amount, however near, and an absent or unreadable one as a mismatch",
        arguments: [
            "{}", #"{"transactionAmount":1099.0000000000000000001}"#, #"{"transactionAmount":10.99}"#,
            #"{"transactionAmount":-1099}"#, #"{"transactionAmount":"1099"}"#, #"{"transactionAmount":null}"#,
            #"{"transactionAmount":1099e2000}"#, #"{"transactionAmount":1098.9999999999999}"#,
        ])
    func otherAmount(text: String) throws {
        let details = try expected(#"{"transactionAmount":1099}"#)
        #expect(try refusal { try details.checkAmount(payload(text)) }?.code == .amountMismatch)
    }

    @Test("Names the required members that have no expectation; a hash or null suffices for applicationData")
    func missing() throws {
        let all = ExpectedDetails.memberNames
        #expect(
            try expected("{}").missing(of: all)
                == ["applicationData", "currencyCode", "merchantIdentifier", "transactionAmount"])
        let hash = Hexadecimal.encode(Array(SHA256.hash(data: [1])))
        let details = try expected(#"{"applicationDataHash":"\#(hash)","currencyCode":"840"}"#)
        #expect(details.missing(of: all) == ["merchantIdentifier", "transactionAmount"])
        #expect(details.missing(of: []).isEmpty)
        #expect(try expected(#"{"applicationData":null}"#).missing(of: ["applicationData"]).isEmpty)
    }

    private func expected(_ text: String) throws -> ExpectedDetails {
        try ExpectedDetails(json: #require(JSONValue(parsing: text).objectValue))
    }

    private func payload(_ text: String) throws -> PaymentPayload {
        try PaymentPayload(plaintext: Array(text.utf8))
    }
}

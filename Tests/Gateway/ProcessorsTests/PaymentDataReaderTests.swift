import Payments
import StrictJSON
import Testing
import TokenForge

@testable import Processors

@Suite struct PaymentDataReaderTests {
    private func object(_ json: [UInt8]) throws -> JSONObject {
        try #require(try JSONValue(parsing: json, limits: JSONLimits(maximumDepth: 64)).objectValue)
    }

    @Test("reads 3-D Secure data as types, and keeps the whole dictionary")
    func threeDSecure() throws {
        var payload = PayloadRecipe()
        payload.accountNumber = "4109370251004320"
        payload.expirationDate = "291231"
        payload.cardholderName = "A. Holder"
        payload.eciIndicator = "7"
        payload.extraMembers = ["\"ofTomorrow\":1"]
        let json = try object(payload.json)
        let credential = try PaymentDataReader.credential(json, bytes: payload.json)
        #expect(text(credential.accountNumber) == "4109370251004320")
        #expect(credential.expirationDate == ExpirationDate("291231"))
        #expect(credential.expirationDate.year == "29" && credential.expirationDate.month == "12")
        #expect(text(credential.cardholderName) == "A. Holder")
        guard case .threeDSecure(let proof) = credential.proof else {
            Issue.record("not 3-D Secure")
            return
        }
        #expect(payload.secrets.contains(text(proof.cryptogram)))
        #expect(proof.eciIndicator == "7")
        #expect(text(credential.dictionary) == String(decoding: payload.json, as: UTF8.self))
        #expect(credential.merchantResponses.isEmpty && credential.merchantTokenIdentifier == nil)
    }

    @Test("reads EMV data, several merchants and merchant tokens as types")
    func others() throws {
        var payload = PayloadRecipe(.emv)
        payload.encryptedPINData = "ABCD"
        payload.merchantTokenIdentifier = "DAPLMC0000"
        payload.authenticationResponses = [
            (merchantIdentifier: "merchant.one", authenticationData: "b25l", amount: "100"),
            (merchantIdentifier: "merchant.two", authenticationData: "dHdv", amount: "200"),
        ]
        let credential = try PaymentDataReader.credential(object(payload.json), bytes: payload.json)
        guard case .emv(let proof) = credential.proof else {
            Issue.record("not EMV")
            return
        }
        #expect(text(proof.encryptedPIN) == "ABCD")
        #expect(credential.merchantTokenIdentifier == "DAPLMC0000")
        #expect(text(credential.merchantTokenMetadata).contains("291231"))
        #expect(credential.merchantResponses.map(\.merchantIdentifier) == ["merchant.one", "merchant.two"])
        #expect(credential.merchantResponses.map(\.transactionAmount) == ["100", "200"])
        #expect(credential.merchantResponses.map { text($0.authenticationData) } == ["b25l", "dHdv"])
    }

    @Test(
        "names the member that prevents a submission",
        arguments: [
            (#"{}"#, "applicationPrimaryAccountNumber"),
            (#"{"applicationPrimaryAccountNumber":"4109 3702"}"#, "applicationPrimaryAccountNumber"),
            (#"{"applicationPrimaryAccountNumber":"1234567"}"#, "applicationPrimaryAccountNumber"),
            (
                #"{"applicationPrimaryAccountNumber":"41093702","applicationExpirationDate":"291331"}"#,
                "applicationExpirationDate"
            ),
            (
                #"{"applicationPrimaryAccountNumber":"41093702","applicationExpirationDate":"291231"}"#,
                "paymentDataType"
            ),
            (
                #"{"applicationPrimaryAccountNumber":"41093702","applicationExpirationDate":"291231","#
                    + #""paymentDataType":"3DSecure"}"#, "paymentData"
            ),
            (
                #"{"applicationPrimaryAccountNumber":"41093702","applicationExpirationDate":"291231","#
                    + #""paymentDataType":"3DSecure","paymentData":{}}"#, "onlinePaymentCryptogram"
            ),
        ])
    func faults(json: String, member: String) throws {
        let bytes = Array(json.utf8)
        #expect(throws: PaymentDataReader.Fault.member(member)) {
            try PaymentDataReader.credential(object(bytes), bytes: bytes)
        }
    }

    @Test(
        "accepts amounts in whole minor units of a known currency",
        arguments: [
            (#"{"transactionAmount":1099,"currencyCode":"840"}"#, "10.99 USD"),
            (#"{"transactionAmount":1000,"currencyCode":"392"}"#, "1000 JPY"),
            (#"{"transactionAmount":0,"currencyCode":"840"}"#, "0.00 USD"),
            (#"{}"#, "none"), (#"{"transactionAmount":null}"#, "none"),
            (#"{"transactionAmount":10.5,"currencyCode":"840"}"#, "transactionAmount"),
            (#"{"transactionAmount":-1,"currencyCode":"840"}"#, "transactionAmount"),
            (#"{"transactionAmount":1e30,"currencyCode":"840"}"#, "transactionAmount"),
            (#"{"transactionAmount":"1099","currencyCode":"840"}"#, "transactionAmount"),
            (#"{"transactionAmount":1099,"currencyCode":"000"}"#, "currencyCode"),
            (#"{"transactionAmount":1099,"currencyCode":840}"#, "currencyCode"),
            (#"{"transactionAmount":1099}"#, "currencyCode"),
        ])
    func amounts(json: String, expected: String) throws {
        let object = try object(Array(json.utf8))
        do throws(PaymentDataReader.Fault) {
            let amount = try PaymentDataReader.amount(object)
            #expect(amount.map { "\($0.decimal) \($0.currency.letters)" } ?? "none" == expected)
        } catch {
            #expect(error == .member(expected))
        }
    }
}

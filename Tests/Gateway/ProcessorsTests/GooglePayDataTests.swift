import GooglePayToken
import StrictJSON
import Testing

@testable import Processors

@Suite("Google's decrypted payment data")
struct GooglePayDataTests {
    private static func plaintext(_ details: String) -> [UInt8] {
        Array(#"{"messageId":"m","paymentMethod":"CARD","paymentMethodDetails":{\#(details)}}"#.utf8)
    }

    private func credential(
        _ details: String, as method: GooglePayPayload.AuthMethod = .cryptogram3DS
    ) throws -> PaymentCredential {
        let bytes = Self.plaintext(details)
        let json = try #require(JSONValue(parsing: bytes).objectValue)
        return try PaymentDataReader.googlePayCredential(json, bytes: bytes, as: method)
    }

    @Test("is read as types with the whole plaintext, and no names or tokens of Apple's")
    func cryptogram() throws {
        let details = """
            "pan":"4895370012003478","expirationMonth":12,"expirationYear":2030,"authMethod":"CRYPTOGRAM_3DS",\
            "cryptogram":"AgAAAAAABk4DWZ4C28yUQAAAAAA=","eciIndicator":"7","assuranceDetails":{"cardHolderAuthenticated":true}
            """
        let credential = try credential(details)
        #expect(text(credential.accountNumber) == "4895370012003478")
        #expect(credential.expirationDate == ExpirationDate("301231"))
        guard case .threeDSecure(let proof) = credential.proof else {
            Issue.record("no cryptogram")
            return
        }
        #expect(text(proof.cryptogram) == "AgAAAAAABk4DWZ4C28yUQAAAAAA=" && proof.eciIndicator == "7")
        #expect(text(credential.dictionary) == String(decoding: Self.plaintext(details), as: UTF8.self))
        #expect(credential.cardholderName.count == 0 && credential.merchantResponses.isEmpty)
        #expect(credential.merchantTokenIdentifier == nil && credential.deviceManufacturerIdentifier == nil)
    }

    @Test("has no proof for the card's own number, even with a cryptogram")
    func panOnly() throws {
        let credential = try credential(
            #""pan":"4111111111111111","expirationMonth":2,"expirationYear":2027,"authMethod":"PAN_ONLY","cryptogram":"AA==""#,
            as: .panOnly)
        guard case .absent = credential.proof else {
            Issue.record("a proof")
            return
        }
        #expect(credential.expirationDate == ExpirationDate("270228"))
    }

    @Test(
        "names the member that prevents a submission",
        arguments: [
            (#""pan":"411111111111""#, "authMethod"),
            (
                #""authMethod":"PAN_ONLY","pan":"4111111111111111","expirationMonth":1,"expirationYear":2030"#,
                "authMethod"
            ),
            (#""authMethod":"CRYPTOGRAM_3DS","pan":"4111111111111111""#, "expirationYear or expirationMonth"),
            (
                #""authMethod":"CRYPTOGRAM_3DS","expirationMonth":13,"expirationYear":2030"#,
                "expirationYear or expirationMonth"
            ),
            (
                #""authMethod":"CRYPTOGRAM_3DS","expirationMonth":"12","expirationYear":"2030""#,
                "expirationYear or expirationMonth"
            ),
            (
                #""authMethod":"CRYPTOGRAM_3DS","expirationMonth":1,"expirationYear":30"#,
                "expirationYear or expirationMonth"
            ),
            (#""authMethod":"CRYPTOGRAM_3DS","expirationMonth":1,"expirationYear":2030"#, "cryptogram"),
            (#""authMethod":"CRYPTOGRAM_3DS","expirationMonth":1,"expirationYear":2030,"cryptogram":"AA==""#, "pan"),
            (
                #""authMethod":"CRYPTOGRAM_3DS","expirationMonth":1,"expirationYear":2030,"cryptogram":"AA==","pan":"41 11""#,
                "pan"
            ),
        ])
    func faults(details: String, member: String) throws {
        #expect(throws: PaymentDataReader.Fault.member(member)) { try credential(details) }
    }

    @Test(
        "expires on the last day of its month",
        arguments: [(2028, 2, "280229"), (2099, 4, "990430"), (2000, 2, "000229")])
    func lastDay(year: Int, month: Int, date: String) {
        #expect(ExpirationDate(year: year, month: month) == ExpirationDate(date))
    }
}

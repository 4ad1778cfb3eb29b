import StrictJSON
import Testing

@testable import paytokenctl

@Suite("Masking in the output of decrypt")
struct PaymentDataMaskTests {
    private func masked(_ json: String) throws -> JSONValue { PaymentDataMask.masked(try JSONValue(parsing: json)) }

    @Test("masks the account number except its last four digits")
    func accountNumber() throws {
        #expect(
            try masked(#"{"applicationPrimaryAccountNumber":"4111111111111234"}"#)
                == JSONValue(parsing: #"{"applicationPrimaryAccountNumber":"************1234"}"#))
    }

    @Test("masks an account number that is a JSON number, has another type, or is too short to show four digits")
    func oddAccountNumbers() throws {
        let cases = [
            #"{"applicationPrimaryAccountNumber":4111111111111234}"#: "************1234",
            #"{"applicationPrimaryAccountNumber":"41111111111"}"#: "********",
            #"{"applicationPrimaryAccountNumber":["4111111111111234"]}"#: "********",
            #"{"applicationPrimaryAccountNumber":{"a":"4111"}}"#: "********",
            #"{"application\u0050rimaryAccountNumber":"4111111111111234"}"#: "************1234",
        ]
        for (json, expected) in cases {
            let value = try masked(json).objectValue?["applicationPrimaryAccountNumber"]
            #expect(value?.stringValue == expected, "\(json)")
        }
    }

    @Test(
        "masks cryptograms, EMV data, PINs and authentication data at any depth",
        arguments: ["onlinePaymentCryptogram", "emvData", "encryptedPINData", "authenticationData"])
    func cryptograms(name: String) throws {
        let json = #"{"paymentData":{"\#(name)":"AgAAAA=="},"authenticationResponses":[{"x":{"\#(name)":"AgAAAA=="}}]}"#
        let expected =
            #"{"paymentData":{"\#(name)":"********"},"authenticationResponses":[{"x":{"\#(name)":"********"}}]}"#
        #expect(try masked(json) == JSONValue(parsing: expected))
    }

    @Test("masks everything within authentication data except the ECI")
    func authenticationData() throws {
        let json = #"{"authenticationData":{"eciIndicator":"7","other":12,"deep":[{"more":"text"}],"none":null}}"#
        let expected =
            #"{"authenticationData":{"eciIndicator":"7","other":"********","deep":[{"more":"********"}],"none":null}}"#
        #expect(try masked(json) == JSONValue(parsing: expected))
    }

    @Test("masks runs of twelve or more digits in any member")
    func digits() throws {
        let json = """
            {"unknown":"card 4111111111111234.","grouped":"4111 1111 1111 1234","hyphens":"4111-1111-1111-1234",\
            "number":411111111111,"list":["4111111111111234"],"4111111111111234":"name"}
            """
        let expected = """
            {"unknown":"card ************1234.","grouped":"**** **** **** 1234","hyphens":"****-****-****-1234",\
            "number":"********","list":["************1234"],"************1234":"name"}
            """
        #expect(try masked(json) == JSONValue(parsing: expected))
    }

    @Test("masks digits of other scripts")
    func otherDigits() {
        #expect(PaymentDataMask.withoutAccountNumbers("٤١١١١١١١١١١١١٢٣٤") == "************١٢٣٤")
    }

    @Test("does not mask the expiry, currency, amount, type, device manufacturer and names")
    func others() throws {
        let json = """
            {"applicationExpirationDate":"300131","currencyCode":"840","transactionAmount":1099.0,\
            "deviceManufacturerIdentifier":"040010030273","paymentDataType":"3DSecure","cardholderName":"A. B.",\
            "eleven":"41111111111","apart":"411111  111111","messageExpiration":"1796438238667"}
            """
        #expect(try masked(json) == JSONValue(parsing: json))
    }

    @Test("masks a device manufacturer's identifier that could be an account number")
    func longIdentifier() throws {
        #expect(
            try masked(#"{"deviceManufacturerIdentifier":"4111111111111234"}"#)
                == JSONValue(parsing: #"{"deviceManufacturerIdentifier":"************1234"}"#))
    }

    @Test(
        "masks the expiration of a message that could be an account number",
        arguments: ["4222222222222", "17964382386671"])
    func longExpiration(text: String) throws {
        let masked = String(repeating: "*", count: text.count - 4) + text.suffix(4)
        #expect(
            try self.masked("{\"messageExpiration\":\"\(text)\"}")
                == JSONValue(parsing: "{\"messageExpiration\":\"\(masked)\"}"))
    }

    @Test("omits all members whose names become equal when they are masked")
    func collidingNames() throws {
        #expect(try masked(#"{"4111111111111234":"a","4111111111121234":"b"}"#) == JSONValue(parsing: "{}"))
    }
}

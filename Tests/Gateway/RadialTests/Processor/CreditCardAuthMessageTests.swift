import Payments
import Radial
import SecretMemory
import Testing

@Suite("The message to Radial")
struct CreditCardAuthMessageTests {
    /// Visa's test number, and 20 bytes from 0 to 19.
    private static let accountNumber = "4111111111111111"
    private static let cryptogram = "AAECAwQFBgcICQoLDA0ODxAREhM="

    private static var order: OrderDetails {
        let ada = OrderDetails.Party(
            firstName: "Ada", lastName: "O'Neil & Söhne", phoneNumber: "1",
            addressLines: ["1 Main St", "", "Floor <4>"],
            city: "Philadelphia", mainDivision: "PA", countryCode: "US", postalCode: "19019")
        return OrderDetails(
            orderId: "order-1", billing: ada, customerEmail: "a@shop.example", customerIPAddress: "192.0.2.1")
    }

    private func amount(_ decimal: String, _ letters: String) throws -> Amount {
        let currency = try #require(Currency(letters: letters))
        return try #require(Amount(decimal: decimal, currency: currency))
    }

    private func document(
        _ order: OrderDetails = order, amount: Amount? = nil, accountNumber: String = accountNumber,
        expirationDate: String = "311231", cryptogram: String = cryptogram, eciIndicator: String? = "05"
    ) throws -> String {
        let number = secret(accountNumber)
        let proof = secret(cryptogram)
        return text(
            of: try CreditCardAuthMessage(requestId: "r-1", order).document(
                amount: amount ?? self.amount("10.99", "USD"), accountNumber: number, expirationDate: expirationDate,
                cryptogram: proof,
                eciIndicator: eciIndicator))
    }

    private func child(_ name: String, _ document: String) throws -> XMLElement {
        try #require(try XMLElement(parsing: Array(document.utf8)).children.first { $0.name == name })
    }

    @Test("writes the elements in the schema's order, each with its value")
    func whole() throws {
        let address =
            "<Line1>1 Main St</Line1><Line2>Floor &lt;4&gt;</Line2><City>Philadelphia</City>"
            + "<MainDivision>PA</MainDivision><CountryCode>US</CountryCode><PostalCode>19019</PostalCode>"
        #expect(
            try document() == #"<?xml version="1.0" encoding="UTF-8"?>"#
                + #"<CreditCardAuthRequest xmlns="http://api.gsicommerce.com/schema/checkout/1.0" requestId="r-1">"#
                + "<PaymentContext><OrderId>order-1</OrderId>"
                + #"<PaymentAccountUniqueId isToken="false">4111111111111111</PaymentAccountUniqueId></PaymentContext>"#
                + #"<ExpirationDate>2031-12</ExpirationDate><Amount currencyCode="USD">10.99</Amount>"#
                + "<BillingFirstName>Ada</BillingFirstName><BillingLastName>O'Neil &amp; Söhne</BillingLastName>"
                + "<BillingPhoneNo>1</BillingPhoneNo><BillingAddress>\(address)</BillingAddress>"
                + "<CustomerEmail>a@shop.example</CustomerEmail><CustomerIPAddress>192.0.2.1</CustomerIPAddress>"
                + "<ShipToFirstName>Ada</ShipToFirstName><ShipToLastName>O'Neil &amp; Söhne</ShipToLastName>"
                + "<ShipToPhoneNo>1</ShipToPhoneNo><ShippingAddress>\(address)</ShippingAddress>"
                + "<isRequestToCorrectCVVOrAVSError>false</isRequestToCorrectCVVOrAVSError>"
                + "<SecureVerificationData><AuthenticationAvailable>Y</AuthenticationAvailable>"
                + "<AuthenticationStatus>Y</AuthenticationStatus>"
                + "<CavvUcaf>000102030405060708090A0B0C0D0E0F10111213</CavvUcaf><TransactionId></TransactionId><ECI>05</ECI>"
                + "<PayerAuthenticationResponse></PayerAuthenticationResponse></SecureVerificationData>"
                + "<SchemaVersion>1.2</SchemaVersion></CreditCardAuthRequest>")
    }

    @Test("finds nothing missing in an order that arrived as Radial's own request")
    func fromRequest() throws {
        let request = try CreditCardAuthRequest(parsing: Documents.request)
        let root = try XMLElement(parsing: Array(document(OrderDetails(request)).utf8))
        let published = try XMLElement(parsing: Documents.request)
        let shared = [
            "BillingFirstName", "BillingLastName", "BillingPhoneNo", "BillingAddress", "CustomerEmail",
            "CustomerIPAddress",
            "ShipToFirstName", "ShipToLastName", "ShipToPhoneNo", "ShippingAddress",
        ]
        func texts(_ root: XMLElement) -> [String] {
            root.children.filter { shared.contains($0.name) }.flatMap { element in
                element.children.isEmpty
                    ? [element.name, element.text] : element.children.flatMap { [$0.name, $0.text] }
            }
        }
        #expect(texts(root) == texts(published))
        #expect(texts(root).count == 2 * (8 + 2 * 8))
    }

    @Test("writes an empty telephone number, and omits the ECI, when they are absent")
    func optional() throws {
        var order = Self.order
        order.shipTo = order.billing
        order.shipTo?.phoneNumber = nil
        let document = try document(order, eciIndicator: nil)
        #expect(try child("ShipToPhoneNo", document).text == "")
        #expect(
            try child("SecureVerificationData", document).children.map(\.name) == [
                "AuthenticationAvailable", "AuthenticationStatus", "CavvUcaf", "TransactionId",
                "PayerAuthenticationResponse",
            ])
    }

    @Test(
        "writes the cryptogram in hexadecimal for Visa and in base64 for others",
        arguments: [
            (accountNumber, "/////w==", "FFFFFFFF"), (accountNumber, "/////w", "FFFFFFFF"), (accountNumber, "AQ", "01"),
            ("5555555555554444", cryptogram, cryptogram), ("2223003122003222", cryptogram, cryptogram),
            (
                "378282246310005", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJw==",
                "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJw=="
            ),
        ])
    func cavv(_ accountNumber: String, _ cryptogram: String, _ written: String) throws {
        let data = try child(
            "SecureVerificationData", document(accountNumber: accountNumber, cryptogram: cryptogram))
        #expect(data.children.first { $0.name == "CavvUcaf" }?.text == written)
    }

    @Test("writes the date as year and month", arguments: [("300101", "2030-01"), ("991231", "2099-12")])
    func expiration(_ date: String, _ written: String) throws {
        #expect(try child("ExpirationDate", document(expirationDate: date)).text == written)
    }

    @Test("writes no decimals for currencies without them")
    func currencies() throws {
        let amount = try child("Amount", document(amount: self.amount("1099", "JPY")))
        #expect(amount.text == "1099")
        #expect(amount.attributes.map(\.value) == ["JPY"])
    }

    @Test("reports payment data that does not fit by its kind alone")
    func paymentData() throws {
        typealias Fault = CreditCardAuthMessage.PaymentDataError
        for number in ["", "4111", "41111111111111111111", "4111 11111111111", "411111111111111x", "４111111111111"] {
            #expect(throws: Fault.accountNumber) { try document(accountNumber: number) }
        }
        for number in [
            "6011111111111117", "1111111111111111", "2220999999999999", "2721000000000000", "5600000000000000",
        ] {
            #expect(throws: Fault.unknownTender) { try document(accountNumber: number) }
        }
        for date in ["", "3112", "311331", "310031", "31-231", "20311231", "3112311"] {
            #expect(throws: Fault.expirationDate) { try document(expirationDate: date) }
        }
        for eci in ["", "123", "x", " 5"] {
            #expect(throws: Fault.eciIndicator) { try document(eciIndicator: eci) }
        }
        let tooLong = String(repeating: "A", count: 68)
        for cryptogram in [
            "", "=", "A", "A===", "AAF", "AB==", "AA=A", "AA=", "AAAAA", "AAAA====", "AA\nAA", "AA-_", tooLong, "AAE=x",
        ] {
            #expect(throws: Fault.cryptogram) { try document(cryptogram: cryptogram) }
        }
        // A cryptogram of 33 bytes would have 66 digits in Visa's form, which is too long.
        #expect(throws: Fault.cryptogram) { try document(cryptogram: String(repeating: "A", count: 44)) }
        #expect(throws: Fault.amount) { try document(amount: amount("0", "USD")) }
        #expect(throws: Fault.currency) { try document(amount: amount("0.001", "KWD")) }
    }

    @Test("reports everything that an order lacks at once, in the table's order")
    func missing() throws {
        let error = try #require(throws: UnsuitableOrder.self) {
            try CreditCardAuthMessage(requestId: "r", OrderDetails(shipTo: OrderDetails.Party()))
        }
        #expect(
            error.faults.map(\.element.rawValue) == [
                "OrderId", "BillingFirstName", "BillingLastName", "BillingPhoneNo", "BillingAddress/Line1",
                "BillingAddress/City", "BillingAddress/CountryCode", "CustomerEmail", "CustomerIPAddress",
                "ShipToFirstName",
                "ShipToLastName", "ShippingAddress/Line1", "ShippingAddress/City", "ShippingAddress/CountryCode",
            ])
        #expect(error.faults.allSatisfy { $0.reason == .missing })
    }

    @Test("uses the billing party for an absent shipping party, and reports its faults once")
    func standIn() throws {
        var order = Self.order
        order.billing.city = " "
        let error = try #require(throws: UnsuitableOrder.self) { try CreditCardAuthMessage(requestId: "r", order) }
        #expect(error.faults == [.init(.billingCity, .missing)])
        #expect("\(error)" == "BillingAddress/City: is required but missing")
    }

    @Test("reports each value that does not fit, with its reason")
    func unsuitable() throws {
        var order = Self.order
        order.orderId = String(repeating: "1", count: 21)
        order.billing.firstName = "a\u{1}"
        order.billing.addressLines = ["1", "2", "3", "4", "5"]
        order.billing.countryCode = "U"
        order.billing.postalCode = String(repeating: "1", count: 16)
        order.customerIPAddress = "2001:db8::1"
        let error = try #require(throws: UnsuitableOrder.self) { try CreditCardAuthMessage(requestId: "r", order) }
        #expect(
            error.faults == [
                .init(.orderId, .length(1...20)), .init(.billingFirstName, .character),
                .init(.billingLine, .tooManyLines),
                .init(.billingCountryCode, .length(2...40)), .init(.billingPostalCode, .length(1...15)),
                .init(.customerIPAddress, .notAnIPv4Address),
            ])
    }

    @Test("keeps a value that does not fit out of the report")
    func description() throws {
        var order = Self.order
        order.orderId = "4111111111111111-4111111111111111"
        order.customerIPAddress = "4111.1.1.1"
        let error = try #require(throws: UnsuitableOrder.self) { try CreditCardAuthMessage(requestId: "r", order) }
        #expect(
            "\(error)"
                == "OrderId: must have 1 to 20 characters; CustomerIPAddress: must be a dotted quad, such as 192.0.2.1")
    }

    @Test("puts the tender type into the address", arguments: zip(TenderType.allCases, ["VC", "MC", "AM"]))
    func authorizationPath(_ tender: TenderType, _ code: String) {
        #expect(tender.authorizationPath == "creditcard/auth/\(code).xml")
    }

    @Test("reports a shipping party's own faults with its own elements")
    func shipping() throws {
        var order = Self.order
        order.shipTo = order.billing
        order.shipTo?.addressLines = ["", " "]
        order.shipTo?.mainDivision = String(repeating: "x", count: 36)
        let error = try #require(throws: UnsuitableOrder.self) { try CreditCardAuthMessage(requestId: "r", order) }
        #expect(error.faults == [.init(.shippingLine, .missing), .init(.shippingMainDivision, .length(1...35))])
    }

    @Test(
        "derives the tender type from the account number's first digits",
        arguments: [
            ("4000", TenderType.visa), ("4999", .visa), ("5100", .masterCard), ("5599", .masterCard),
            ("2221", .masterCard),
            ("2720", .masterCard), ("3400", .americanExpress), ("3799", .americanExpress), ("5099", nil), ("5600", nil),
            ("2220", nil), ("2721", nil), ("3500", nil), ("3600", nil), ("3800", nil), ("6011", nil), ("3999", nil),
            ("411", nil), ("", nil), ("4x11", nil),
        ])
    func tenders(_ prefix: String, _ tender: TenderType?) {
        let number = secret(prefix)
        #expect(TenderType(accountNumber: number) == tender)
    }
}

import Radial
import Testing

@Suite("CreditCardAuthRequest")
struct CreditCardAuthRequestTests {
    @Test("reads the published example")
    func published() throws {
        let request = try CreditCardAuthRequest(parsing: Documents.request)
        #expect(request.requestId == "1234567")
        #expect(request.orderId == "1")
        #expect(request.billing.firstName == "John")
        #expect(request.billing.lastName == "Smith")
        #expect(request.billing.phoneNumber == "6101234567")
        #expect(
            request.billing.address
                == PhysicalAddress(
                    line1: "123 Main St", line2: "Building 123", line3: "4th Floor", line4: "Apt 12",
                    city: "Philadelphia",
                    mainDivision: "PA", countryCode: "US", postalCode: "19019"))
        #expect(request.shipTo == request.billing)
        #expect(request.customerEmail == "customer@sample.com")
        #expect(request.customerIPAddress == "208.247.73.130")
        #expect(request.includesPaymentAccountInformation)
    }

    @Test("finds no SchemaVersion in the published example, whose reply has neither ResponseCode nor TenderType")
    func withoutSchemaVersion() throws {
        let version = try CreditCardAuthRequest(parsing: Documents.request).schemaVersion
        #expect(version == .absent)
        #expect(!version.hasResponseCode)
        #expect(!version.hasTenderType)
    }

    @Test("reads a copy of the page, which indents its examples with no-break spaces")
    func copiedFromThePage() throws {
        let lines = PublishedExamples.request.split(separator: "\n").map { line in
            let text = line.drop { $0 == " " }
            return String(repeating: "\u{A0}", count: line.count - text.count) + text
        }
        #expect(
            try CreditCardAuthRequest(parsing: Array(lines.joined(separator: "\n").utf8))
                == CreditCardAuthRequest(parsing: Documents.request))
    }

    // These lists repeat the table of elements on Radial's integration page.

    static let required = [
        "WalletPaymentInformation", "OrderId", "BillingFirstName", "BillingLastName", "BillingPhoneNo",
        "BillingAddress",
        "BillingAddress/Line1", "BillingAddress/City", "BillingAddress/CountryCode", "CustomerEmail",
        "CustomerIPAddress",
        "ShipToFirstName", "ShipToLastName", "ShippingAddress", "ShippingAddress/Line1", "ShippingAddress/City",
        "ShippingAddress/CountryCode",
    ]
    static let optional = [
        "BillingAddress/Line2", "BillingAddress/Line3", "BillingAddress/Line4", "BillingAddress/MainDivision",
        "BillingAddress/PostalCode", "ShipToPhoneNo", "ShippingAddress/Line2", "ShippingAddress/Line3",
        "ShippingAddress/Line4", "ShippingAddress/MainDivision", "ShippingAddress/PostalCode", "Features",
        "Features/IncludePaymentAccountInformation",
    ]
    /// The minimum and maximum number of characters of each element.
    static let lengths = [
        ("OrderId", 1, 20), ("CustomerEmail", 1, 70),
        ("BillingAddress/Line1", 1, 70), ("BillingAddress/Line2", 1, 70), ("BillingAddress/Line3", 1, 70),
        ("BillingAddress/Line4", 1, 70), ("BillingAddress/City", 1, 40), ("BillingAddress/MainDivision", 1, 35),
        ("BillingAddress/CountryCode", 2, 40), ("BillingAddress/PostalCode", 1, 15),
        ("ShippingAddress/Line1", 1, 70), ("ShippingAddress/Line2", 1, 70), ("ShippingAddress/Line3", 1, 70),
        ("ShippingAddress/Line4", 1, 70), ("ShippingAddress/City", 1, 40), ("ShippingAddress/MainDivision", 1, 35),
        ("ShippingAddress/CountryCode", 2, 40), ("ShippingAddress/PostalCode", 1, 15),
    ]

    /// The example with the element at `path` replaced.
    private func request(_ path: String, replaced: (String) -> String) -> [UInt8] {
        let names = path.split(separator: "/").map(String.init)
        let outer = Documents.element(names[0], in: PublishedExamples.request)
        let inner = Documents.element(names[names.count - 1], in: outer)
        return Documents.request(first: outer, outer.replacing(inner, with: replaced(inner), maxReplacements: 1))
    }

    private func request(_ path: String, is text: String) -> [UInt8] {
        let name = path.split(separator: "/").last ?? ""
        return request(path) { _ in "<\(name)>\(text)</\(name)>" }
    }

    private func fault(_ reason: DocumentError.Reason, _ path: String) -> DocumentError {
        DocumentError(reason, "CreditCardAuthRequest/\(path)")
    }

    @Test("requires what the table requires", arguments: required)
    func isRequired(_ path: String) {
        #expect(Documents.fault(of: request(path) { _ in "" })?.somewhere == fault(.missing, path))
    }

    @Test("accepts the absence of what the table does not require", arguments: optional)
    func isOptional(_ path: String) {
        #expect(Documents.fault(of: request(path) { _ in "" }) == nil)
    }

    @Test("refuses a repeated element", arguments: required + optional)
    func repeated(_ path: String) {
        #expect(Documents.fault(of: request(path) { $0 + $0 })?.somewhere == fault(.repeated, path))
    }

    @Test("limits a value to the table's length, in characters and not in bytes", arguments: lengths)
    func length(_ path: String, _ least: Int, _ most: Int) {
        func text(_ count: Int) -> String { String(repeating: "ß", count: count) }
        #expect(Documents.fault(of: request(path, is: text(least))) == nil)
        #expect(Documents.fault(of: request(path, is: text(most))) == nil)
        #expect(Documents.fault(of: request(path, is: text(most + 1)))?.somewhere == fault(.length(least...most), path))
        if least > 1 {
            #expect(
                Documents.fault(of: request(path, is: text(least - 1)))?.somewhere == fault(.length(least...most), path)
            )
        }
    }

    @Test("counts characters as XML Schema does: a code point as one, with a combining accent two")
    func codePoints() {
        #expect(Documents.fault(of: request("OrderId", is: String(repeating: "e\u{301}", count: 10))) == nil)
        #expect(Documents.fault(of: request("OrderId", is: String(repeating: "e\u{301}", count: 11))) != nil)
        #expect(Documents.fault(of: request("OrderId", is: String(repeating: "😀", count: 20))) == nil)
        #expect(Documents.fault(of: request("OrderId", is: String(repeating: "😀", count: 21))) != nil)
    }

    @Test(
        "refuses a blank value that is required, and a blank optional line", arguments: ["", " ", "\n\t "],
        required.filter { !["WalletPaymentInformation", "BillingAddress", "ShippingAddress"].contains($0) }
            + optional.filter { $0.hasSuffix("Code") || $0.contains("/Line") || $0.hasSuffix("Division") })
    func blank(_ text: String, _ path: String) {
        #expect(Documents.fault(of: request(path, is: text))?.somewhere == fault(.blank, path))
    }

    @Test("reads an empty telephone number of the shipping party as none")
    func emptyPhone() throws {
        #expect(try CreditCardAuthRequest(parsing: request("ShipToPhoneNo", is: "")).shipTo.phoneNumber == nil)
    }

    @Test("keeps white space in a value, as xsd:string does")
    func whiteSpace() throws {
        #expect(
            try CreditCardAuthRequest(parsing: request("BillingLastName", is: " van  Dyk ")).billing.lastName
                == " van  Dyk ")
    }

    @Test(
        "accepts a dotted quad as an IPv4 address",
        arguments: ["0.0.0.0", "255.255.255.255", "192.0.2.1", "10.20.30.40"]
    )
    func ipv4(_ text: String) {
        #expect(Documents.fault(of: request("CustomerIPAddress", is: text)) == nil)
    }

    @Test(
        "refuses anything else as an IPv4 address",
        arguments: [
            "256.0.0.1", "1.2.3", "1.2.3.4.5", "1.2.3.", ".1.2.3", "1..2.3", "01.2.3.4", "1.2.3.004", "1.2.3.4 ",
            " 1.2.3.4", "::1",
            "2001:db8::1", "::ffff:1.2.3.4", "1.2.3.4/24", "0x1.2.3.4", "1.2.3.-4", "localhost", "3232235777",
            "١.٢.٣.٤",
            "999999999999999999999.1.1.1",
        ])
    func notIPv4(_ text: String) {
        #expect(
            Documents.fault(of: request("CustomerIPAddress", is: text))?.somewhere
                == fault(.notAnIPv4Address, "CustomerIPAddress"))
    }

    @Test("accepts a SchemaVersion anywhere", arguments: ["1.1", "1.2", "1", "2.0.1"])
    func schemaVersion(_ text: String) throws {
        let last = Documents.request(with: "<SchemaVersion>\(text)</SchemaVersion>")
        let first = Documents.request("<OrderId>", "<SchemaVersion>\(text)</SchemaVersion><OrderId>")
        #expect(try CreditCardAuthRequest(parsing: last).schemaVersion == SchemaVersion(text))
        #expect(try CreditCardAuthRequest(parsing: first).schemaVersion == SchemaVersion(text))
    }

    @Test("requires the table's pattern of SchemaVersion", arguments: ["1.", "v1.2", "1.2 ", "latest", "1..2"])
    func notASchemaVersion(_ text: String) {
        #expect(
            Documents.fault(of: Documents.request(with: "<SchemaVersion>\(text)</SchemaVersion>"))?.somewhere
                == fault(.notASchemaVersion, "SchemaVersion"))
    }

    @Test(
        "reads the flag as true or false, and as false if it is absent",
        arguments: [("true", true), (" false\n", false)])
    func flag(_ text: String, _ value: Bool) throws {
        let path = "Features/IncludePaymentAccountInformation"
        #expect(try CreditCardAuthRequest(parsing: request(path, is: text)).includesPaymentAccountInformation == value)
        #expect(try !CreditCardAuthRequest(parsing: request(path) { _ in "" }).includesPaymentAccountInformation)
        #expect(try !CreditCardAuthRequest(parsing: request("Features") { _ in "" }).includesPaymentAccountInformation)
    }

    @Test("refuses any other value of the flag", arguments: ["", "1", "0", "TRUE", "yes"])
    func notABoolean(_ text: String) {
        let path = "Features/IncludePaymentAccountInformation"
        #expect(Documents.fault(of: request(path, is: text))?.somewhere == fault(.notABoolean, path))
    }

    @Test("accepts the elements in any order")
    func anyOrder() throws {
        let order = Documents.element("OrderId", in: PublishedExamples.request)
        let moved = PublishedExamples.request.replacing(order, with: "")
            .replacing("</CreditCardAuthRequest>", with: order + "</CreditCardAuthRequest>")
        #expect(
            try CreditCardAuthRequest(parsing: Array(moved.utf8)) == CreditCardAuthRequest(parsing: Documents.request))
    }

    @Test("refuses an undocumented element at its position, without repeating its name")
    func unknownElements() throws {
        let card = "<PAN4111111111111111>4111111111111111</PAN4111111111111111>"
        let fault = try #require(Documents.fault(of: Documents.request(with: card)))
        #expect(fault.somewhere == DocumentError(.unknownElement, "CreditCardAuthRequest"))
        #expect(fault.line == 43)
        #expect(!fault.description.contains("4111"))
        for path in ["BillingAddress", "ShippingAddress", "WalletPaymentInformation", "Features"] {
            let request = request(path) { $0.replacing("</\(path)>", with: "<No/></\(path)>") }
            #expect(Documents.fault(of: request)?.somewhere == self.fault(.unknownElement, path))
        }
    }

    @Test(
        "refuses elements of the flow with decrypted data: amount and card are in the payment token",
        arguments: ["Amount", "PaymentContext", "ExpirationDate", "CardSecurityCode"])
    func decryptedFlow(_ name: String) {
        #expect(Documents.fault(of: Documents.request(with: "<\(name)/>"))?.reason == .unknownElement)
    }

    @Test("distinguishes an element in no namespace, or in another one", arguments: ["", "urn:other"])
    func namespaces(_ namespace: String) {
        #expect(
            Documents.fault(of: Documents.request("<OrderId>", "<OrderId xmlns=\"\(namespace)\">"))?.reason
                == .unknownElement)
        #expect(
            Documents.fault(of: Documents.request(radialNamespace, namespace.isEmpty ? "urn:x" : namespace))?.reason
                == .otherRoot)
    }

    @Test("reads a prefix in place of the default namespace as the same document")
    func prefix() throws {
        let prefixed = PublishedExamples.request.replacing("</", with: "</r:").replacing(/<([A-Z])/) { "<r:\($0.1)" }
            .replacing("xmlns=", with: "xmlns:r=")
        #expect(
            try CreditCardAuthRequest(parsing: Array(prefixed.utf8))
                == CreditCardAuthRequest(parsing: Documents.request))
    }

    @Test("refuses another root as another document")
    func root() {
        #expect(
            Documents.fault(of: Documents.reply)
                == DocumentError(.otherRoot, "CreditCardAuthRequest", line: 2))
    }

    @Test("accepts an absent requestId, or one of 1 to 40 characters")
    func requestId() throws {
        #expect(try CreditCardAuthRequest(parsing: Documents.request(" requestId=\"1234567\"", "")).requestId == nil)
        let most = String(repeating: "x", count: 40)
        #expect(try CreditCardAuthRequest(parsing: Documents.request("1234567\">", "\(most)\">")).requestId == most)
        for wrong in ["", most + "x"] {
            #expect(
                Documents.fault(of: Documents.request("requestId=\"1234567\"", "requestId=\"\(wrong)\""))?.somewhere
                    == fault(.length(1...40), "@requestId"))
        }
    }

    @Test("refuses other attributes, except a schema location hint")
    func attributes() {
        #expect(
            Documents.fault(of: Documents.request("requestId=", "version=\"1\" requestId="))?.somewhere
                == DocumentError(.unknownAttribute, "CreditCardAuthRequest"))
        #expect(
            Documents.fault(of: Documents.request("<OrderId>", "<OrderId x=\"1\">"))?.somewhere
                == fault(.unknownAttribute, "OrderId"))
        let instance = "xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\""
        let hint = "\(instance) xsi:schemaLocation=\"\(radialNamespace) x.xsd\" requestId="
        #expect(Documents.fault(of: Documents.request("requestId=", hint)) == nil)
        #expect(
            Documents.fault(of: Documents.request("requestId=", "\(instance) xsi:nil=\"true\" requestId="))?.reason
                == .unknownAttribute)
    }

    @Test("refuses text among elements, and elements in text")
    func mixed() {
        #expect(
            Documents.fault(of: Documents.request(with: "x"))?.somewhere
                == DocumentError(.unexpectedText, "CreditCardAuthRequest"))
        #expect(
            Documents.fault(of: request("BillingAddress/City", is: "<b>x</b>"))?.somewhere
                == fault(.unexpectedElements, "BillingAddress/City"))
    }

    @Test("reports a document that is not XML with its line")
    func notXML() {
        #expect(Documents.fault(of: [])?.reason == .notXML(.empty))
        #expect(
            Documents.fault(of: Documents.request("<OrderId>1</OrderId>", "<OrderId>&x;</OrderId>"))
                == DocumentError(.notXML(.entity), "CreditCardAuthRequest", line: 11))
        #expect(
            Documents.fault(of: Documents.request + Array(repeating: 0x20, count: 128 << 10))?.reason
                == .notXML(.tooLong(limit: 128 << 10)))
    }

    @Test("states path, line and remedy in an error, and no value")
    func description() throws {
        let wrong = try #require(
            Documents.fault(of: request("BillingAddress/City", is: String(repeating: "4111", count: 20))))
        #expect(
            wrong.description == "CreditCardAuthRequest/BillingAddress/City (line 20): must have 1 to 40 characters")
    }
}

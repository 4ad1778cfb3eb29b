import Payments
import Radial
import Testing

@Suite("CreditCardAuthReply")
struct CreditCardAuthReplyTests {
    private func reply(_ bytes: [UInt8]) throws -> CreditCardAuthReply {
        guard case .reply(let reply) = try RadialReply(parsing: bytes) else { throw NoReply() }
        return reply
    }

    private func fault(_ bytes: [UInt8]) -> DocumentError? {
        do {
            _ = try RadialReply(parsing: bytes)
            return nil
        } catch { return error }
    }

    private struct NoReply: Error {}

    private static func usd(_ decimal: String) -> Amount? {
        Currency(letters: "USD").flatMap { Amount(decimal: decimal, currency: $0) }
    }

    @Test("reads the published example")
    func published() throws {
        let reply = try reply(Documents.reply)
        #expect(
            try reply
                == CreditCardAuthReply(
                    orderId: "1", accountToken: "4054131ImpMJ6965", responseCode: "APPROVED",
                    authorizationResponseCode: "AP01",
                    bankAuthorizationCode: "614653", cvv2ResponseCode: "0", avsResponseCode: "E", phoneResponseCode: "",
                    nameResponseCode: "", emailResponseCode: "", amountAuthorized: #require(Self.usd("14.99")),
                    tenderType: "VC",
                    paymentAccountInformation: .init(binPrefix: "4054131", panSuffix: "6965", originalPanSuffix: "3238")
                ))
        #expect(reply.outcome == .approved)
    }

    @Test("writes for 1.2 what it reads back, equal to the published example but for comments and space")
    func readBack() throws {
        let reply = try reply(Documents.reply)
        let document = reply.document(for: try #require(SchemaVersion("1.2")), withAccountInformation: true)
        #expect(try self.reply(document) == reply)
        let example = PublishedExamples.reply.replacing(/<!--(.|\n)*?-->/, with: "").replacing(/>\s+</, with: "><")
        #expect(String(decoding: document, as: UTF8.self) == example)
    }

    @Test(
        "replies exactly with what the request's version and features ask for",
        arguments: [("1.0", false, false), ("1.1", true, false), ("1.2", true, true), ("1.10", true, true)],
        [true, false])
    func versions(_ version: (String, Bool, Bool), _ withAccountInformation: Bool) throws {
        let document = try reply(Documents.reply).document(
            for: #require(SchemaVersion(version.0)), withAccountInformation: withAccountInformation)
        let names = try XMLElement(parsing: document).children.map(\.name)
        #expect(names.contains("ResponseCode") == version.1)
        #expect(names.contains("TenderType") == version.2)
        #expect(names.contains("PaymentAccountInformation") == withAccountInformation)
    }

    @Test("escapes values")
    func escaped() throws {
        var reply = try reply(Documents.reply)
        reply.orderId = "<&\"'>"
        #expect(try self.reply(reply.document(for: .absent, withAccountInformation: false)).orderId == "<&\"'>")
    }

    @Test(
        "reports an account number that is not tokenized as its own error, and does not keep it",
        arguments: [
            #"isToken="false""#, "", #"isToken="1""#, #"isToken="TRUE""#, #"isToken="""#, #"isToken=" true""#,
            #"xmlns:x="urn:x" x:isToken="true""#,
        ])
    func notTokenized(_ attribute: String) throws {
        let answer = Documents.reply(
            #"isToken="true">4054131ImpMJ6965"#, "\(attribute)>4111111111111111")
        let refusal = try #require(fault(answer))
        #expect(
            refusal.somewhere
                == DocumentError(
                    .accountNumberNotTokenized, "CreditCardAuthReply/PaymentContext/PaymentAccountUniqueId"))
        #expect(!refusal.description.contains("4111"))
        // Also if the value does not have the form of an account number.
        let other = Documents.reply(#"isToken="true">4054131ImpMJ6965"#, "\(attribute)>4054131ImpMJ6965")
        #expect(fault(other)?.reason == .accountNumberNotTokenized)
    }

    @Test("ignores unknown elements and attributes, wherever they are")
    func extensions() throws {
        let more = "<Extension><Deep at=\"1\">x</Deep></Extension><o:OrderId xmlns:o=\"urn:o\">2</o:OrderId>"
        var text = PublishedExamples.reply
        for name in ["CreditCardAuthReply", "PaymentContext", "PaymentAccountInformation"] {
            text = text.replacing("</\(name)>", with: more + "</\(name)>")
        }
        text = text.replacing("<CreditCardAuthReply ", with: "<CreditCardAuthReply sequence=\"7\" ")
            .replacing("<TenderType>", with: "<TenderType corrected=\"true\">")
        #expect(try reply(Array(text.utf8)) == reply(Documents.reply))
    }

    static let required = [
        "PaymentContext", "PaymentContext/OrderId", "PaymentContext/PaymentAccountUniqueId",
        "AuthorizationResponseCode",
        "BankAuthorizationCode", "CVV2ResponseCode", "AVSResponseCode", "AmountAuthorized",
    ]

    @Test("refuses a reply without a required element, or with a known element twice", arguments: required)
    func isRequired(_ path: String) throws {
        let name = try #require(path.split(separator: "/").last.map(String.init))
        let pattern = try Regex("<\(name)[ >](.|\n)*?</\(name)>")
        let element = try String(#require(PublishedExamples.reply.firstMatch(of: pattern)).0)
        #expect(
            fault(Documents.reply(element, ""))?.somewhere == DocumentError(.missing, "CreditCardAuthReply/\(path)"))
        #expect(
            fault(Documents.reply(element, element + element))?.somewhere
                == DocumentError(.repeated, "CreditCardAuthReply/\(path)"))
    }

    @Test(
        "accepts a reply without the optional elements",
        arguments: [
            "ResponseCode", "PhoneResponseCode", "NameResponseCode", "EmailResponseCode", "TenderType",
            "PaymentAccountInformation", "BinPrefix", "PanSuffix", "OriginalPanSuffix",
        ])
    func isOptional(_ name: String) {
        let element = Documents.element(name, in: PublishedExamples.reply)
        #expect(fault(Documents.reply(element, "")) == nil)
    }

    @Test(
        "refuses a value that is longer than its limit",
        arguments: [
            ("PaymentContext/OrderId", "<OrderId>1<", "<OrderId>@<", 1...20),
            ("PaymentContext/PaymentAccountUniqueId", "4054131ImpMJ6965", "@", 1...22),
            ("ResponseCode", "APPROVED", "@", 0...64), ("AuthorizationResponseCode", "AP01", "@", 1...64),
            ("BankAuthorizationCode", "614653", "@", 0...64), ("AVSResponseCode", ">E<", ">@<", 0...64),
        ])
    func lengths(_ path: String, _ old: String, _ new: String, _ length: ClosedRange<Int>) {
        func answer(_ count: Int) -> [UInt8] {
            Documents.reply(old, new.replacing("@", with: String(repeating: "x", count: count)))
        }
        #expect(fault(answer(length.upperBound)) == nil)
        #expect(
            fault(answer(length.upperBound + 1))?.somewhere
                == DocumentError(.length(length), "CreditCardAuthReply/\(path)"))
    }

    @Test(
        "omits an optional value that is not as documented, which does not change the outcome",
        arguments: ["", "long", "<x/>"])
    func optional(_ value: String) throws {
        let text = value == "long" ? String(repeating: "x", count: 65) : value
        var body = PublishedExamples.reply
        for (old, name) in [
            (">VC<", "TenderType"), (">4054131<", "BinPrefix"), (">6965<", "PanSuffix"),
            (">3238<", "OriginalPanSuffix"),
        ] { body = body.replacing("<\(name)\(old)", with: "<\(name)>\(text)<") }
        body = body.replacing("<PhoneResponseCode><", with: "<PhoneResponseCode>\(text)<")
        let reply = try reply(Array(body.utf8))
        #expect(reply.outcome == .approved && reply.tenderType == nil)
        if !value.isEmpty {
            #expect(reply.phoneResponseCode == nil)
            #expect(reply.paymentAccountInformation == CreditCardAuthReply.PaymentAccountInformation())
        }
    }

    /// Texts with and without the form of an account number (ISO/IEC 7812). A wrong check digit, as in the second text,
    /// makes the form invalid.
    @Test(
        "refuses a value with the form of an account number as Radial's token, regardless of isToken",
        arguments: [
            ("4111111111111111", true), ("4111111111111112", false), ("4111-1111 1111 1111", true),
            ("378282246310005", true), ("6304000000000000", true), ("41111111111a11111", false),
            ("4054131ImpMJ6965", false), ("x4111111111111111", true),
        ])
    func accountNumbers(_ text: String, isNumber: Bool) {
        let refusal = fault(Documents.reply("4054131ImpMJ6965", text))
        #expect(refusal?.reason == (isNumber ? .accountNumberNotTokenized : nil))
        #expect(AccountNumberForm.isIn("Code \(text).", separatedBy: .nonLetters) == isNumber)
    }

    @Test(
        "reads an amount as an exact decimal of its currency",
        arguments: [
            ("USD", "14.99", 1499), ("USD", "14.9", 1490), ("USD", "14", 1400), ("USD", "0.00", 0),
            ("USD", " 1.00\n", 100),
            ("JPY", "1000", 1000), ("JPY", "1000.00", 1000), ("KWD", "1.50", 1500),
        ])
    func amounts(_ currency: String, _ decimal: String, _ minorUnits: Int64) throws {
        let answer = Documents.reply(#"currencyCode="USD">14.99"#, "currencyCode=\"\(currency)\">\(decimal)")
        let amount = try reply(answer).amountAuthorized
        #expect(amount.minorUnits == minorUnits)
        #expect(amount.currency.letters == currency)
    }

    @Test(
        "refuses an invalid amount",
        arguments: [
            ("USD", "-1.00"), ("USD", "14.995"), ("USD", "1e3"), ("USD", "NaN"), ("JPY", "10.50"), ("USD", "1,00"),
            ("JPY", ".00"),
        ])
    func notAmounts(_ currency: String, _ decimal: String) {
        let answer = Documents.reply(#"currencyCode="USD">14.99"#, "currencyCode=\"\(currency)\">\(decimal)")
        #expect(fault(answer)?.somewhere == DocumentError(.notAnAmount, "CreditCardAuthReply/AmountAuthorized"))
    }

    @Test("refuses a currency outside ISO 4217", arguments: [#" currencyCode="usd""#, #" currencyCode="XXX""#, ""])
    func notACurrency(_ attribute: String) {
        #expect(
            fault(Documents.reply(#" currencyCode="USD""#, attribute))?.somewhere
                == DocumentError(.notACurrency, "CreditCardAuthReply/AmountAuthorized/@currencyCode"))
    }

    @Test(
        "derives the outcome from the response code and the authorization code",
        arguments: [
            ("APPROVED", "AP01", AuthorizationOutcome.approved), ("TIMEOUT", "TO01", .timeout),
            ("TIMEOUT", "NR01", .timeout),
            ("PaymentProcessorTimeout", "X", .timeout), ("DECL", "ND01", .declined(.declined)),
            ("DECLF", "ND02", .declined(.funds)), ("DECLR", "ND03", .declined(.referral)),
            // AP01 is the bank's only code for an approval. Other codes may be declines.
            ("APPROVED", "00", .other), ("APPROVED", "ND01", .other),
            // The bank approved these, but the response code is neither an approval nor a decline.
            ("AVS", "AP01", .other), ("CSC", "AP01", .other), ("AVSCSC", "AP01", .other),
            ("AcceptOrderWithException", "AP01", .other),
            // These response codes are unknown.
            ("NOK", "X", .other), ("OK", "X", .other), ("approved", "X", .other), ("", "AP01", .other),
            ("DECLX", "X", .other),
            // These codes contradict each other.
            ("APPROVED", "TO01", .other), ("DECL", "AP01", .other), ("TIMEOUT", "AP01", .other),
            ("APPROVED", "NR01", .other),
        ])
    func outcomes(_ code: String, _ authorizationCode: String, _ outcome: AuthorizationOutcome) throws {
        var reply = try reply(Documents.reply)
        reply.responseCode = code
        reply.authorizationResponseCode = authorizationCode
        #expect(reply.outcome == outcome)
    }

    @Test(
        "derives the outcome from the authorization code if ResponseCode is missing",
        arguments: [("AP01", AuthorizationOutcome.approved), ("TO01", .timeout), ("NR01", .timeout), ("ND01", .other)])
    func withoutResponseCode(_ code: String, _ outcome: AuthorizationOutcome) throws {
        var reply = try reply(Documents.reply)
        reply.responseCode = nil
        reply.authorizationResponseCode = code
        #expect(reply.outcome == outcome)
    }

    @Test("does not count an approval without the bank's code as approved", arguments: ["", "  "])
    func withoutBankCode(_ code: String) throws {
        #expect(try reply(Documents.reply(">614653<", ">\(code)<")).outcome == .other)
    }

    @Test("accepts a declined payment without the bank's code")
    func declined() throws {
        let answer = Documents.reply(">614653<", "><")
        let text = String(decoding: answer, as: UTF8.self).replacing("APPROVED", with: "DECLF").replacing(
            "AP01", with: "ND02")
        #expect(try reply(Array(text.utf8)).outcome == .declined(.funds))
    }
}

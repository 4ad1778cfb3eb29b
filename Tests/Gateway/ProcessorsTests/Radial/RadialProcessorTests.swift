import Foundation
import Payments
import SecretMemory
import TestSupport
import Testing

@testable import Processors

/// Payments submitted to a simulated Radial: the bytes of the request, and the outcome that the reply gives.
@Suite("The processor for Radial")
struct RadialProcessorTests {
    private static let accountNumber = "4109370251004320"

    private static func secret(_ text: String) -> SecretBytes { SecretBytes(copying: Array(text.utf8)) }

    private static func contact() -> PaymentContact {
        var contact = PaymentContact()
        contact.givenName = "Ada"
        contact.familyName = "Byron"
        contact.phoneNumber = "6101234567"
        contact.emailAddress = "ada@shop.example"
        contact.addressLines = ["12 St James's Square"]
        contact.locality = "London"
        contact.countryCode = "GB"
        return contact
    }

    private static func customer(_ change: (inout PaymentContact) -> Void = { _ in }) -> Customer {
        var contact = contact()
        change(&contact)
        return Customer(billing: contact, ipAddress: "192.0.2.1")
    }

    private static func submission(
        accountNumber: String = accountNumber, amount: Amount? = Amount(minorUnits: 1499, currency: dollars),
        proof: PaymentProof? = nil, customer: Customer = customer(), orderId: String? = "order-1"
    ) throws -> Submission {
        Submission(
            transactionId: String(repeating: "0123456789abcdef", count: 4), merchantIdentifier: "merchant.shop",
            orderId: orderId, amount: amount,
            credential: PaymentCredential(
                accountNumber: secret(accountNumber), expirationDate: try #require(ExpirationDate("291231")),
                cardholderName: secret(""), deviceManufacturerIdentifier: nil,
                proof: proof
                    ?? .threeDSecure(
                        ThreeDSecureProof(cryptogram: secret("/wAAAQIDBAUGBwgJCgsMDQ4PEBES"), eciIndicator: "5")),
                merchantResponses: [], merchantTokenIdentifier: nil, merchantTokenMetadata: secret(""),
                dictionary: secret("{}")), customer: customer)
    }

    private static var dollars: Currency { Currency(letters: "USD") ?? Currency(number: "840")! }

    /// A reply in the form that Radial publishes, with these values.
    private static func reply(
        order: String = "order-1", token: String = "4109371AbCdE4320", isToken: String = "isToken=\"true\"",
        response: String = "APPROVED", authorization: String = "AP01", bankCode: String = "614653",
        amount: String = "14.99"
    ) -> String {
        """
        <?xml version="1.0" encoding="UTF-8"?>
        <CreditCardAuthReply xmlns="http://api.gsicommerce.com/schema/checkout/1.0">
          <PaymentContext>
            <OrderId>\(order)</OrderId>
            <PaymentAccountUniqueId \(isToken)>\(token)</PaymentAccountUniqueId>
          </PaymentContext>
          <ResponseCode>\(response)</ResponseCode>
          <AuthorizationResponseCode>\(authorization)</AuthorizationResponseCode>
          <BankAuthorizationCode>\(bankCode)</BankAuthorizationCode>
          <CVV2ResponseCode>0</CVV2ResponseCode>
          <AVSResponseCode>E</AVSResponseCode>
          <AmountAuthorized currencyCode="USD">\(amount)</AmountAuthorized>
          <TenderType>VC</TenderType>
        </CreditCardAuthReply>
        """
    }

    private func authorize(
        _ behaviour: SimulatedRadial.Behaviour, _ submission: Submission? = nil, within limit: Duration = .seconds(60)
    ) async throws -> (outcome: SubmissionOutcome, requests: [SimulatedRadial.Request]) {
        let radial = try await SimulatedRadial(behaviour)
        let outcome = try await radial.processor(leastTime: .zero).authorize(
            submission ?? Self.submission(), before: .now + limit, late: { _ in })
        return (outcome, radial.requests.current)
    }

    private func answer(_ reply: String, status: Int = 200) async throws -> ProcessorAnswer? {
        guard case .answered(let answer) = try await authorize(.answers(reply, status: status)).outcome else {
            return nil
        }
        return answer
    }

    @Test("sends one document to the path of the card's tender type, with the key from headers_file")
    func sent() async throws {
        let requests = try await authorize(.answers(Self.reply())).requests
        let request = try #require(requests.first)
        #expect(requests.count == 1)
        #expect(request.method == "POST" && request.target == "/creditcard/auth/VC.xml")
        #expect(request.headers["content-type"] == "text/xml" && request.headers["accept"] == "text/xml")
        #expect(request.headers["apikey"] == "k-1")
        for part in [
            "requestId=\"0123456789abcdef0123456789abcdef01234567\"", "<OrderId>order-1</OrderId>",
            "<PaymentAccountUniqueId isToken=\"false\">4109370251004320</PaymentAccountUniqueId>",
            "<ExpirationDate>2029-12</ExpirationDate>", "<Amount currencyCode=\"USD\">14.99</Amount>",
            "<BillingFirstName>Ada</BillingFirstName>", "<CustomerEmail>ada@shop.example</CustomerEmail>",
            "<CustomerIPAddress>192.0.2.1</CustomerIPAddress>", "<ShipToLastName>Byron</ShipToLastName>",
            // The message for a Visa card has the cryptogram's bytes in hexadecimal.
            "<CavvUcaf>FF0000010203040506070809" + "0A0B0C0D0E0F101112</CavvUcaf>", "<ECI>5</ECI>",
        ] { #expect(request.body.contains(part), "\(part)") }
    }

    @Test(
        "uses a different path for each tender type",
        arguments: [
            ("4109370251004320", "VC"), ("5454545454545454", "MC"), ("2223000048400011", "MC"),
            ("378282246310005", "AM"),
        ])
    func tenders(number: String, tender: String) async throws {
        let requests = try await authorize(.closesAfterRequest, Self.submission(accountNumber: number)).requests
        #expect(requests.map(\.target) == ["/creditcard/auth/\(tender).xml"])
    }

    @Test("reports an approval as authorized with the bank's code, and keeps the codes and Radial's reference")
    func approved() async throws {
        let answer = try #require(try await answer(Self.reply()))
        #expect(answer.state == .authorized)
        #expect(answer.outcome.authorizationCode == "614653")
        #expect(answer.outcome.processorReference == "4109371AbCdE4320")
        #expect(answer.outcome.reason == "Code=APPROVED Auth=AP01 CVV2=0 AVS=E Tender=VC")
        #expect(answer.outcome.processedAt != nil)
    }

    @Test("reports declines as declined", arguments: ["DECL", "DECLF", "DECLR"])
    func declined(code: String) async throws {
        let answer = try #require(
            try await answer(Self.reply(response: code, authorization: "ND01", bankCode: "")))
        #expect(answer.state == .declined && answer.outcome.authorizationCode == nil)
        #expect(answer.outcome.reason == "Code=\(code) Auth=ND01 CVV2=0 AVS=E Tender=VC")
    }

    @Test(
        "reports as pending a reply that leaves the bank's authorization open",
        arguments: [
            ("TIMEOUT", "TO01", ""), ("TIMEOUT", "NR01", ""), ("PaymentProcessorTimeout", "TO01", ""),
            // The following codes are unknown, contradict each other, or report an approval without the bank's code.
            ("NEWCODE", "ZZ01", "614653"), ("APPROVED", "TO01", "614653"), ("DECL", "AP01", "614653"),
            ("APPROVED", "ND01", "614653"),
            ("APPROVED", "AP01", ""),
        ])
    func open(response: String, authorization: String, bankCode: String) async throws {
        let answer = try #require(
            try await answer(Self.reply(response: response, authorization: authorization, bankCode: bankCode)))
        #expect(answer.state == .pending)
        #expect(answer.outcome.reason?.hasPrefix("Code=\(response) Auth=\(authorization) ") == true)
        #expect(answer.outcome.processorReference == "4109371AbCdE4320" && answer.outcome.processedAt == nil)
    }

    @Test(
        "reports an approval of another amount, larger or smaller, as pending", arguments: ["14.98", "15.00", "0.00"])
    func otherAmount(amount: String) async throws {
        let answer = try #require(try await answer(Self.reply(amount: amount)))
        #expect(answer.state == .pending)
        #expect(
            answer.outcome.reason
                == "amount_differs: USD \(amount); Code=APPROVED Auth=AP01 CVV2=0 AVS=E Tender=VC")
        #expect(answer.outcome.authorizationCode == "614653")
    }

    /// The bank may have authorized a payment whose reply is refused for its account number. With the outcome `error`
    /// instead of `unknown`, the shop would ask the customer to pay again.
    @Test(
        "reports an unknown outcome for a reply whose account number is not tokenized, and keeps none of its values",
        arguments: [
            ("4109370251004320", "isToken=\"false\""), ("4109370251004320", ""), ("4109371AbCdE4320", "isToken=\"1\""),
            // In the remaining cases, the reply states that the account number is tokenized, although it is not.
            ("4109370251004320", "isToken=\"true\""), ("4109-3702-5100-4320", "isToken=\"true\""),
            // The first value is the payment's own account number with letters inserted. The second is another account
            // number, possibly the card's instead of the device's.
            ("4109a3702b5100c4320", "isToken=\"true\""), ("4111111111111111", "isToken=\"true\""),
        ])
    func notTokenized(number: String, attribute: String) async throws {
        let reply = Self.reply(token: number, isToken: attribute)
        #expect(try await authorize(.answers(reply)).outcome == .unknown(.accountNumberNotTokenized))
        // The outcome is unknown even if the reply has the codes of a decline.
        let decline = Self.reply(
            token: number, isToken: attribute, response: "DECL", authorization: "ND01", bankCode: "")
        #expect(try await authorize(.answers(decline)).outcome == .unknown(.accountNumberNotTokenized))
    }

    @Test("does not keep an account number in place of the bank's code")
    func accountNumberAsBankCode() async throws {
        let reply = Self.reply(bankCode: "4111111111111111")
        #expect(try await authorize(.answers(reply)).outcome == .unknown(.accountNumberNotTokenized))
    }

    @Test("reports a Fault as pending, and keeps the Fault's code if the code is a word", arguments: [200, 500])
    func fault(status: Int) async throws {
        func fault(_ code: String) -> String {
            "<Fault xmlns=\"http://api.gsicommerce.com/schema/checkout/1.0\"><Code>\(code)</Code>"
                + "<Description>4109370251004320</Description></Fault>"
        }
        let known = try #require(try await answer(fault("PanFailsLuhnCheckException"), status: status))
        #expect(known == ProcessorAnswer(.pending, PaymentOutcome(reason: "PanFailsLuhnCheckException")))
        let number = try #require(try await answer(fault(Self.accountNumber), status: status))
        #expect(number == ProcessorAnswer(.pending, PaymentOutcome(reason: "Fault")))
    }

    @Test(
        "reports an unknown outcome for an answer that it cannot read",
        arguments: [
            "", "no XML", "{\"status\":\"authorized\"}", reply().replacing("</CreditCardAuthReply>", with: ""),
            "<!DOCTYPE x [<!ENTITY a \"b\">]>"
                + reply().replacing("<?xml version=\"1.0\" encoding=\"UTF-8\"?>", with: ""),
            reply(order: "order-2"), reply(amount: "much"),
            reply().replacing("CreditCardAuthReply", with: "OtherReply"),
        ])
    func garbage(body: String) async throws {
        #expect(try await authorize(.answers(body)).outcome == .unknown(.answerNotUnderstood))
    }

    @Test("sends nothing when too little time is left for an answer")
    func tooLate() async throws {
        let radial = try await SimulatedRadial(.answers(Self.reply()))
        let outcome = try await radial.processor().authorize(
            Self.submission(), before: .now + .seconds(2), late: { _ in })
        #expect(outcome == .notSent(.tooLate) && radial.requests.current.isEmpty)
    }

    @Test(
        "reports an unknown outcome for a reply with a status other than 200", arguments: [302, 400, 401, 500, 503])
    func statuses(status: Int) async throws {
        #expect(
            try await authorize(.answers(Self.reply(), status: status)).outcome == .unknown(.answerNotUnderstood))
    }

    @Test("reports an unknown outcome when the connection ends after the request or in the answer")
    func interrupted() async throws {
        #expect(try await authorize(.closesAfterRequest).outcome == .unknown(.connectionLost))
        #expect(try await authorize(.closesInAnswer(Self.reply(), after: 400)).outcome == .unknown(.connectionLost))
        #expect(
            try await authorize(.silent, within: .seconds(1)).outcome == .unknown(.noAnswerInTime))
    }

    @Test("reports that nothing was sent when no server listens")
    func noServer() async throws {
        let radial = try await SimulatedRadial(.closesAfterRequest)
        try await radial.stopListening()
        let outcome = try await radial.processor().authorize(
            Self.submission(), before: .now + .seconds(60), late: { _ in })
        #expect(outcome == .notSent(.notConnected))
        #expect(radial.requests.current.isEmpty)
    }

    @Test("refuses values that Radial does not accept before the decryption, and names the request's members")
    func unsuitable() async throws {
        let processor = try await SimulatedRadial(.closesAfterRequest).processor()
        #expect(processor.unsuitable(Self.customer(), orderId: "order-1").isEmpty)
        let long = Self.customer { $0.locality = String(repeating: "x", count: 41) }
        #expect(
            processor.unsuitable(long, orderId: String(repeating: "x", count: 21)) == [
                UnsuitableElement(.orderId, "must have 1 to 20 characters"),
                UnsuitableElement(.billing(.locality), "must have 1 to 40 characters"),
            ])
        var other = Self.customer()
        other.ipAddress = "2001:db8::1"
        #expect(
            processor.unsuitable(other, orderId: "1") == [
                UnsuitableElement(.customerIPAddress, "must be a dotted quad, such as 192.0.2.1")
            ])
        // A shipping contact with only a telephone number and an e-mail address needs no name and no postal address.
        var reachable = Self.customer { ($0.phoneNumber, $0.emailAddress) = (nil, nil) }
        reachable.shipping = PaymentContact()
        reachable.shipping?.phoneNumber = "6101234567"
        reachable.shipping?.emailAddress = "ada@shop.example"
        #expect(processor.unsuitable(reachable, orderId: "1").isEmpty)
        reachable.shipping?.locality = "Paris"
        #expect(
            processor.unsuitable(reachable, orderId: "1").map(\.element) == [
                .shipping(.givenName), .shipping(.familyName), .shipping(.addressLines), .shipping(.countryCode),
            ])
    }

    @Test("names each missing part that Radial's message needs")
    func needs() async throws {
        let needs = try await SimulatedRadial(.closesAfterRequest).processor().capabilities.needs
        #expect(
            Customer().missing(needs, orderId: nil).map(\.name) == [
                "orderId", "billingContact.givenName", "billingContact.familyName", "billingContact.phoneNumber",
                "billingContact.emailAddress", "billingContact.addressLines", "billingContact.locality",
                "billingContact.countryCode", "customerIPAddress",
            ])
        #expect(Self.customer().missing(needs, orderId: "1").isEmpty)
    }

    @Test("objects to a payment token's content that Radial's message cannot carry, and does not repeat the value")
    func objections() async throws {
        let processor = try await SimulatedRadial(.closesAfterRequest).processor()
        #expect(processor.objection(to: try Self.submission()) == nil)
        let discover = try Self.submission(accountNumber: "6011000990139424")
        #expect(
            processor.objection(to: discover)
                == "a card that is neither of Visa, nor Mastercard, nor American Express")
        let dinars = try #require(Currency(letters: "KWD"))
        let precise = try Self.submission(amount: Amount(minorUnits: 1499, currency: dinars))
        #expect(processor.objection(to: precise) == "a currency of more than two decimals")
        let none = try Self.submission(amount: nil)
        #expect(processor.objection(to: none) == "no amount")
        let emv = try Self.submission(
            proof: .emv(EMVProof(data: Self.secret("AA=="), encryptedPIN: Self.secret(""))))
        #expect(processor.objection(to: emv) == "no 3-D Secure data")
        let broken = try Self.submission(
            proof: .threeDSecure(ThreeDSecureProof(cryptogram: Self.secret("?"), eciIndicator: nil)))
        #expect(processor.objection(to: broken) == "a cryptogram that is not base64, or too long")
        // The processor sends nothing to Radial for a payment to which it objects.
        #expect(
            await processor.authorize(discover, before: .now + .seconds(60), late: { _ in }) == .notSent(.notWritten))
    }
}

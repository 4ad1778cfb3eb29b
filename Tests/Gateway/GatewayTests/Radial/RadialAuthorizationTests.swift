import Encodings
import Foundation
import Payments
import Processors
import Radial
import TestSupport
import Testing
import TokenForge

@testable import Gateway

/// `POST /radial/credit-card-auth` over TLS, between a simulated paytokend and a scripted processor.
@Suite("Radial's CreditCardAuth as a client sends it")
struct RadialAuthorizationTests {
    private static let path = "/radial/credit-card-auth"

    /// The text of the element `name`, which has no attributes; nil if the answer lacks it.
    private func element(_ name: String, of answer: CurlAnswer) -> String? {
        let text = answer.text
        guard let start = text.firstRange(of: "<\(name)>"), let end = text.firstRange(of: "</\(name)>") else {
            return nil
        }
        return String(text[start.upperBound..<end.lowerBound])
    }

    @Test("pays a payment token in XML like one in JSON: decrypts, submits once, and answers a CreditCardAuthReply")
    func authorized() async throws {
        let gateway = try await PaymentGateway()
        let document = RadialDocument()
        let answer = try await gateway.ask(Self.path, document.request)
        #expect(answer.status == 200 && answer.header("Content-Type") == "text/xml")
        #expect(answer.header("Cache-Control") == "no-store")
        #expect(
            answer.text == #"<?xml version="1.0" encoding="UTF-8"?>"#
                + #"<CreditCardAuthReply xmlns="http://api.gsicommerce.com/schema/checkout/1.0">"#
                + "<PaymentContext><OrderId>order-1</OrderId>"
                + #"<PaymentAccountUniqueId isToken="true">sim-000001</PaymentAccountUniqueId></PaymentContext>"#
                + "<ResponseCode>APPROVED</ResponseCode>"
                + "<AuthorizationResponseCode>AP01</AuthorizationResponseCode>"
                + "<BankAuthorizationCode>A1B2C3</BankAuthorizationCode>"
                + "<CVV2ResponseCode></CVV2ResponseCode><AVSResponseCode></AVSResponseCode>"
                + #"<AmountAuthorized currencyCode="USD">10.99</AmountAuthorized></CreditCardAuthReply>"#)
        let submissions = gateway.processor.submissions.current
        let submission = try #require(submissions.first)
        #expect(submissions.count == 1)
        #expect(submission.transactionId == document.transactionId && submission.orderId == "order-1")
        #expect(submission.amount?.decimal == "10.99")
        #expect(submission.customer.billing?.givenName == "John" && submission.customer.shipping?.givenName == "Jane")
        #expect(submission.customer.billing?.addressLines == ["123 Main St"])
        #expect(submission.customer.emailAddress == "customer@sample.com")
        #expect(submission.customer.ipAddress == "208.247.73.130")
        let decrypted = try #require(gateway.paytokend.requests.current.first)
        #expect(decrypted.expected == nil)
        #expect(
            decrypted.token.objectValue?["paymentData"]?.objectValue?.members.map(\.name)
                == ["version", "data", "signature", "header"])
        // The log contains neither card data nor personal data.
        let log = gateway.log.current.joined(separator: "\n")
        #expect(log.contains(document.transactionId) && log.contains("/radial/credit-card-auth"))
        for text in gateway.payload.secrets + ["Smith", "6101234567", "customer@sample.com", "Philadelphia"] {
            #expect(!log.contains(text), "\(text)")
        }
        await gateway.stop()
    }

    @Test("returns the same reply to the same request, without another decryption or submission")
    func again() async throws {
        let gateway = try await PaymentGateway()
        let document = RadialDocument()
        let first = try await gateway.ask(Self.path, document.request)
        let second = try await gateway.ask(Self.path, document.request, type: "application/xml; charset=utf-8")
        #expect(first.status == 200 && first.text == second.text)
        #expect(gateway.processor.submissions.current.count == 1 && gateway.paytokend.requests.current.count == 1)
        // `GET /payments/apple-pay/…` also returns the outcome. A request for a different order is refused.
        let status = try await gateway.ask("/payments/apple-pay/\(document.transactionId)")
        #expect(status.string("status") == "authorized")
        var other = document
        other.orderId = "order-2"
        let refused = try await gateway.ask(Self.path, other.request)
        #expect(refused.status == 422 && element("Code", of: refused) == "token_used_differently")
        await gateway.stop()
    }

    @Test("pays one payment token in both forms once, whichever came first", arguments: [true, false])
    func twoForms(xmlFirst: Bool) async throws {
        let gateway = try await PaymentGateway()
        let document = RadialDocument()
        func xml() async throws -> CurlAnswer { try await gateway.ask(Self.path, document.request) }
        func json() async throws -> CurlAnswer {
            try await gateway.ask("/payments/apple-pay", document.submission, type: "application/json")
        }
        let first = xmlFirst ? try await xml() : try await json()
        let second = xmlFirst ? try await json() : try await xml()
        #expect(first.status == 200 && second.status == 422)
        #expect(gateway.processor.submissions.current.count == 1)
        await gateway.stop()
    }

    @Test(
        "replies with the elements of the request's SchemaVersion",
        arguments: [(String?.none, 0), ("1.1", 1), ("1.2", 2), ("1.10", 2)])
    func schemaVersions(version: String?, elements: Int) async throws {
        let codes = "Code=APPROVED Auth=AP01 CVV2=M AVS=Z Phone=Y Tender=VC"
        let gateway = try await PaymentGateway([
            PaymentGateway.authorized(reason: codes, reference: "4054131ImpMJ6965")
        ])
        var document = RadialDocument()
        document.schemaVersion = version
        let answer = try await gateway.ask(Self.path, document.request)
        #expect((element("ResponseCode", of: answer) == "APPROVED") == (elements >= 1))
        #expect((element("TenderType", of: answer) == "VC") == (elements >= 2))
        #expect(element("CVV2ResponseCode", of: answer) == "M" && element("AVSResponseCode", of: answer) == "Z")
        #expect(element("PhoneResponseCode", of: answer) == "Y" && element("NameResponseCode", of: answer) == nil)
        #expect(answer.text.contains("isToken=\"true\">4054131ImpMJ6965<"))
        await gateway.stop()
    }

    @Test("names Radial's codes in a JSON payment, and omits them for another processor")
    func codesInJSON() async throws {
        let gateway = try await PaymentGateway([
            PaymentGateway.authorized(reason: "Code=APPROVED Auth=AP01 CVV2=N AVS=Z Tender=VC"),
            PaymentGateway.authorized(reason: "seen by a person"),
        ])
        let documents = [RadialDocument(), RadialDocument()]
        for (document, isRadial) in zip(documents, [true, false]) {
            let paid = try await gateway.ask("/payments/apple-pay", document.submission, type: "application/json")
            let asked = try await gateway.ask("/payments/apple-pay/\(document.transactionId)")
            for answer in [paid, asked] {
                #expect(answer.status == 200 && answer.string("status") == "authorized")
                let codes = answer.member("processorCodes")?.objectValue?.members.map {
                    "\($0.name)=\($0.value.stringValue ?? "")"
                }
                #expect(
                    codes
                        == (isRadial
                            ? [
                                "ResponseCode=APPROVED", "AuthorizationResponseCode=AP01", "CVV2ResponseCode=N",
                                "AVSResponseCode=Z", "TenderType=VC",
                            ] : nil))
            }
        }
        await gateway.stop()
    }

    @Test(
        "replies to a decline in Radial's form, without the bank's code",
        arguments: [
            ("insufficient_funds", "DECL", "DECL"), ("Code=DECLF Auth=ND01 CVV2=0 AVS=E", "DECLF", "ND01"),
        ])
    func declined(reason: String, response: String, authorization: String) async throws {
        let gateway = try await PaymentGateway([
            .answered(ProcessorAnswer(.declined, PaymentOutcome(reason: reason, processorReference: "sim-000001")))
        ])
        let answer = try await gateway.ask(Self.path, RadialDocument().request)
        #expect(answer.status == 200)
        #expect(element("ResponseCode", of: answer) == response)
        #expect(element("AuthorizationResponseCode", of: answer) == authorization)
        #expect(element("BankAuthorizationCode", of: answer) == "")
        await gateway.stop()
    }

    @Test("replies with TIMEOUT exactly where Radial does, with the reference for its Order Service")
    func timeout() async throws {
        let gateway = try await PaymentGateway([
            .answered(
                ProcessorAnswer(
                    .pending,
                    PaymentOutcome(
                        reason: "Code=TIMEOUT Auth=NR01 CVV2=0 AVS=E", processorReference: "4054131ImpMJ6965")))
        ])
        let document = RadialDocument()
        for _ in 1...2 {
            let answer = try await gateway.ask(Self.path, document.request)
            #expect(answer.status == 200 && element("ResponseCode", of: answer) == "TIMEOUT")
            #expect(element("AuthorizationResponseCode", of: answer) == "TO01")
            #expect(element("BankAuthorizationCode", of: answer) == "")
            #expect(answer.text.contains("isToken=\"true\">4054131ImpMJ6965<"))
        }
        #expect(gateway.processor.submissions.current.count == 1)
        await gateway.stop()
    }

    /// After TIMEOUT, Radial's clients accept the order and expect a later authorization. No system would make one for
    /// a payment of this gateway.
    @Test(
        "answers a Fault for any other payment with an unknown outcome, which is pending in the other form",
        arguments: [
            SubmissionOutcome.unknown(.connectionLost), .unknown(.accountNumberNotTokenized),
            .answered(
                ProcessorAnswer(
                    .pending,
                    PaymentOutcome(
                        reason: "Code=DECL Auth=AP01 CVV2=0 AVS=E", authorizationCode: "614653",
                        processorReference: "4054131ImpMJ6965"))),
            .answered(ProcessorAnswer(.pending, PaymentOutcome(reason: "Code=TIMEOUT Auth=TO01"))),
        ])
    func pending(outcome: SubmissionOutcome) async throws {
        let gateway = try await PaymentGateway([outcome])
        let document = RadialDocument()
        for _ in 1...2 {
            let answer = try await gateway.ask(Self.path, document.request)
            #expect(answer.status == 503 && element("Code", of: answer) == "payment_pending")
            #expect(answer.header("Retry-After") == "30")
            #expect(element("Description", of: answer)?.contains(document.transactionId) == true)
        }
        let status = try await gateway.ask("/payments/apple-pay/\(document.transactionId)")
        #expect(status.string("status") == "pending")
        #expect(gateway.processor.submissions.current.count == 1)
        let level = outcome == .unknown(.accountNumberNotTokenized) ? "level=error" : "level=warning"
        let lines = gateway.log.current.filter { $0.contains("a payment's outcome is unknown") }
        #expect(lines.count == 1 && lines.first?.hasSuffix(level) == true, "\(lines)")
        await gateway.stop()
    }

    @Test("asks a second request to wait while the first is submitting, because the first may be declined")
    func underWay() async throws {
        let gateway = try await PaymentGateway([
            .answered(ProcessorAnswer(.declined, PaymentOutcome(reason: "Code=DECL Auth=ND01")))
        ])
        gateway.processor.latch.close()
        let document = RadialDocument()
        async let first = gateway.ask(Self.path, document.request)
        try await wait(for: "the submission") { gateway.processor.submissions.current.count == 1 }
        let second = try await gateway.ask(Self.path, document.request)
        #expect(second.status == 503 && element("Code", of: second) == "payment_under_way")
        gateway.processor.latch.open()
        #expect(try await element("ResponseCode", of: first) == "DECL")
        #expect(gateway.processor.submissions.current.count == 1)
        await gateway.stop()
    }

    /// Radial's request has no field for the expected amount, and the unit of Apple's amounts in yen is unknown.
    @Test("does not submit an amount of uncertain unit if the request cannot state it")
    func yen() async throws {
        var payload = PayloadRecipe()
        (payload.currencyCode, payload.amount) = ("392", "1000")
        let gateway = try await PaymentGateway(payload: payload)
        let answer = try await gateway.ask(Self.path, RadialDocument().request)
        #expect(answer.status == 422 && element("Code", of: answer) == "payment_data_unsupported")
        #expect(gateway.processor.submissions.current.isEmpty)
        await gateway.stop()
    }

    @Test("does not submit an amount of zero")
    func zero() async throws {
        var payload = PayloadRecipe()
        payload.amount = "0"
        let gateway = try await PaymentGateway(payload: payload)
        let answer = try await gateway.ask(Self.path, RadialDocument().request)
        #expect(answer.status == 422 && element("Code", of: answer) == "payment_data_unsupported")
        #expect(gateway.processor.submissions.current.isEmpty)
        await gateway.stop()
    }

    @Test("answers every refusal with a Fault that has its code and status")
    func faults() async throws {
        let failed = try await PaymentGateway([
            .answered(ProcessorAnswer(.error, PaymentOutcome(reason: "processing_error"))),
            .notSent(.notConnected),
        ])
        let error = try await failed.ask(Self.path, RadialDocument().request)
        #expect(error.status == 422 && error.header("Content-Type") == "text/xml")
        #expect(element("Code", of: error) == "payment_failed")
        #expect(element("Description", of: error)?.hasSuffix("(processing_error)") == true)
        let unsent = try await failed.ask(Self.path, RadialDocument().request)
        #expect(unsent.status == 503 && element("Code", of: unsent) == "processor_unavailable")
        #expect(unsent.header("Retry-After") == "2")
        failed.paytokend.refusal.change { $0 = (409, "transaction_replayed") }
        let replayed = try await failed.ask(Self.path, RadialDocument().request)
        #expect(replayed.status == 409 && element("Code", of: replayed) == "transaction_replayed")
        await failed.stop()
    }

    @Test("reports a required expectation that the form cannot state as the operator's fault, and names it in the log")
    func unstatableExpectations() async throws {
        let gateway = try await PaymentGateway()
        gateway.paytokend.required.change { $0 = ["currencyCode"] }
        let refused = try await gateway.ask(Self.path, RadialDocument().request)
        #expect(refused.status == 500 && element("Code", of: refused) == "internal_error")
        #expect(!refused.text.contains("currencyCode"))
        let lines = gateway.log.current.filter {
            $0.contains("level=error") && $0.contains("expected.currencyCode missing")
        }
        #expect(lines.count == 1 && lines[0].contains("paytokend's access rule") && lines[0].contains("client=shop"))
        // Once the access rule is changed, a payment succeeds.
        gateway.paytokend.required.change { $0 = [] }
        #expect(try await gateway.ask(Self.path, RadialDocument().request).status == 200)
        await gateway.stop()
    }

    @Test("answers a Fault to what the processor does not accept, and submits nothing")
    func unsupported() async throws {
        let gateway = try await PaymentGateway(payload: PayloadRecipe(.emv))
        let answer = try await gateway.ask(Self.path, RadialDocument().request)
        #expect(answer.status == 422 && element("Code", of: answer) == "payment_data_unsupported")
        #expect(gateway.processor.submissions.current.isEmpty)
        await gateway.stop()
    }

    @Test("answers a Fault that names the element of a faulty document, and decrypts nothing")
    func malformed() async throws {
        let gateway = try await PaymentGateway()
        var long = RadialDocument()
        long.city = String(repeating: "Q", count: 41)
        let city = try await gateway.ask(Self.path, long.request)
        #expect(city.status == 400 && element("Code", of: city) == "malformed_request")
        #expect(element("Element", of: city) == "CreditCardAuthRequest/BillingAddress/City")
        #expect(!city.text.contains("QQ"))
        var token = RadialDocument()
        token.data = "?"
        let data = try await gateway.ask(Self.path, token.request)
        #expect(data.status == 400 && element("Code", of: data) == "malformed_token")
        #expect(element("Element", of: data) == "CreditCardAuthRequest/WalletPaymentInformation/Data")
        for orderId in ["order 1", "order&#10;1", "\u{202E}1"] {
            var odd = RadialDocument()
            odd.orderId = orderId
            let order = try await gateway.ask(Self.path, odd.request)
            #expect(order.status == 400 && element("Element", of: order) == "CreditCardAuthRequest/OrderId")
        }
        var rsa = RadialDocument()
        rsa.version = "RSA_v1"
        let version = try await gateway.ask(Self.path, rsa.request)
        #expect(version.status == 400 && element("Code", of: version) == "unsupported_version")
        for body in [
            "", "{}", "<CreditCardAuthRequest/>", "<!DOCTYPE a [<!ENTITY b SYSTEM \"file:///etc/passwd\">]><a>&b;</a>",
        ] {
            let answer = try await gateway.ask(Self.path, Array(body.utf8))
            #expect(answer.status == 400 && element("Code", of: answer) == "malformed_request", "\(body)")
        }
        #expect(gateway.paytokend.requests.current.isEmpty && gateway.processor.submissions.current.isEmpty)
        await gateway.stop()
    }

    @Test("refuses other media types, unknown senders and other merchants in XML")
    func refused() async throws {
        let gateway = try await PaymentGateway()
        let document = RadialDocument()
        let json = try await gateway.ask(Self.path, document.submission, type: "application/json")
        #expect(json.status == 415 && element("Code", of: json) == "unsupported_media_type")
        let nobody = try await gateway.ask(Self.path, document.request, key: nil)
        #expect(nobody.status == 401 && element("Code", of: nobody) == "unauthorized")
        #expect(gateway.paytokend.requests.current.isEmpty)
        let method = try await gateway.ask(Self.path)
        #expect(method.status == 405 && method.header("Allow") == "POST")
        #expect(element("Code", of: method) == "method_not_allowed")
        // paytokend determines the payment token's merchant.
        let other = try await gateway.ask(Self.path, document.request, key: PaymentGateway.otherKey)
        #expect(other.status == 403 && element("Code", of: other) == "forbidden")
        #expect(gateway.processor.submissions.current.isEmpty)
        // The path for JSON requests refuses XML, with an error in JSON.
        let xml = try await gateway.ask("/payments/apple-pay", document.request)
        #expect(xml.status == 415 && xml.code == "unsupported_media_type")
        await gateway.stop()
    }
}

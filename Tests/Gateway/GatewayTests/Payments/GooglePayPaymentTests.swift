import AccessControl
import ConfigurationFile
import Crypto
import Encodings
import Foundation
import GooglePayToken
import KeyTypes
import Payments
import Processors
import SecretMemory
import StrictJSON
import TestSupport
import Testing
import TokenForge

@testable import Gateway

/// A payment with Google Pay in the form of `POST /payments/google-pay`. The simulated paytokend verifies and opens
/// nothing, so the message is for a key that exists nowhere.
struct GooglePayDocument {
    var envelope: GooglePayEnvelope
    var merchant = DecryptingPaytokend.googleMerchant
    var amount = "\"10.99\""
    var currency = "\"USD\""
    var more = #","orderId":"order-1""#

    init() throws {
        envelope = try GooglePayForge().mint(
            Array("{}".utf8), to: P256.KeyAgreement.PrivateKey().publicKey,
            recipient: "merchant:\(DecryptingPaytokend.googleMerchant)",
            expiration: Date(timeIntervalSince1970: 4_000_000_000))
    }

    var json: [UInt8] { json(token: envelope.json) }

    func json(token: String) -> [UInt8] {
        Array(
            """
            {"token":\(token),"merchantIdentifier":"\(merchant)","amount":\(amount),"currency":\(currency)\(more)}
            """.utf8)
    }

    /// SHA-256 of signedMessage.
    var digest: [UInt8] { Array(SHA256.hash(data: Data(envelope.signedMessage.utf8))) }
    var transactionId: String { Hexadecimal.encode(digest) }
}

@Suite("Payments with Google Pay")
struct GooglePayPaymentTests {
    private func text(_ secret: borrowing SecretBytes) -> String {
        unsafe secret.withUnsafeBytes { unsafe String(decoding: $0, as: UTF8.self) }
    }

    private func pay(
        _ gateway: PaymentGateway, _ body: [UInt8], key: String = PaymentGateway.key
    ) async throws -> CurlAnswer {
        try await gateway.ask("/payments/google-pay", body, type: "application/json", key: key)
    }

    @Test("submits the stated amount and the message's card once, and returns the result to the same request")
    func pays() async throws {
        let gateway = try await PaymentGateway()
        let document = try GooglePayDocument()
        // Google delivers the payment token as a string; a backend may send either form.
        let quoted = JSONValue.string(document.envelope.json).compact
        let asString = document.json(token: String(decoding: quoted, as: UTF8.self))
        for body in [document.json, document.json, asString] {
            let paid = try await pay(gateway, body)
            #expect(paid.status == 200 && paid.string("status") == "authorized", "\(paid)")
            #expect(paid.string("transactionId") == document.transactionId && paid.string("currency") == "USD")
            #expect(paid.text.contains(#""amount":10.99"#))
        }
        #expect(gateway.paytokend.googleRequests.current.count == 1 && gateway.paytokend.requests.current.isEmpty)
        let asked = try #require(gateway.paytokend.googleRequests.current.first)
        #expect(asked.merchantIdentifier == document.merchant && asked.amount == "10.99" && asked.currency == "USD")
        #expect(asked.authMethod == "CRYPTOGRAM_3DS")
        #expect(try asked.token == JSONValue(parsing: document.envelope.json))
        // The reference of the contract: SHA-256 of client and SHA-256 of signedMessage.
        let reference = SHA256.hash(data: Data("shop".utf8) + [0] + document.digest)
        #expect(asked.common.reference == Hexadecimal.encode(Array(reference)))

        #expect(gateway.processor.submissions.current.count == 1)
        let submission = try #require(gateway.processor.submissions.current.first)
        #expect(submission.wallet == .googlePay && submission.merchantIdentifier == document.merchant)
        #expect(submission.amount?.decimal == "10.99" && submission.orderId == "order-1")
        #expect(text(submission.credential.accountNumber) == "4111111111111111")
        #expect(submission.credential.expirationDate == ExpirationDate("301231"))
        guard case .threeDSecure(let proof) = submission.credential.proof else {
            Issue.record("no cryptogram")
            return
        }
        #expect(text(proof.cryptogram) == "AAAAAA==" && proof.eciIndicator == "05")

        let stored = try #require(try await gateway.store.payment(transaction: document.digest))
        #expect(stored.transaction?.amount?.minorUnits == 1099 && stored.transaction?.amount?.currency.letters == "USD")
        #expect(stored.transaction?.merchantIdentifier == document.merchant)
        for wallet in ["google-pay", "apple-pay"] {
            let status = try await gateway.ask("/payments/\(wallet)/\(document.transactionId)")
            #expect(status.status == 200 && status.string("status") == "authorized")
        }
        let unknown = try await gateway.ask(
            "/payments/google-pay/\(document.transactionId)", key: PaymentGateway.otherKey)
        #expect(unknown.status == 404)
        #expect(!gateway.log.current.contains { $0.contains("4111111111111111") || $0.contains("AAAAAA==") })
        await gateway.stop()
    }

    @Test("is one payment however its signatures are made, and refuses another amount, currency or order")
    func oneMessage() async throws {
        let gateway = try await PaymentGateway()
        let document = try GooglePayDocument()
        #expect(try await pay(gateway, document.json).status == 200)
        var again = document
        try GooglePayForge().sign(&again.envelope, recipient: "merchant:\(document.merchant)")
        #expect(again.envelope.signature != document.envelope.signature)
        #expect(try await pay(gateway, again.json).string("status") == "authorized")
        again.amount = "\"10.990\""
        #expect(try await pay(gateway, again.json).status == 400)
        for change: (inout GooglePayDocument) -> Void in [
            { $0.amount = "\"1.00\"" }, { $0.currency = "\"EUR\"" }, { $0.more = #","orderId":"order-2""# },
        ] {
            var other = document
            change(&other)
            let refused = try await pay(gateway, other.json)
            #expect(refused.status == 422 && refused.string("code") == "token_used_differently", "\(refused)")
            #expect(refused.string("message")?.contains("GET /payments/google-pay/{transactionId}") == true)
            #expect(refused.string("details") == document.transactionId)
        }
        #expect(gateway.processor.submissions.current.count == 1)
        #expect(gateway.paytokend.googleRequests.current.count == 1)
        await gateway.stop()
    }

    @Test("never returns the result of one wallet's payment to a request of the other")
    func otherWallet() async throws {
        let gateway = try await PaymentGateway()
        let document = try GooglePayDocument()
        #expect(try await pay(gateway, document.json).status == 200)
        var apple = RadialDocument()
        apple.transactionId = document.transactionId
        let refused = try await gateway.ask("/payments/apple-pay", apple.submission, type: "application/json")
        #expect(refused.status == 422 && refused.string("code") == "token_used_differently", "\(refused)")
        #expect(gateway.processor.submissions.current.count == 1)
        await gateway.stop()
    }

    @Test(
        "refuses a malformed request before paytokend is asked",
        arguments: [
            (#""amount":10.99"#, "malformed_request"),
            (#""amount":"-1""#, "malformed_request"), (#""amount":"10.999""#, "malformed_request"),
            (#""amount":"100000000000""#, "malformed_request"),
            (#""currency":"usd""#, "currency_unknown"), (#""currency":840"#, "malformed_request"),
            (#""merchantIdentifier":"merchant.com.example""#, "malformed_request"),
            (#""merchantIdentifier":"merchant:BCR2DN4TEXAMPLE""#, "malformed_request"),
            (#""expected":{"amount":"10.99"}"#, "malformed_request"), (#""token":{}"#, "malformed_token"),
            (#""token":7"#, "malformed_token"), ("amount", "element_missing"), ("currency", "element_missing"),
            ("merchantIdentifier", "element_missing"), ("token", "element_missing"),
        ])
    func malformed(change: String, code: String) throws {
        let envelope = try GooglePayDocument().envelope.json
        var members = [
            "token": envelope, "merchantIdentifier": #""BCR2DN4TEXAMPLE""#, "amount": #""10.99""#,
            "currency": #""USD""#,
        ]
        if let colon = change.firstIndex(of: ":") {
            let name = String(change[..<colon].dropFirst().dropLast())
            members[name] = String(change[change.index(after: colon)...])
        } else {
            members[change] = nil
        }
        let body = "{" + members.map { "\"\($0.key)\":\($0.value)" }.joined(separator: ",") + "}"
        do throws(GatewayRefusal) {
            _ = try PaymentRequest(parsing: Array(body.utf8), of: .googlePay)
            Issue.record("accepted \(body)")
        } catch { #expect(error.code.rawValue == code, "\(error)") }
    }

    @Test(
        "refuses another protocol version, a changed envelope and a signedMessage that is an object",
        arguments: [
            ("ECv1", "unsupported_version"), ("ECv2SigningOnly", "unsupported_version"), ("object", "malformed_token"),
            ("member", "malformed_token"), ("twice", "malformed_token"),
        ])
    func envelope(change: String, code: String) throws {
        var document = try GooglePayDocument()
        var token = document.envelope.json
        switch change {
        case "object":
            let object = "\"signedMessage\":\(document.envelope.signedMessage)}"
            token = token.replacing(/"signedMessage":".*"\}$/, with: object)
            #expect(token.hasSuffix(object))
        case "member": token = token.dropLast() + #","more":1}"#
        case "twice": token = token.dropLast() + #","signature":"AA=="}"#
        default:
            document.envelope.protocolVersion = change
            token = document.envelope.json
        }
        do throws(GatewayRefusal) {
            _ = try PaymentRequest(parsing: document.json(token: token), of: .googlePay)
            Issue.record("accepted \(token)")
        } catch { #expect(error.code.rawValue == code, "\(error)") }
    }

    @Test("asks paytokend for no merchant that the client or the processors do not have, and for no amount of zero")
    func refusedBefore() async throws {
        let gateway = try await PaymentGateway()
        var document = try GooglePayDocument()
        let otherClient = try await pay(gateway, document.json, key: PaymentGateway.otherKey)
        #expect(otherClient.status == 403 && otherClient.string("code") == "forbidden")
        #expect(otherClient.string("message")?.contains("clients[].google_pay.merchants") == true)
        document.merchant = "OTHER2DN4TEXAMPLE"
        #expect(try await pay(gateway, document.json).string("code") == "forbidden")
        document.merchant = "BCR2ANOTHER"
        let noProcessor = try await pay(gateway, document.json)
        #expect(noProcessor.status == 422 && noProcessor.string("code") == "no_processor")
        document.merchant = DecryptingPaytokend.googleMerchant
        document.amount = "\"0.00\""
        let zero = try await pay(gateway, document.json)
        #expect(zero.status == 422 && zero.string("code") == "payment_data_unsupported")
        let apple = try await gateway.ask(
            "/payments/apple-pay", RadialDocument().submission, type: "application/json", key: PaymentGateway.googleKey)
        #expect(apple.status == 403 && apple.string("code") == "forbidden")
        #expect(gateway.paytokend.googleRequests.current.isEmpty && gateway.paytokend.requests.current.isEmpty)
        document.amount = "\"10.99\""
        #expect(try await pay(gateway, document.json).status == 200)
        await gateway.stop()
    }

    @Test("does not submit a card's own number for a processor whose entry does not permit PAN_ONLY")
    func panOnly() async throws {
        let gateway = try await PaymentGateway()
        gateway.paytokend.refusal.change { $0 = (422, "auth_method_not_allowed") }
        let document = try GooglePayDocument()
        let refused = try await pay(gateway, document.json)
        #expect(refused.status == 422 && refused.string("code") == "auth_method_not_allowed")
        // A paytokend that releases the card's own number all the same.
        gateway.paytokend.refusal.change { $0 = nil }
        gateway.paytokend.googlePlaintext.change { $0 = Self.panOnly }
        let unsupported = try await pay(gateway, document.json)
        #expect(unsupported.status == 422 && unsupported.string("code") == "payment_data_unsupported")
        #expect(unsupported.string("details") == "authMethod PAN_ONLY")
        #expect(gateway.processor.submissions.current.isEmpty)
        await gateway.stop()
    }

    private static let panOnly = Array(
        """
        {"messageExpiration":"4000000000000","messageId":"m","paymentMethod":"CARD","paymentMethodDetails":\
        {"pan":"4111111111111111","expirationMonth":2,"expirationYear":2028,"authMethod":"PAN_ONLY"}}
        """.utf8)

    @Test("submits a card's own number without a cryptogram to a processor whose entry permits PAN_ONLY")
    func panOnlyPermitted() async throws {
        let gateway = try await PaymentGateway(authMethods: [.cryptogram3DS, .panOnly])
        gateway.paytokend.googlePlaintext.change { $0 = Self.panOnly }
        #expect(try await pay(gateway, GooglePayDocument().json).status == 200)
        #expect(gateway.paytokend.googleRequests.current.map(\.authMethod) == [nil])
        let submission = try #require(gateway.processor.submissions.current.first)
        guard case .absent = submission.credential.proof else {
            Issue.record("a proof")
            return
        }
        #expect(submission.credential.expirationDate == ExpirationDate("280229"))
        await gateway.stop()
    }

    @Test(
        "keeps a digest of the number of a device while a payment is pending, and none of the number of a card",
        arguments: [true, false])
    func digest(ofCard: Bool) async throws {
        let gateway = try await PaymentGateway(
            [.unknown(.connectionLost)], authMethods: [.cryptogram3DS, .panOnly])
        if ofCard { gateway.paytokend.googlePlaintext.change { $0 = Self.panOnly } }
        let paid = try await pay(gateway, GooglePayDocument().json)
        #expect(paid.string("status") == "pending")
        let transactionId = try #require(paid.string("transactionId"))
        let name = try #require(Hexadecimal.decode(transactionId))
        let pending = try #require(try await gateway.store.payment(transaction: name))
        #expect((pending.transaction?.accountDigest == nil) == ofCard)
        await gateway.stop()
    }

    @Test("names attempts that sent nothing in the next request to paytokend, and pays once")
    func attempts() async throws {
        let gateway = try await PaymentGateway([.notSent(.notConnected), PaymentGateway.authorized()])
        let document = try GooglePayDocument()
        let away = try await pay(gateway, document.json)
        #expect(away.status == 503 && away.string("code") == "processor_unavailable")
        gateway.paytokend.losses.change { $0 = 1 }
        #expect(try await pay(gateway, document.json).status == 503)
        #expect(try await pay(gateway, document.json).string("status") == "authorized")
        let requests = gateway.paytokend.googleRequests.current
        let attempts = requests.compactMap(\.common.attempt)
        #expect(Set(requests.map(\.common.reference)).count == 1)
        #expect(Set(try #require(requests.last).common.after) == Set(attempts.dropLast()))
        #expect(gateway.processor.submissions.current.count == 2)
        await gateway.stop()
    }

    @Test("submits nothing for the release of another message or merchant")
    func otherRelease() async throws {
        let gateway = try await PaymentGateway()
        for (transaction, merchant) in [(String(repeating: "ee", count: 32), nil), (nil, "BCR2ANOTHER")] {
            gateway.paytokend.wrong.change { $0 = (transaction, merchant) }
            let refused = try await pay(gateway, GooglePayDocument().json)
            #expect(refused.status == 500 && refused.string("code") == "internal_error", "\(refused)")
        }
        #expect(gateway.processor.submissions.current.isEmpty)
        await gateway.stop()
    }

    @Test("tells the operator, and not the client, that paytokend does not serve Google Pay")
    func notServed() async throws {
        let gateway = try await PaymentGateway()
        gateway.paytokend.refusal.change { $0 = (404, "not_found") }
        let refused = try await pay(gateway, GooglePayDocument().json)
        #expect(refused.status == 500 && refused.string("code") == "internal_error")
        #expect(gateway.log.current.contains { $0.contains("trust.google_pay") })
        gateway.paytokend.refusal.change { $0 = nil }
        #expect(try await pay(gateway, GooglePayDocument().json).status == 200)
        await gateway.stop()
    }
}

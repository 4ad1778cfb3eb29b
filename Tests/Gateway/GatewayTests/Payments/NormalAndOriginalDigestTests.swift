import Crypto
import Encodings
import Foundation
import Payments
import StrictJSON
import TestSupport
import Testing

@testable import Gateway

@Suite("Spellings of one payment token and one request")
struct NormalAndOriginalDigestTests {
    /// A submission in which a test can vary the spelling of payment token and expectations.
    private struct Submission {
        var data = "AAECAwQ="
        var applicationData = "00ffab"
        var transactionId = String(repeating: "ab", count: 32)
        var amount = "1099"
        var expectedData = "AQI="
        var hash = false

        var json: String {
            let expectation =
                hash
                ? #""applicationDataHash":"\#(applicationData)""# : #""applicationData":"\#(expectedData)""#
            return """
                {"token":{"paymentData":{"version":"EC_v1","data":"\(data)","signature":"BAUG","header":{\
                "ephemeralPublicKey":"AQID","publicKeyHash":"Bw==","applicationData":"\(applicationData)",\
                "transactionId":"\(transactionId)"}},"paymentMethod":{},"transactionIdentifier":"x"},\
                "orderId":"order-1","expected":{"currencyCode":"840","transactionAmount":\(amount),\(expectation)}}
                """
        }

        var request: PaymentRequest { get throws { try PaymentRequest(parsing: Array(json.utf8), of: .applePay) } }
    }

    private static let others = [
        Submission(data: "AAECAwQ"), Submission(applicationData: "00FFab"),
        Submission(transactionId: String(repeating: "AB", count: 32)), Submission(amount: "1.099e3"),
        Submission(amount: "1099.00"), Submission(expectedData: "AQI"),
    ]

    @Test("computes the digests of earlier versions, which took texts literally, for the normal form")
    func normalForm() throws {
        let request = try Submission().request
        let token =
            #"["EC_v1","AAECAwQ=","BAUG","AQID",null,"Bw==","00ffab",""# + String(repeating: "ab", count: 32) + #""]"#
        #expect(request.tokenIdentity.digest.normal == Array(SHA256.hash(data: Data(token.utf8))))
        let wanted =
            #"["payment","order-1",true,{"currencyCode":"840","transactionAmount":1099,"applicationData":"AQI="}]"#
        #expect(request.digest(for: .payment).normal == Array(SHA256.hash(data: Data(wanted.utf8))))
        #expect(request.tokenIdentity.digest.original == request.tokenIdentity.digest.normal)
        #expect(request.digest(for: .payment).original == request.digest(for: .payment).normal)
    }

    @Test("keeps the digest of the normal form for other spellings, and changes it with the content")
    func spellings() throws {
        func digests(_ submission: Submission) throws -> [[UInt8]] {
            let request = try submission.request
            return [request.tokenIdentity.digest.normal, request.digest(for: .payment).normal]
        }
        let normal = try digests(Submission())
        for other in Self.others { #expect(try digests(other) == normal, "\(other.json)") }
        #expect(
            try digests(Submission(applicationData: "00FFab", hash: true))
                == digests(Submission(applicationData: "00ffab", hash: true)))
        for other in [
            Submission(data: "AAECAwU="), Submission(applicationData: "00ffac"), Submission(amount: "1099.5"),
            Submission(expectedData: "AQM="), Submission(data: "not base64"),
        ] { #expect(try digests(other) != normal, "\(other.json)") }
    }

    /// Stores the payment as an earlier version of the gateway did: under the digests of the payment token and the
    /// request exactly as the client spelled them.
    private func pay(_ submission: Submission, in store: any PaymentStore) async throws {
        let (request, now) = (try submission.request, Date())
        guard
            case .begun(let begun, _) = try await store.begin(
                PaymentArrival(
                    key: .init(client: "shop", tokenDigest: request.tokenIdentity.digest.original), purpose: .payment,
                    requestDigest: request.digest(for: .payment).original, orderId: "order-1", statedTransaction: nil,
                    attempt: PaymentAttempt(owner: "g", deadline: now)), at: now),
            case .claimed(let claimed) = try await store.claim(
                begun,
                PaymentTransaction(
                    identifier: request.tokenIdentity.transactionIdentifier,
                    merchantIdentifier: DecryptingPaytokend.merchant,
                    amount: Amount(minorUnits: 1099, currency: try #require(Currency(letters: "USD"))),
                    processor: "acquirer"), as: .submitting, nil, at: now)
        else { throw CancellationError() }
        _ = try await store.storeOutcome(claimed, as: .authorized, PaymentOutcome(authorizationCode: "0LDER"), at: now)
    }

    @Test("answers and never submits again payments that an earlier version stored in any spelling")
    func storedBefore() async throws {
        let gateway = try await PaymentGateway()
        for (number, stored) in ([Submission()] + Self.others).enumerated() {
            let name = Hexadecimal.encode((0..<32).map { _ in UInt8(number) })
            var (before, again) = (stored, Submission())
            (before.transactionId, again.transactionId) = (name, name)
            try await pay(before, in: gateway.store)
            for submission in [before, again]
            where try submission.request.digest(for: .payment).matches(
                before.request.digest(for: .payment).original)
            {
                let answer = try await gateway.ask(
                    "/payments/apple-pay", Array(submission.json.utf8), type: "application/json")
                #expect(answer.string("authorizationCode") == "0LDER", "\(submission.json): \(answer.text)")
            }
        }
        #expect(gateway.processor.submissions.current.isEmpty && gateway.paytokend.requests.current.isEmpty)
        await gateway.stop()
    }

    @Test("returns the first outcome to a client that spells its payment token and request differently")
    func askedAgain() async throws {
        let gateway = try await PaymentGateway()
        var first = Submission(amount: "1.099e3")
        first.data = "AAECAwQ"
        for submission in [first, Submission(), Submission(amount: "1099.0"), Submission(expectedData: "AQI")] {
            let answer = try await gateway.ask(
                "/payments/apple-pay", Array(submission.json.utf8), type: "application/json")
            #expect(answer.status == 200 && answer.string("status") == "authorized", "\(answer.text)")
        }
        #expect(gateway.processor.submissions.current.count == 1 && gateway.paytokend.requests.current.count == 1)
        await gateway.stop()
    }
}

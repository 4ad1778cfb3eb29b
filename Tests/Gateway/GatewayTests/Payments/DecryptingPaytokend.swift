import ConfigurationFile
import Crypto
import DaemonAPI
import Encodings
import Foundation
import Refusals
import StrictJSON
import TestSupport
import TokenForge

@testable import Gateway

/// paytokend's `POST /v1/decrypt` and `POST /v1/google-pay/decrypt` on a Unix socket. Every payment token of a wallet has
/// the same payment data.
final class DecryptingPaytokend: Sendable {
    static let merchant = "merchant.com.example.shop"
    static let googleMerchant = "BCR2DN4TEXAMPLE"

    /// The requests for Apple's merchant, in order.
    let requests = Shared<[DecryptRequest]>([])
    /// The requests of Google Pay, in order.
    let googleRequests = Shared<[GooglePayDecryptRequest]>([])
    /// The plaintext of Google Pay's messages.
    let googlePlaintext = Shared(GooglePayForge.plaintext(expiring: Date(timeIntervalSince1970: 4_000_000_000)))
    /// The response to every request; nil for the usual response.
    let refusal = Shared<(status: Int, code: String)?>(nil)
    /// Members of `expected` that the gateway's access rule requires.
    let required = Shared<[String]>([])
    /// The client header of each request for this merchant.
    let clients = Shared<[String?]>([])
    /// The number of releases whose responses are lost: the connection is closed instead.
    let losses = Shared(0)
    /// The last release of each transaction. paytokend repeats it only for the same reference, and only for an attempt
    /// that names the attempt of this release.
    let releases = Shared<[String: ReleaseMembers]>([:])
    /// The transaction and the merchant in every release, in place of the right ones.
    let wrong = Shared<(transaction: String?, merchant: String?)>((nil, nil))
    /// A latch that delays all responses while it is closed.
    let latch = Latch(isOpen: true)
    let server: SimulatedPaytokend

    private static let malformed = (status: 400, body: Array(#"{"code":"malformed_request","message":"No."}"#.utf8))

    init(at path: String, paymentData: [UInt8]) async throws {
        let (requests, refusal, latch, releases, required) = (requests, refusal, latch, releases, required)
        let (clients, losses, wrong) = (clients, losses, wrong)
        let (googleRequests, googlePlaintext) = (googleRequests, googlePlaintext)
        /// Releases a payment token, or returns the refusal. A status of 0 loses the answer.
        @Sendable func release(_ transaction: String, to common: ReleaseMembers) async -> (status: Int, body: [UInt8])?
        {
            await latch.pass()
            if let refusal = refusal.current {
                return (refusal.status, Array(#"{"code":"\#(refusal.code)","message":"Not this one."}"#.utf8))
            }
            let last = releases.current[transaction]
            let isRepeat = last?.attempt.map(common.after.contains) ?? false
            guard last == nil || isRepeat && last?.reference == common.reference else {
                return (409, Array(#"{"code":"transaction_replayed","message":"Not twice."}"#.utf8))
            }
            releases.change { $0[transaction] = common }
            guard losses.current > 0 else { return nil }
            losses.change { $0 -= 1 }
            return (0, [])
        }
        let answer: SimulatedPaytokend.Answer = { head, body in
            if head.uri == "/readyz" { return (200, []) }
            if head.uri == "/v1/google-pay/decrypt" {
                guard let request = try? GooglePayDecryptRequest(parsing: body) else { return Self.malformed }
                googleRequests.change { $0.append(request) }
                clients.change { $0.append(head.headers[ClientName.header].first) }
                let message = request.token.objectValue?["signedMessage"]?.stringValue ?? ""
                let transaction = Hexadecimal.encode(Array(SHA256.hash(data: Array(message.utf8))))
                if let refused = await release(transaction, to: request.common) { return refused }
                let released = GooglePayDecryptAnswer(
                    transactionId: wrong.current.transaction ?? transaction, messageId: "m",
                    authMethod: "CRYPTOGRAM_3DS",
                    merchantIdentifier: wrong.current.merchant ?? request.merchantIdentifier,
                    publicKeyHash: Base64.encode([UInt8](repeating: 7, count: 32)), protection: "A", repeated: false)
                return (200, released.json(paymentData: googlePlaintext.current))
            }
            guard let request = try? DecryptRequest(parsing: body),
                let header = request.token.objectValue?["paymentData"]?.objectValue?["header"]?.objectValue,
                let transaction = header["transactionId"]?.stringValue
            else { return Self.malformed }
            guard request.merchants?.contains(where: { MerchantPattern($0).matches(Self.merchant) }) ?? true else {
                return (403, Array(#"{"code":"forbidden","message":"Not theirs.","details":"merchants"}"#.utf8))
            }
            let missing = required.current.filter { request.expected?[$0] == nil }
            guard missing.isEmpty else {
                let lack = DecryptRequest.lacksExpected(missing)
                return (
                    400,
                    Array(
                        #"{"code":"malformed_request","message":"\#(lack.message)","details":"\#(lack.details ?? "")"}"#
                            .utf8)
                )
            }
            requests.change { $0.append(request) }
            clients.change { $0.append(head.headers[ClientName.header].first) }
            if let refused = await release(transaction, to: request.common) { return refused }
            let released = DecryptAnswer(
                transactionId: wrong.current.transaction ?? transaction,
                merchantIdentifier: wrong.current.merchant ?? Self.merchant,
                publicKeyHash: Base64.encode([UInt8](repeating: 7, count: 32)), version: "EC_v1",
                signingTime: Date(), protection: "A", checked: [], repeated: false,
                audit: AuditReference(node: "n", sequence: 1))
            return (200, released.json(paymentData: paymentData))
        }
        server = try await SimulatedPaytokend(at: path, answer)
    }
}

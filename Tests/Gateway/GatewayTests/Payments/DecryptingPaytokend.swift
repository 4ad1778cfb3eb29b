import ConfigurationFile
import DaemonAPI
import Encodings
import Foundation
import Refusals
import StrictJSON
import TestSupport

@testable import Gateway

/// paytokend's `POST /v1/decrypt` on a Unix socket. Every payment token has the same payment data.
final class DecryptingPaytokend: Sendable {
    static let merchant = "merchant.com.example.shop"

    /// The requests for this merchant, in order.
    let requests = Shared<[DecryptRequest]>([])
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
    let releases = Shared<[String: DecryptRequest]>([:])
    /// The transaction and the merchant in every release, in place of the right ones.
    let wrong = Shared<(transaction: String?, merchant: String?)>((nil, nil))
    /// A latch that delays all responses while it is closed.
    let latch = Latch(isOpen: true)
    let server: SimulatedPaytokend

    init(at path: String, paymentData: [UInt8]) async throws {
        let (requests, refusal, latch, releases, required) = (requests, refusal, latch, releases, required)
        let (clients, losses, wrong) = (clients, losses, wrong)
        let answer: SimulatedPaytokend.Answer = { head, body in
            if head.uri == "/readyz" { return (200, []) }
            guard let request = try? DecryptRequest(parsing: body),
                let header = request.token.objectValue?["paymentData"]?.objectValue?["header"]?.objectValue,
                let transaction = header["transactionId"]?.stringValue
            else { return (400, Array(#"{"code":"malformed_request","message":"No."}"#.utf8)) }
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
            await latch.pass()
            if let refusal = refusal.current {
                return (refusal.status, Array(#"{"code":"\#(refusal.code)","message":"Not this one."}"#.utf8))
            }
            let last = releases.current[transaction]
            let isRepeat = last?.common.attempt.map(request.common.after.contains) ?? false
            guard last == nil || isRepeat && last?.common.reference == request.common.reference else {
                return (409, Array(#"{"code":"transaction_replayed","message":"Not twice."}"#.utf8))
            }
            releases.change { $0[transaction] = request }
            if losses.current > 0 {
                losses.change { $0 -= 1 }
                return (0, [])
            }
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

import DaemonAPI
import Encodings
import Foundation
import NIOHTTP1
import Refusals
import TLSHandshake
import TestSupport

@testable import Gateway

/// paytokend's two endpoints for the role `session`, on a Unix socket, with keys in the tests' memory.
final class FakePaytokend: Sendable {
    private let server: SimulatedPaytokend
    private let asked = Shared<[String]>([])

    /// The method and target of each request.
    var requests: [String] { asked.current }
    /// The `traceparent` headers of each request; empty for a request without one.
    let traceparents = Shared<[[String]]>([])
    /// A latch that delays all responses while it is closed.
    let latch = Latch(isOpen: true)

    /// - Parameter refusal: the response to every request, if any.
    init(at path: String, _ key: SoftwareIdentities.Key, refusal: (status: Int, body: String)? = nil) async throws {
        let (asked, traceparents, latch) = (asked, traceparents, latch)
        let identities = SoftwareIdentities([SoftwareIdentities.merchantIdentifier: [key]])
        let answer: @Sendable (HTTPRequestHead, [UInt8]) async -> (Int, [UInt8]) = { head, body in
            asked.change { $0.append("\(head.method) \(head.uri)") }
            traceparents.change { $0.append(head.headers["traceparent"]) }
            await latch.pass()
            if let refusal { return (refusal.status, Array(refusal.body.utf8)) }
            do {
                guard head.method == .POST else {
                    return (200, try JSONCoding.encode(["items": [key.identity]]))
                }
                let request = try TLSSignatureRequest(parsing: body)
                guard let algorithm = TLSSignatureAlgorithm(rawValue: request.algorithm),
                    let input = Base64.decode(request.input)
                else { return (400, []) }
                let signature = try await identities.signature(
                    by: request.publicKeyHash, algorithm, over: input, for: SessionOrigin())
                return (
                    200,
                    try JSONCoding.encode(
                        TLSSignatureAnswer(
                            signature: Base64.encode(signature), audit: AuditReference(node: "n", sequence: 1)))
                )
            } catch { return (400, []) }
        }
        server = try await SimulatedPaytokend(at: path, answer)
    }
}

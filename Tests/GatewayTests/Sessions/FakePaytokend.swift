import DaemonAPI
import Encodings
import Foundation
import NIOCore
import NIOHTTP1
import NIOPosix
import Refusals
import TLSHandshake
import TestSupport

@testable import Gateway

/// paytokend's two endpoints of role `session`, over a Unix socket, with keys in the tests' memory.
final class FakePaytokend: Sendable {
    private let channel: any Channel
    private let asked = Shared<[String]>([])

    /// Method and target of each request.
    var requests: [String] { asked.current }
    /// The header of each request; empty where it had none.
    let traceparents = Shared<[[String]]>([])
    /// Closed, it holds the answers back.
    let latch = Latch(isOpen: true)

    /// - Parameter refusal: what every request is answered with, if anything.
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
        channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.configureHTTPServerPipeline()
                    try channel.pipeline.syncOperations.addHandler(Answerer(answer))
                }
            }
            .bind(unixDomainSocketPath: path).get()
    }

    deinit { channel.close(promise: nil) }

    private final class Answerer: ChannelInboundHandler {
        typealias InboundIn = HTTPServerRequestPart

        private let answer: @Sendable (HTTPRequestHead, [UInt8]) async -> (Int, [UInt8])
        private var head: HTTPRequestHead?
        private var body: [UInt8] = []

        init(_ answer: @escaping @Sendable (HTTPRequestHead, [UInt8]) async -> (Int, [UInt8])) { self.answer = answer }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            switch unwrapInboundIn(data) {
            case .head(let head): self.head = head
            case .body(let part): body += part.readableBytesView
            case .end:
                guard let head else { return }
                let (answer, body, channel) = (answer, body, context.channel)
                Task {
                    let (status, bytes) = await answer(head, body)
                    let head = HTTPResponseHead(
                        version: .http1_1, status: HTTPResponseStatus(statusCode: status),
                        headers: ["Content-Type": "application/json", "Content-Length": "\(bytes.count)"])
                    channel.write(HTTPServerResponsePart.head(head), promise: nil)
                    channel.write(HTTPServerResponsePart.body(.byteBuffer(ByteBuffer(bytes: bytes))), promise: nil)
                    channel.writeAndFlush(HTTPServerResponsePart.end(nil), promise: nil)
                }
            }
        }
    }
}

import Foundation
import Locks
import NIOCore
import NIOHTTP1
import NIOPosix
import TestSupport

/// A daemon that gives scripted answers over a Unix socket in a new directory, and keeps the requests that it receives.
final class FakeDaemon: Sendable {
    struct Asked: Sendable, Equatable {
        var method: String
        var target: String
        var contentType: String?
        var body: [UInt8]
    }

    struct Answer: Sendable {
        /// The event after the bytes of the body.
        enum Ending: Sendable {
            /// The body ends normally.
            case whole
            /// The daemon closes the connection before the body's end.
            case cut
            /// The connection stays open, and the body does not end.
            case open
        }

        var status: Int
        var contentType = "application/json"
        var headers: [(name: String, value: String)] = []
        var body: [UInt8]
        /// True if the daemon sends the body in chunks, without its length.
        var isStreamed = false
        var ending = Ending.whole

        static func ok(_ body: String) -> Self { Self(status: 200, body: Array(body.utf8)) }
        static func refusal(_ status: Int, _ code: String, _ message: String, details: String? = nil) -> Self {
            let details = details.map { #","details":"\#($0)""# } ?? ""
            return Self(status: status, body: Array(#"{"code":"\#(code)","message":"\#(message)"\#(details)}"#.utf8))
        }
        static func stream(
            _ body: [UInt8], _ contentType: String = "application/jsonl", ending: Ending = .whole,
            headers: [(name: String, value: String)] = []
        ) -> Self {
            Self(
                status: 200, contentType: contentType, headers: headers, body: body, isStreamed: true, ending: ending)
        }
    }

    let directory: FreshDirectory
    var path: String { directory.path("s") }
    private let channel: any Channel
    private let log: Log

    /// - Parameter answers: the answer to each request, with keys such as `GET /v1/status`.
    init(_ answers: [String: Answer]) async throws {
        let directory = try FreshDirectory()
        let log = Log()
        self.directory = directory
        self.log = log
        channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.configureHTTPServerPipeline()
                    try channel.pipeline.syncOperations.addHandler(Handler(answers: answers, log: log))
                }
            }
            .bind(unixDomainSocketPath: directory.path("s")).get()
    }

    deinit { channel.close(promise: nil) }

    var asked: [Asked] { log.asked.withLock { $0 } }

    private final class Log: Sendable {
        let asked = Mutex<[Asked]>([])
    }

    private final class Handler: ChannelInboundHandler {
        typealias InboundIn = HTTPServerRequestPart
        typealias OutboundOut = HTTPServerResponsePart

        private let answers: [String: Answer]
        private let log: Log
        private var current = Asked(method: "", target: "", contentType: nil, body: [])

        init(answers: [String: Answer], log: Log) {
            self.answers = answers
            self.log = log
        }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            switch unwrapInboundIn(data) {
            case .head(let head):
                current = Asked(
                    method: head.method.rawValue, target: head.uri,
                    contentType: head.headers.first(name: "Content-Type"), body: [])
            case .body(let part): current.body += part.readableBytesView
            case .end:
                let asked = current
                log.asked.withLock { $0.append(asked) }
                let answer =
                    answers["\(asked.method) \(asked.target)"] ?? .refusal(404, "not_found", "There is no such thing.")
                send(answer, context)
            }
        }

        private func send(_ answer: Answer, _ context: ChannelHandlerContext) {
            var headers = HTTPHeaders(answer.headers.map { ($0.name, $0.value) })
            headers.add(name: "Content-Type", value: answer.contentType)
            if !answer.isStreamed { headers.add(name: "Content-Length", value: String(answer.body.count)) }
            let head = HTTPResponseHead(
                version: .http1_1, status: HTTPResponseStatus(statusCode: answer.status), headers: headers)
            context.write(wrapOutboundOut(.head(head)), promise: nil)
            context.write(wrapOutboundOut(.body(.byteBuffer(ByteBuffer(bytes: answer.body)))), promise: nil)
            switch answer.ending {
            case .whole: context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
            case .open: context.flush()
            case .cut:
                context.flush()
                context.close(promise: nil)
            }
        }
    }
}

import NIOCore
import NIOHTTP1
import NIOSSL
import NIOTLS
import OutgoingConnections

/// The end of a connection's pipeline: waits for TLS, then sends requests and gathers answers, each within its deadline and
/// its bounds. Whatever is unexpected closes the connection.
final class AppleExchange: ChannelInboundHandler {
    typealias InboundIn = HTTPClientResponsePart
    typealias OutboundOut = HTTPClientRequestPart

    /// Bytes of an answer's body; sessions have about 5,000.
    static let mostBodyBytes = 64 << 10

    private enum State {
        case handshaking
        case idle
        case waiting(EventLoopPromise<AppleAnswer>)
        case gathering(EventLoopPromise<AppleAnswer>, HTTPResponseHead)
        case closed
    }

    private let host: String
    private var state = State.handshaking
    private(set) var progress: SessionProgress
    private var body: [UInt8] = []
    private var identityWasAsked = false
    /// The first fault that was seen; what comes after it is its consequence.
    private var failure: SessionFailure?
    private var alarm: Scheduled<Void>?
    /// Hears once whether TLS stands, and is then let go. It gets the exchange from here: one that had it by itself would keep
    /// it for ever.
    var ready: (Result<AppleExchange, SessionFailure>) -> Void = { _ in }
    /// In front of TLS, and in front of the HTTP decoder.
    var counts: [AnswerByteCount] = []
    var serverName: ServerNameCheck?

    init(host: String, progress: SessionProgress) {
        self.host = host
        self.progress = progress
    }

    func handlerAdded(context: ChannelHandlerContext) {
        watch(context.channel)
    }

    /// The connection has ended, or never began.
    func handlerRemoved(context: ChannelHandlerContext) {
        alarm?.cancel()
        alarm = nil
        ready = { _ in }
    }

    private func report(_ result: Result<AppleExchange, SessionFailure>) {
        let ready = ready
        self.ready = { _ in }
        ready(result)
    }

    /// Has the connection closed at the session's deadline, with the step that was under way.
    private func watch(_ channel: any Channel) {
        alarm?.cancel()
        let exchange = NIOLoopBound(self, eventLoop: channel.eventLoop)
        alarm = channel.eventLoop.scheduleTask(deadline: progress.origin.deadline) {
            let exchange = exchange.value
            exchange.fail(.deadlineExceeded(step: exchange.progress.next), channel)
        }
    }

    func post(
        _ bytes: [UInt8], on channel: any Channel, _ progress: SessionProgress,
        _ answer: EventLoopPromise<AppleAnswer>
    ) {
        guard case .idle = state, channel.isActive else {
            answer.fail(failure ?? .connectionLost)
            return
        }
        state = .waiting(answer)
        self.progress = progress
        body = []
        for count in counts { count.begin() }
        watch(channel)
        let headers: HTTPHeaders = [
            "Host": host, "Content-Type": "application/json", "Content-Length": String(bytes.count),
            "Accept": "application/json", "User-Agent": "paytoken-gateway",
        ]
        let head = HTTPRequestHead(version: .http1_1, method: .POST, uri: AppleEndpoint.path, headers: headers)
        channel.write(HTTPClientRequestPart.head(head), promise: nil)
        channel.write(HTTPClientRequestPart.body(.byteBuffer(ByteBuffer(bytes: bytes))), promise: nil)
        channel.writeAndFlush(HTTPClientRequestPart.end(nil), promise: nil)
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        switch event {
        case IdentityKeyEvent.asked:
            // The server's certificate is verified before the client signs.
            identityWasAsked = true
            progress.reached(.tls)
        case IdentityKeyEvent.signed: progress.reached(.signature)
        case IdentityKeyEvent.failed(let failure):
            fail(SessionFailure(failure, during: progress.next), context.channel)
        case TLSUserEvent.handshakeCompleted:
            guard case .handshaking = state else { break }
            progress.reached(.tls)
            state = .idle
            alarm?.cancel()
            report(.success(self))
        default: break
        }
        context.fireUserInboundEventTriggered(event)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch (unwrapInboundIn(data), state) {
        case (.head(let head), .waiting(let answer)): begin(head, answer, context)
        case (.body(let part), .gathering):
            guard body.count + part.readableBytes <= Self.mostBodyBytes else {
                fail(.answerTooLarge, context.channel)
                return
            }
            body.append(contentsOf: part.readableBytesView)
        case (.end, .gathering(let answer, let head)): end(head, answer, context)
        default:
            // Bytes that nobody has asked for.
            fail(.notHTTP, context.channel)
        }
    }

    private func begin(
        _ head: HTTPResponseHead, _ answer: EventLoopPromise<AppleAnswer>, _ context: ChannelHandlerContext
    ) {
        for count in counts { count.headHasEnded() }
        // A body that ends with the connection cannot be told from one that was cut short.
        let length = head.headers.first(name: "content-length")
        let isChunked = head.headers[canonicalForm: "transfer-encoding"].last?.lowercased() == "chunked"
        if head.status.code == 200, length == nil, !isChunked { return fail(.unexpectedContent, context.channel) }
        if let length = length.flatMap({ Int($0) }), length > Self.mostBodyBytes {
            return fail(.answerTooLarge, context.channel)
        }
        state = .gathering(answer, head)
    }

    private func end(
        _ head: HTTPResponseHead, _ answer: EventLoopPromise<AppleAnswer>, _ context: ChannelHandlerContext
    ) {
        progress.reached(.answer)
        alarm?.cancel()
        state = .idle
        let isReusable = head.isKeepAlive && head.version == .http1_1
        let whole = AppleAnswer(
            status: Int(head.status.code), contentType: head.headers.first(name: "content-type"),
            retryAfter: head.headers.first(name: "retry-after").flatMap { Int($0) }.flatMap {
                (0...3600).contains($0) ? $0 : nil
            },
            body: body, isReusable: isReusable)
        body = []
        answer.succeed(whole)
        if !isReusable { context.close(promise: nil) }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        if error is AnswerByteCount.Exceeded { return fail(.answerTooLarge, context.channel) }
        if serverName?.isWrong == true { return fail(.serverNameWrong, context.channel) }
        fail(TLSFault.failure(error, identityWasAsked: identityWasAsked, during: phase), context.channel)
    }

    func channelInactive(context: ChannelHandlerContext) {
        fail(TLSFault.failure(nil, identityWasAsked: identityWasAsked, during: phase), context.channel)
        context.fireChannelInactive()
    }

    /// Ends the connection, and with it what is under way.
    func fail(_ failure: SessionFailure, _ channel: any Channel) {
        if self.failure == nil { self.failure = failure }
        let first = self.failure ?? failure
        alarm?.cancel()
        let was = state
        state = .closed
        switch was {
        case .handshaking: report(.failure(first))
        case .waiting(let answer), .gathering(let answer, _): answer.fail(first)
        case .idle, .closed: break
        }
        channel.close(promise: nil)
    }

    private var phase: TLSFault.Phase {
        switch state {
        case .handshaking: .handshake
        case .gathering: .answer
        case .idle, .waiting, .closed: .request
        }
    }
}

/// What an error of NIO and BoringSSL means for a session.
enum TLSFault {
    enum Phase {
        case handshake
        /// The request is on its way, and nothing of an answer has come.
        case request
        case answer
    }

    /// - Parameter error: nil where the connection just ended.
    static func failure(_ error: (any Error)?, identityWasAsked: Bool, during phase: Phase) -> SessionFailure {
        if let error = error as? SessionFailure { return error }
        switch error as? HTTPParserError {
        case nil: break
        case .invalidEOFState?: return .connectionLost
        case .headerOverflow?: return .answerTooLarge
        default: return .notHTTP
        }
        if (error as? NIOSSLExtraError) == .failedToValidateHostname { return .serverNameWrong }
        let reason = error.flatMap(reason)
        if reason == "CERTIFICATE_VERIFY_FAILED" { return .serverUntrusted }
        // In TLS 1.3 the client is ready before the server has looked at its certificate (RFC 8446 §2): what the server
        // thinks of it arrives while the request is on its way.
        if identityWasAsked, let reason, reason.contains("_ALERT_"), phase != .answer {
            return .identityRefusedInTLS(alert: reason)
        }
        guard phase == .handshake else { return .connectionLost }
        return .handshakeFailed(reason: reason ?? "the connection ended")
    }

    /// BoringSSL's name for the reason, out of `error:1000007d:SSL routines:OPENSSL_internal:CERTIFICATE_VERIFY_FAILED at …`.
    private static func reason(_ error: any Error) -> String? {
        let stack: NIOBoringSSLErrorStack
        switch error {
        case NIOSSLError.handshakeFailed(.sslError(let errors)), BoringSSLError.sslError(let errors): stack = errors
        default: return nil
        }
        guard let text = stack.first?.description else { return nil }
        let parts = text.split(separator: ":")
        guard let place = parts.firstIndex(of: "OPENSSL_internal"), place + 1 < parts.endIndex else { return nil }
        return String(parts[place + 1].prefix { $0.isASCII && ($0.isUppercase || $0.isNumber || $0 == "_") })
    }
}

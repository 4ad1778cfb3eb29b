import Foundation
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL
import NIOTLS
import OutgoingConnections
public import SecretMemory

/// What went wrong between the gateway and a processor; a fixed word for records and metrics.
public enum ExchangeFault: String, Error, Sendable, Equatable, CaseIterable {
    // Before the first byte.
    case nameNotResolved = "name_not_resolved"
    case notConnected = "not_connected"
    /// TLS failed, or the server's certificate is not trusted for its name.
    case handshakeFailed = "handshake_failed"
    case tooLate = "too_late"
    /// The request could not be put together: a defect, or what the processor cannot be told.
    case notWritten = "not_written"

    // After it.
    case connectionLost = "connection_lost"
    case noAnswerInTime = "no_answer_in_time"
    case answerTooLarge = "answer_too_large"
    case notHTTP = "not_http"
    /// A status or a body that the processor does not document.
    case answerNotUnderstood = "answer_not_understood"
    /// The answer has a card's account number where its documents promise a token. It is not kept.
    case accountNumberNotTokenized = "account_number_not_tokenized"
}

/// An answer, whole.
public struct ExchangeAnswer: Sendable {
    public let status: Int
    public let contentType: String?
    /// At most ``ProcessorExchange/mostAnswerBytes``.
    public let body: [UInt8]
}

/// One request on one new connection: no retry, no redirect, no reuse, so that it is certain whether a byte of it was sent.
public struct ProcessorExchange: Sendable {
    public static let mostAnswerBytes = 64 << 10

    public enum Result: Sendable {
        case answer(ExchangeAnswer)
        /// No byte of the request was written.
        case notSent(ExchangeFault)
        case unknown(ExchangeFault)
    }

    public let endpoint: ProcessorEndpoint
    /// With each request; may be secret.
    public let headers: [(name: String, value: String)]
    private let tls: NIOSSLContext?
    /// By which the endpoint's name is resolved.
    var names = HostNames.shared

    /// - Parameter trust: DER certificates of the roots instead of the system's.
    /// - Throws: NIOSSL's errors, where the roots cannot be read.
    public init(
        to endpoint: ProcessorEndpoint, headers: [(name: String, value: String)] = [], trust: [[UInt8]] = []
    ) throws {
        self.endpoint = endpoint
        self.headers = headers
        guard case .https = endpoint.place else {
            tls = nil
            return
        }
        var configuration = TLSConfiguration.makeClientConfiguration()
        configuration.restrictAlgorithms()
        // A server that goes on sending is not listened to for long.
        configuration.shutdownTimeout = .seconds(1)
        if !trust.isEmpty {
            configuration.trustRoots = .certificates(try trust.map { try NIOSSLCertificate(bytes: $0, format: .der) })
        }
        tls = try NIOSSLContext(configuration: configuration)
    }

    /// - Parameters:
    ///   - path: behind the endpoint's base path.
    ///   - body: nil for none.
    ///   - deadline: nothing is written after it, and no answer waited for.
    public func send(
        _ method: String, _ path: String, contentType: String = "application/json", body: borrowing SecretBytes,
        before deadline: ContinuousClock.Instant
    ) async -> Result {
        var head = HTTPRequestHead(
            version: .http1_1, method: HTTPMethod(rawValue: method), uri: endpoint.basePath + path)
        head.headers = ["Host": endpoint.hostHeader, "Connection": "close", "User-Agent": "paytoken-gateway"]
        var buffer = ByteBufferAllocator().buffer(capacity: body.count)
        unsafe body.withUnsafeBytes { unsafe _ = buffer.writeBytes($0) }
        if buffer.readableBytes > 0 {
            head.headers.add(name: "Content-Type", value: contentType)
            head.headers.add(name: "Content-Length", value: String(buffer.readableBytes))
        }
        head.headers.add(name: "Accept", value: contentType)
        for (name, value) in headers { head.headers.replaceOrAdd(name: name, value: value) }
        return await send(head, buffer, deadline)
    }

    private func send(
        _ head: HTTPRequestHead, _ body: ByteBuffer, _ deadline: ContinuousClock.Instant
    ) async -> Result {
        let left = ContinuousClock.now.duration(to: deadline)
        guard left > .zero else { return .notSent(.tooLate) }
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        let done = loop.makePromise(of: Result.self)
        // Nothing is in the pipeline while it connects: a name with several addresses is tried on several connections, of which
        // more than one may come to stand. Only the one that is chosen gets the request.
        let bootstrap = ClientBootstrap(group: loop).connectTimeout(TimeAmount(left)).resolver(names.resolver(on: loop))
        let connected =
            switch endpoint.place {
            case .https(let host, let port), .loopback(let host, let port): bootstrap.connect(host: host, port: port)
            case .unix(let path): bootstrap.connect(unixDomainSocketPath: path)
            }
        connected.whenFailure { error in
            let error = error as? NIOConnectionError
            let isName = error.map { $0.connectionErrors.isEmpty && ($0.dnsAError != nil || $0.dnsAAAAError != nil) }
            done.succeed(.notSent(isName == true ? .nameNotResolved : .notConnected))
        }
        connected.whenSuccess { channel in
            channel.eventLoop.execute { begin(head, body, on: channel, deadline, done) }
        }
        do { return try await done.futureResult.get() } catch { return .unknown(.connectionLost) }
    }

    /// On the event loop of a connection that stands.
    private func begin(
        _ head: HTTPRequestHead, _ body: ByteBuffer, on channel: any Channel, _ deadline: ContinuousClock.Instant,
        _ done: EventLoopPromise<Result>
    ) {
        let handler = SubmissionHandler(head, body, waitsForTLS: tls != nil, deadline: deadline, done)
        do {
            let pipeline = channel.pipeline.syncOperations
            if let tls, case .https(let host, _) = endpoint.place {
                // An IP address is verified as such, and sent as no name (RFC 6066 §3).
                let isAddress = (try? SocketAddress(ipAddress: host, port: 0)) != nil
                try pipeline.addHandler(AnswerByteCount.ofConnection())
                try pipeline.addHandler(NIOSSLClientHandler(context: tls, serverHostname: isAddress ? nil : host))
            }
            try pipeline.addHandler(handler.count)
            try pipeline.addHTTPClientHandlers()
            try pipeline.addHandler(handler)
        } catch {
            done.succeed(.notSent(.notWritten))
            channel.close(promise: nil)
        }
    }
}

/// Writes the request as soon as the connection, and TLS, stand, and gathers the answer.
private final class SubmissionHandler: ChannelInboundHandler {
    typealias InboundIn = HTTPClientResponsePart
    typealias OutboundOut = HTTPClientRequestPart

    private let head: HTTPRequestHead
    private let requestBody: ByteBuffer
    private let waitsForTLS: Bool
    private let deadline: ContinuousClock.Instant
    private let done: EventLoopPromise<ProcessorExchange.Result>
    /// Goes in front of the HTTP decoder.
    let count = AnswerByteCount(mostBodyBytes: ProcessorExchange.mostAnswerBytes)
    private var isDone = false
    /// From just before the first byte is written.
    private var isSent = false
    private var answer: HTTPResponseHead?
    private var body: [UInt8] = []
    private var alarm: Scheduled<Void>?

    init(
        _ head: HTTPRequestHead, _ body: ByteBuffer, waitsForTLS: Bool, deadline: ContinuousClock.Instant,
        _ done: EventLoopPromise<ProcessorExchange.Result>
    ) {
        self.head = head
        requestBody = body
        self.waitsForTLS = waitsForTLS
        self.deadline = deadline
        self.done = done
    }

    func handlerAdded(context: ChannelHandlerContext) {
        let handler = NIOLoopBound(self, eventLoop: context.eventLoop)
        let channel = context.channel
        alarm = context.eventLoop.scheduleTask(in: TimeAmount(max(ContinuousClock.now.duration(to: deadline), .zero))) {
            handler.value.fail(handler.value.isSent ? .noAnswerInTime : .tooLate, channel)
        }
        guard context.channel.isActive else { return fail(.notConnected, context.channel) }
        if !waitsForTLS { write(context) }
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        alarm?.cancel()
        alarm = nil
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case TLSUserEvent.handshakeCompleted = event { write(context) }
        context.fireUserInboundEventTriggered(event)
    }

    private func write(_ context: ChannelHandlerContext) {
        guard !isDone, !isSent else { return }
        // The last look at the clock: from here on the payment counts as sent.
        guard ContinuousClock.now < deadline else { return fail(.tooLate, context.channel) }
        isSent = true
        context.write(wrapOutboundOut(.head(head)), promise: nil)
        if requestBody.readableBytes > 0 {
            context.write(wrapOutboundOut(.body(.byteBuffer(requestBody))), promise: nil)
        }
        context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head(let head):
            // An interim answer (RFC 9110 §15.2) is followed by the answer.
            if (100..<200).contains(head.status.code) { return }
            guard isSent, answer == nil else { return fail(.notHTTP, context.channel) }
            answer = head
            count.headHasEnded()
        case .body(let part):
            guard body.count + part.readableBytes <= ProcessorExchange.mostAnswerBytes else {
                return fail(.answerTooLarge, context.channel)
            }
            body.append(contentsOf: part.readableBytesView)
        case .end:
            guard let answer else { return }
            // Without a length an answer that was cut short looks whole.
            let isFramed =
                answer.headers.contains(name: "content-length")
                || answer.headers[canonicalForm: "transfer-encoding"].last?.lowercased() == "chunked"
            guard isFramed || body.isEmpty else { return fail(.notHTTP, context.channel) }
            finish(
                .answer(
                    ExchangeAnswer(
                        status: Int(answer.status.code), contentType: answer.headers.first(name: "content-type"),
                        body: body)), context.channel)
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        let fault: ExchangeFault
        switch error {
        case is AnswerByteCount.Exceeded, HTTPParserError.headerOverflow: fault = .answerTooLarge
        case HTTPParserError.invalidEOFState: fault = .connectionLost
        case is HTTPParserError: fault = .notHTTP
        default: fault = isSent ? .connectionLost : (waitsForTLS ? .handshakeFailed : .notConnected)
        }
        fail(fault, context.channel)
    }

    func channelInactive(context: ChannelHandlerContext) {
        fail(isSent ? .connectionLost : (waitsForTLS ? .handshakeFailed : .notConnected), context.channel)
        context.fireChannelInactive()
    }

    private func fail(_ fault: ExchangeFault, _ channel: any Channel) {
        finish(isSent ? .unknown(fault) : .notSent(fault), channel)
    }

    private func finish(_ result: ProcessorExchange.Result, _ channel: any Channel) {
        guard !isDone else { return }
        isDone = true
        alarm?.cancel()
        alarm = nil
        done.succeed(result)
        channel.close(promise: nil)
    }
}

package import NIOCore
import NIOHTTP1
import OutgoingConnections

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// A client of the daemon's Unix socket that opens a new connection for each request. ``UnixSocketConnection`` keeps one
/// connection for several requests.
///
/// The client does not retry, since only the sender of a request knows if it is safe to repeat. Several tasks may use it at
/// the same time, and no call blocks a thread.
public struct UnixSocketClient: Sendable {
    public let path: String
    /// The maximum size of an answer's body in bytes.
    public let maximumAnswerBytes: Int
    /// The maximum time for connecting, sending and receiving together.
    public let deadline: Duration
    /// Checks the process that listens on the socket, before the client sends anything to it. If this closure throws, the
    /// request fails with that error.
    package var checkPeer: @Sendable (any Channel) throws -> Void = { _ in }

    public init(path: String, maximumAnswerBytes: Int = 64 << 20, deadline: Duration = .seconds(30)) {
        self.path = path
        self.maximumAnswerBytes = maximumAnswerBytes
        self.deadline = deadline
    }

    /// Sends a request and returns the answer with its whole body. Use ``stream(_:idle:)`` for long answers.
    public func send(_ request: ClientRequest) async throws(UnixSocketClientError) -> ClientAnswer {
        ClientAnswer(try await answer(to: request, .gathered))
    }

    /// Sends a request whose answer may be long or endless.
    ///
    /// - Parameter idle: the maximum time to wait for the next bytes of the body; nil waits without limit. Until the
    ///   answer's head has arrived, ``deadline`` applies.
    public func stream(
        _ request: ClientRequest, idle: Duration? = .seconds(60)
    ) async throws(UnixSocketClientError) -> StreamedAnswer {
        let answer = try await answer(to: request, .streamed(idle: idle))
        return StreamedAnswer(
            status: answer.status, headers: answer.fields, body: AnswerBody(body: answer.body, client: self))
    }

    private func answer(
        to request: ClientRequest, _ delivery: HTTPRequest.Delivery
    ) async throws(UnixSocketClientError) -> HTTPResponse {
        var wire = request.httpRequest(accept: delivery.isStreamed ? "*/*" : "application/json")
        wire.head.headers.add(name: "Connection", value: "close")
        wire.delivery = delivery
        return try await connecting { [wire] destination, deadline in
            try await requiringFraming { () throws(HTTPFault) in try await destination.send(wire, before: deadline) }
        }
    }

    /// Calls `connect`, and calls it again while the socket's accept queue is full (EAGAIN on a non-blocking socket). The
    /// queue is full for a moment while the daemon starts or receives a burst of connections. A retry is safe, since
    /// nothing has been sent at that point.
    func connecting<Value>(
        _ connect: (HTTPDestination, ContinuousClock.Instant) async throws -> Value
    ) async throws(UnixSocketClientError) -> Value {
        let ends = ContinuousClock.now + deadline
        do {
            var destination = HTTPDestination(.unix(path), maximumBodyBytes: maximumAnswerBytes)
            destination.prepare = { [checkPeer] channel in
                channel.eventLoop.makeCompletedFuture { try checkPeer(channel) }
            }
            return try await Self.retryingWhileBusy { try await connect(destination, ends) }
        } catch { throw failure(of: error) }
    }

    static func retryingWhileBusy<Value>(_ connect: () async throws -> Value) async throws -> Value {
        for _ in 0..<10 {
            do { return try await connect() } catch let fault as HTTPFault where fault.errno == EAGAIN {
                try? await Task.sleep(for: .milliseconds(20))
            }
        }
        return try await connect()
    }

    /// Returns the answer; throws if its head does not determine where the body ends.
    func requiringFraming(_ answer: () async throws(HTTPFault) -> HTTPResponse) async throws -> HTTPResponse {
        let answer = try await answer()
        guard answer.isFramed else { throw UnixSocketClientError.notHTTP(path: path) }
        return answer
    }

    /// Translates an error of the connection into the error that callers receive.
    ///
    /// - Parameters:
    ///   - time: the time that the request had; nil for the client's own deadline.
    ///   - hasServed: true for a request on a connection that has already delivered an answer.
    func failure(of error: any Error, after time: Duration? = nil, hasServed: Bool = false) -> UnixSocketClientError {
        guard let fault = error as? HTTPFault else { return cannotConnect(error) }
        switch fault.cause {
        case .late: return .deadlineExceeded(path: path, after: time ?? deadline)
        case .silent(let time): return .silent(path: path, for: time)
        case .tooLarge: return .answerTooLarge(limit: maximumAnswerBytes)
        case .notHTTP: return .notHTTP(path: path)
        case .ended:
            // The daemon may have closed the idle connection before the request reached it.
            let isUnanswered = fault.phase == .idle || hasServed && fault.phase == .asked
            return isUnanswered ? .closed(path: path) : .cutShort(path: path)
        case .nameNotResolved: return .notThere(path: path)
        case .error(let error): return cannotConnect(error)
        }
    }

    private func cannotConnect(_ error: any Error) -> UnixSocketClientError {
        if let known = error as? UnixSocketClientError { return known }
        if case SocketAddressError.unixDomainSocketPathTooLong = error { return .pathTooLong(path: path) }
        return switch (error as? IOError)?.errnoCode {
        case ENOENT, ENOTDIR: .notThere(path: path)
        case ECONNREFUSED, ENOTSOCK: .notListening(path: path)
        case EAGAIN: .busy(path: path)
        case EACCES, EPERM: .notPermitted(path: path)
        case nil: .cannotConnect(path: path, error: String(describing: type(of: error)))
        default: .cannotConnect(path: path, error: "\(error)")
        }
    }
}

extension HTTPFault {
    /// The errno of connect(2); nil if the fault is any other.
    fileprivate var errno: CInt? {
        if phase == .connecting, case .error(let error as IOError) = cause { error.errnoCode } else { nil }
    }
}

extension HTTPRequest.Delivery {
    fileprivate var isStreamed: Bool { if case .streamed = self { true } else { false } }
}

extension HTTPResponse {
    fileprivate var fields: [(name: String, value: String)] { head.headers.map { (name: $0.name, value: $0.value) } }
}

extension ClientRequest {
    /// Returns the HTTP request to send. Cancelling the task that waits for the answer also ends the exchange.
    func httpRequest(accept: String) -> HTTPRequest {
        var headers: HTTPHeaders = ["Host": "localhost", "Accept": accept]
        if body != nil { headers.add(name: "Content-Type", value: "application/json") }
        if let traceparent { headers.add(name: "traceparent", value: traceparent) }
        if let onBehalfOf { headers.add(name: ClientName.header, value: onBehalfOf.text) }
        var request = HTTPRequest(
            HTTPMethod(rawValue: method), target, headers, body: body.map { ByteBuffer(bytes: $0) })
        request.endsWithTask = true
        return request
    }
}

extension ClientAnswer {
    init(_ answer: HTTPResponse) {
        self.init(status: answer.status, headers: answer.fields, body: answer.bytes)
    }
}

/// A request to the daemon.
public struct ClientRequest: Sendable, Equatable {
    public var method: String
    /// The path and query, percent-encoded as they are sent: `/v1/keys?limit=10`.
    public var target: String
    /// The JSON body, sent with `Content-Type: application/json`; nil if the request has no body.
    public var body: [UInt8]?
    /// The value of the `traceparent` header (W3C Trace Context §3.2), which links this request to the one that caused it.
    /// Nil sends no such header.
    public var traceparent: String?
    /// The client for which the caller sends the request; nil if the caller sends it for itself.
    public var onBehalfOf: ClientName?

    public init(
        method: String, target: String, body: [UInt8]? = nil, traceparent: String? = nil, onBehalfOf: ClientName? = nil
    ) {
        self.method = method
        self.target = target
        self.body = body
        self.traceparent = traceparent
        self.onBehalfOf = onBehalfOf
    }

    public static func get(_ target: String) -> Self { Self(method: "GET", target: target) }
    public static func post(_ target: String, body: [UInt8]) -> Self {
        Self(method: "POST", target: target, body: body)
    }
}

/// The status and header fields of an answer, whether its body is whole or streamed.
public protocol AnswerHead: Sendable {
    var status: Int { get }
    /// The header fields in the order and spelling in which they arrived.
    var headers: [(name: String, value: String)] { get }
}

extension AnswerHead {
    /// True for a status from 200 to 299.
    public var isSuccess: Bool { (200..<300).contains(status) }

    /// Returns the value of the first header field with that name, compared without regard to case; nil if there is none.
    public func header(_ name: String) -> String? {
        headers.first { $0.name.lowercased() == name.lowercased() }?.value
    }
}

/// An answer with its whole body.
public struct ClientAnswer: AnswerHead {
    public let status: Int
    public let headers: [(name: String, value: String)]
    public let body: [UInt8]

    public init(status: Int, headers: [(name: String, value: String)], body: [UInt8]) {
        self.status = status
        self.headers = headers
        self.body = body
    }

    /// Decodes the body as one of this module's types.
    public func decoded<T: Decodable>(as type: T.Type) throws -> T {
        try JSONCoding.decode(type, from: body)
    }

    /// The refusal in the body; nil on success, or if the body is not a refusal of this API.
    public var refusal: RefusalAnswer? {
        isSuccess ? nil : try? decoded(as: RefusalAnswer.self)
    }
}

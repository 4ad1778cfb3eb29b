package import NIOCore
import NIOHTTP1
import NIOPosix

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Asks the daemon one thing over its Unix socket: one connection, one request, one answer.
///
/// There is no retry: whether a request may be repeated is its sender's to know. Any task may call it, and several at
/// once; nothing blocks.
public struct UnixSocketClient: Sendable {
    public let path: String
    /// Bytes of a body that are taken at most.
    public let maximumAnswerBytes: Int
    /// For connecting, sending and receiving together.
    public let deadline: Duration
    /// Checks the process behind the socket before anything is sent to it; a request fails with what this throws.
    package var checkPeer: @Sendable (any Channel) throws -> Void = { _ in }

    public init(path: String, maximumAnswerBytes: Int = 64 << 20, deadline: Duration = .seconds(30)) {
        self.path = path
        self.maximumAnswerBytes = maximumAnswerBytes
        self.deadline = deadline
    }

    /// Asks for what is short: the answer comes whole.
    public func send(_ request: ClientRequest) async throws(UnixSocketClientError) -> ClientAnswer {
        let answer = try await exchange(request, .gathered)
        guard case .whole(let body) = answer.body.source else { throw .cutShort(path: path) }
        return ClientAnswer(status: answer.status, headers: answer.headers, body: body)
    }

    /// Asks for what may be long, or have no end.
    ///
    /// - Parameter idle: how long nothing may come of the body while it is waited for; nil waits for ever. Until the
    ///   answer's head has come, ``deadline`` counts.
    public func stream(
        _ request: ClientRequest, idle: Duration? = .seconds(60)
    ) async throws(UnixSocketClientError) -> StreamedAnswer {
        try await exchange(request, .streamed(idle: idle))
    }

    private func exchange(
        _ request: ClientRequest, _ delivery: Exchange.Delivery
    ) async throws(UnixSocketClientError) -> StreamedAnswer {
        do {
            return try await Exchange(client: self, request: request, delivery: delivery).run()
        } catch {
            throw failure(of: error)
        }
    }

    /// What an error of NIO or of connect(2) means here.
    func failure(of error: any Error) -> UnixSocketClientError {
        switch error {
        case let error as UnixSocketClientError: return error
        case SocketAddressError.unixDomainSocketPathTooLong: return .pathTooLong(path: path)
        case let error as IOError:
            switch error.errnoCode {
            case ENOENT, ENOTDIR: return .notThere(path: path)
            case ECONNREFUSED, ENOTSOCK: return .notListening(path: path)
            case EAGAIN: return .busy(path: path)
            case EACCES, EPERM: return .notPermitted(path: path)
            case ECONNRESET, EPIPE: return .cutShort(path: path)
            default: return .cannotConnect(path: path, error: error.description)
            }
        case HTTPParserError.invalidEOFState: return .cutShort(path: path)
        case is HTTPParserError, is NIOHTTPDecoderError: return .notHTTP(path: path)
        case ChannelError.connectTimeout: return .deadlineExceeded(path: path, after: deadline)
        case is ChannelError: return .cutShort(path: path)
        default: return .cannotConnect(path: path, error: String(describing: type(of: error)))
        }
    }
}

/// What is asked.
public struct ClientRequest: Sendable, Equatable {
    public var method: String
    /// Path and query, percent-encoded as they go on the wire: `/v1/keys?limit=10`.
    public var target: String
    /// Sent with `Content-Type: application/json`; nil for none.
    public var body: [UInt8]?
    /// The header of that name (W3C Trace Context §3.2), for a request on behalf of another; nil for none.
    public var traceparent: String?
    /// The client for which the caller asks; nil for itself.
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

/// What every answer begins with, whether its body comes whole or in pieces.
public protocol AnswerHead: Sendable {
    var status: Int { get }
    /// In the order and spelling of the wire.
    var headers: [(name: String, value: String)] { get }
}

extension AnswerHead {
    /// 200 to 299.
    public var isSuccess: Bool { (200..<300).contains(status) }

    /// The first header of that name, in any case.
    public func header(_ name: String) -> String? {
        headers.first { $0.name.lowercased() == name.lowercased() }?.value
    }
}

/// What came back.
public struct ClientAnswer: AnswerHead {
    public let status: Int
    public let headers: [(name: String, value: String)]
    public let body: [UInt8]

    public init(status: Int, headers: [(name: String, value: String)], body: [UInt8]) {
        self.status = status
        self.headers = headers
        self.body = body
    }

    /// The body as one of this module's types.
    public func decoded<T: Decodable>(as type: T.Type) throws -> T {
        try JSONCoding.decode(type, from: body)
    }

    /// The refusal in the body; nil on success, or when the body is none of ours.
    public var refusal: RefusalAnswer? {
        isSuccess ? nil : try? decoded(as: RefusalAnswer.self)
    }
}

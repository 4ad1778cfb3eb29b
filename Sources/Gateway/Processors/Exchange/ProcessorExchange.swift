import HostSystem
import Locks
import NIOCore
import NIOHTTP1
import NIOSSL
import OutgoingConnections
public import SecretMemory

// Unsafe: The secret's pointer is used only within the closure, in which the buffer copies the bytes.

/// A fault in an exchange with a processor. Payment records and metrics contain the raw value, so it must not change.
public enum ExchangeFault: String, Error, Sendable, Equatable, CaseIterable {
    // Faults before the first byte of the request is sent: the cases down to `notWritten`.
    case nameNotResolved = "name_not_resolved"
    case notConnected = "not_connected"
    /// TLS failed, or the server's certificate is not trusted for its name.
    case handshakeFailed = "handshake_failed"
    case tooLate = "too_late"
    /// The request could not be created, because of a defect or of a value that the processor does not accept.
    case notWritten = "not_written"

    // Faults after the first byte is sent: all following cases.
    case connectionLost = "connection_lost"
    case noAnswerInTime = "no_answer_in_time"
    case answerTooLarge = "answer_too_large"
    case notHTTP = "not_http"
    /// The answer has a status or a body that the processor does not document.
    case answerNotUnderstood = "answer_not_understood"
    /// The answer contains a card's account number where the processor's documentation promises a substitute. The
    /// gateway does not keep the number.
    case accountNumberNotTokenized = "account_number_not_tokenized"
}

/// A complete HTTP response.
public struct ExchangeAnswer: Sendable {
    public let status: Int
    public let contentType: String?
    /// The body, of at most ``ProcessorExchange/maximumAnswerBytes`` bytes.
    public let body: [UInt8]
}

/// Sends each request on a new connection, without retries or redirects. It is then certain whether any byte was sent.
public struct ProcessorExchange: Sendable {
    public static let maximumAnswerBytes = 64 << 10
    /// The time after the deadline during which the exchange still waits for an answer.
    static let listening = Duration.seconds(60)

    public enum Result: Sendable {
        case answer(ExchangeAnswer)
        /// No byte of the request was written.
        case notSent(ExchangeFault)
        case unknown(ExchangeFault)
    }

    public let endpoint: ProcessorEndpoint
    /// The additional headers of each request. Their values may be secret.
    public let headers: [(name: String, value: String)]
    private let tls: NIOSSLContext?
    /// The resolver for the endpoint's host name.
    var names = HostNames.shared

    /// - Parameter trust: root certificates in DER that replace the system's; empty to use the system's.
    /// - Throws: NIOSSL's errors if the root certificates cannot be read.
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
        // A server that continues to send delays the close for one second at most.
        configuration.shutdownTimeout = .seconds(1)
        if !trust.isEmpty {
            configuration.trustRoots = .certificates(try trust.map { try NIOSSLCertificate(bytes: $0, format: .der) })
        }
        tls = try NIOSSLContext(configuration: configuration)
    }

    /// Sends a GET request, which submits no payment.
    public func get(_ path: String, before deadline: ContinuousClock.Instant) async -> Result {
        await send(request(.GET, path, "application/json", body: nil), before: deadline)
    }

    /// Submits a payment.
    ///
    /// - Parameters:
    ///   - path: the path after the endpoint's base path.
    ///   - deadline: the time after which nothing is written. If there is no answer by then, the outcome is unknown,
    ///     and the exchange waits another minute for the answer.
    ///   - late: a function that receives the outcome of an answer in that further minute. It is called at most once.
    ///   - read: a function that converts an answer to an outcome.
    public func submit(
        to path: String, contentType: String = "application/json", body: borrowing SecretBytes,
        before deadline: ContinuousClock.Instant, late: @escaping LateOutcome,
        read: @escaping @Sendable (ExchangeAnswer) -> SubmissionOutcome
    ) async -> SubmissionOutcome {
        var bytes = ByteBufferAllocator().buffer(capacity: body.count)
        unsafe body.withUnsafeBytes { unsafe _ = bytes.writeBytes($0) }
        var request = request(.POST, path, contentType, body: bytes)
        return await withCheckedContinuation { continuation in
            let first = FirstOutcome(continuation)
            request.atDeadline = {
                guard LateAnswerConnections.shared.enter() else { return .zero }
                first.give(.unknown(.noAnswerInTime))
                return Self.listening
            }
            Task.onSameExecutor { [request] in
                let outcome: SubmissionOutcome =
                    switch await send(request, before: deadline) {
                    case .notSent(let fault): .notSent(fault)
                    case .unknown(let fault): .unknown(fault)
                    case .answer(let answer): read(answer)
                    }
                guard !first.give(outcome) else { return }
                await late(outcome)
                LateAnswerConnections.shared.leave()
            }
        }
    }

    private func request(_ method: HTTPMethod, _ path: String, _ contentType: String, body: ByteBuffer?) -> HTTPRequest
    {
        var fields: HTTPHeaders = [
            "Host": endpoint.hostHeader, "Connection": "close", "User-Agent": "paytoken-gateway", "Accept": contentType,
        ]
        if body != nil { fields.add(name: "Content-Type", value: contentType) }
        for (name, value) in headers { fields.replaceOrAdd(name: name, value: value) }
        return HTTPRequest(method, endpoint.basePath + path, fields, body: body)
    }

    private func send(_ request: HTTPRequest, before deadline: ContinuousClock.Instant) async -> Result {
        guard ContinuousClock.now < deadline else { return .notSent(.tooLate) }
        let answer: HTTPResponse
        do throws(HTTPFault) {
            answer = try await destination().send(request, before: deadline)
        } catch {
            return error.phase < .asked ? .notSent(fault(error)) : .unknown(fault(error))
        }
        guard answer.isFramed else { return .unknown(.notHTTP) }
        return .answer(
            ExchangeAnswer(
                status: answer.status, contentType: answer.head.headers.first(name: "content-type"), body: answer.bytes)
        )
    }

    private func destination() -> HTTPDestination {
        let place: HTTPDestination.Place =
            switch endpoint.place {
            case .https(let host, let port), .loopback(let host, let port): .host(host, port: port)
            case .unix(let path): .unix(path)
            }
        var destination = HTTPDestination(place, maximumBodyBytes: Self.maximumAnswerBytes)
        destination.names = names
        if let tls, case .https(let host, _) = endpoint.place {
            // TLS must not send an IP address as the server name (RFC 6066 §3). The certificate is still verified for
            // the address.
            let isAddress = (try? SocketAddress(ipAddress: host, port: 0)) != nil
            destination.tls = { [try NIOSSLClientHandler(context: tls, serverHostname: isAddress ? nil : host)] }
        }
        return destination
    }

    private func fault(_ fault: HTTPFault) -> ExchangeFault {
        switch fault.cause {
        case .nameNotResolved: .nameNotResolved
        case .late where fault.phase == .connecting: .notConnected
        case .late: fault.phase < .asked ? .tooLate : .noAnswerInTime
        case .tooLarge: .answerTooLarge
        case .notHTTP: .notHTTP
        case .ended, .error, .silent:
            switch fault.phase {
            case .connecting, .idle: .notConnected
            case .securing: .handshakeFailed
            case .asked, .answering: .connectionLost
            }
        }
    }
}

/// Gives a waiting caller the first of several outcomes.
private final class FirstOutcome: Sendable {
    private let waiting: Mutex<CheckedContinuation<SubmissionOutcome, Never>?>

    init(_ continuation: CheckedContinuation<SubmissionOutcome, Never>) { waiting = Mutex(continuation) }

    /// Gives the outcome to the caller. Returns false if the caller already has an outcome.
    @discardableResult
    func give(_ outcome: SubmissionOutcome) -> Bool {
        let continuation = waiting.withLock { waiting in
            defer { waiting = nil }
            return waiting
        }
        continuation?.resume(returning: outcome)
        return continuation != nil
    }
}

/// Limits the number of connections that wait for late answers. Each connection has a descriptor and keeps a payment's
/// data in memory.
private final class LateAnswerConnections: Sendable {
    static let shared = LateAnswerConnections()
    private static let most = 1000
    private let count = Mutex(0)

    func enter() -> Bool {
        count.withLock { count in
            guard count < Self.most else { return false }
            count += 1
            return true
        }
    }

    func leave() { count.withLock { $0 -= 1 } }
}

import Locks
import NIOCore
import NIOHTTP1
import NIOSSL
import OutgoingConnections

/// A TLS connection to Apple's host with one merchant's identity, for consecutive requests.
final class AppleConnection: KeptConnection {
    let http: HTTPConnection
    private let handshake: AppleHandshake
    private let host: String

    /// The size limit of a response body; a session has about 5,000 bytes.
    private static let maximumBodyBytes = 64 << 10

    private init(_ http: HTTPConnection, _ handshake: AppleHandshake, host: String) {
        self.http = http
        self.handshake = handshake
        self.host = host
    }

    /// Opens a connection to Apple's host. Makes only one attempt, which ends at the session's deadline.
    static func open(
        to endpoint: AppleEndpoint, as tls: IdentityTLS, _ progress: SessionProgress
    ) async throws(SessionFailure) -> AppleConnection {
        let place: HTTPDestination.Place =
            switch endpoint.route {
            case .direct: .host(endpoint.host.name, port: 443)
            case .proxy(let proxy): .host(proxy.host, port: proxy.port)
            case .testServer(let loopback): .address(loopback)
            }
        var destination = HTTPDestination(place, maximumBodyBytes: maximumBodyBytes)
        destination.names = endpoint.names
        if case .proxy = endpoint.route {
            destination.prepare = { ProxyTunnel.made(to: endpoint.host.name, on: $0) }
        }
        let handshake = AppleHandshake(progress)
        destination.tls = {
            progress.reached(.connection)
            return [try ServerNameCheck(endpoint.host.name, handshake).tls(tls.context), handshake]
        }
        do {
            let http = try await destination.connect(before: progress.deadline)
            progress.reached(.tls)
            return AppleConnection(http, handshake, host: endpoint.host.name)
        } catch {
            throw handshake.failure(error, progress)
        }
    }

    /// Sends one request, without repeating it. No other request may be in progress on the connection.
    func post(_ body: [UInt8], _ progress: SessionProgress) async throws(SessionFailure) -> HTTPResponse {
        let request = HTTPRequest(
            .POST, AppleEndpoint.path,
            [
                "Host": host, "Content-Type": "application/json", "Accept": "application/json",
                "User-Agent": "paytoken-gateway",
            ], body: ByteBuffer(bytes: body))
        do {
            let answer = try await http.send(request, before: progress.deadline)
            progress.reached(.answer)
            return answer
        } catch {
            throw handshake.failure(error, progress)
        }
    }

    func isAlive() async -> Bool { await http.isAlive() }
}

/// Records the progress of one connection's handshake. It is a handler in the connection's pipeline, where
/// ``IdentityKey`` finds it.
final class AppleHandshake: ChannelInboundHandler, Sendable {
    typealias InboundIn = Any

    /// The progress of the session for which the connection is made.
    let progress: SessionProgress
    private let marks = Mutex((identityWasAsked: false, serverNameIsWrong: false))

    init(_ progress: SessionProgress) { self.progress = progress }

    /// Records that the server's certificate was verified, and that the server requests the merchant's certificate.
    func recordIdentityRequest() {
        marks.withLock { $0.identityWasAsked = true }
        progress.reached(.tls)
    }

    /// Records that the server's certificate is trusted but is for a different name.
    func recordWrongServerName() { marks.withLock { $0.serverNameIsWrong = true } }

    /// Returns the session's failure for a fault of the connection.
    ///
    /// - Parameter progress: the progress of the session that uses the connection now. An earlier session may have
    ///   opened it.
    func failure(_ fault: HTTPFault, _ progress: SessionProgress) -> SessionFailure {
        let (identityWasAsked, serverNameIsWrong) = marks.withLock { $0 }
        switch fault.cause {
        case .late: return .deadlineExceeded(step: fault.phase == .connecting ? .connection : progress.next)
        case .nameNotResolved: return .nameNotResolved
        case .tooLarge: return .answerTooLarge
        case .notHTTP: return .notHTTP
        case _ where serverNameIsWrong: return .serverNameWrong
        case .error(ProxyTunnel.Failure.refused(let status)): return .proxyRefused(status: status)
        case .error(ProxyTunnel.Failure.connectionLost): return .notConnected
        case .error(let error as IdentityFailure): return SessionFailure(error, during: progress.next)
        case _ where fault.phase == .connecting: return .notConnected
        case .error(let error as NIOSSLExtraError) where error == .failedToValidateHostname: return .serverNameWrong
        case .error(let error):
            let reason = Self.reason(error)
            if reason == "CERTIFICATE_VERIFY_FAILED" { return .serverUntrusted }
            // In TLS 1.3, the client finishes its handshake before the server has checked the client's certificate (RFC
            // 8446 §2), so the server's refusal arrives after the request was sent.
            if identityWasAsked, let reason, reason.contains("_ALERT_"), fault.phase != .answering {
                return .identityRefusedInTLS(alert: reason)
            }
            return lost(fault, reason)
        case .ended, .silent: return lost(fault, nil)
        }
    }

    private func lost(_ fault: HTTPFault, _ reason: String?) -> SessionFailure {
        fault.phase > .securing ? .connectionLost : .handshakeFailed(reason: reason ?? "the connection ended")
    }

    /// Returns BoringSSL's name of the error, such as `CERTIFICATE_VERIFY_FAILED` for the description
    /// `error:1000007d:SSL routines:OPENSSL_internal:CERTIFICATE_VERIFY_FAILED at …`.
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

extension SessionProgress {
    /// The session's deadline as an instant of the clock that also advances while this host sleeps.
    fileprivate var deadline: ContinuousClock.Instant {
        .now + .nanoseconds((origin.deadline - .now()).nanoseconds)
    }
}

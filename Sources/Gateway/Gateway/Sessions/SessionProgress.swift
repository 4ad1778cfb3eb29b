import Locks
package import NIOCore

/// The context of a session's requests to paytokend: the client, the trace and the deadline.
package struct SessionOrigin: Sendable {
    /// The client of the gateway; nil for the gateway's own requests.
    package let client: String?
    /// The trace that each request continues (W3C Trace Context §3.2); nil if there is no trace.
    package let traceparent: String?
    /// The session's deadline.
    package let deadline: NIODeadline

    package init(client: String? = nil, traceparent: String? = nil, deadline: NIODeadline = .distantFuture) {
        self.client = client
        self.traceparent = traceparent
        self.deadline = deadline
    }
}

/// One session's origin, and its progress through the steps. A failure and a check report the step that was in
/// progress.
final class SessionProgress: Sendable {
    let origin: SessionOrigin
    private let last = Mutex<SessionStep?>(nil)

    init(_ origin: SessionOrigin) { self.origin = origin }

    func reached(_ step: SessionStep) {
        last.withLock { last in
            if (last?.position ?? -1) < step.position { last = step }
        }
    }

    /// The last step that was completed.
    var done: SessionStep? { last.withLock { $0 } }

    /// The step that is in progress.
    var next: SessionStep {
        let position = (done?.position ?? -1) + 1
        return position < SessionStep.allCases.count ? SessionStep.allCases[position] : .answer
    }
}

extension SessionStep {
    var position: Int { Self.allCases.firstIndex(of: self) ?? 0 }
}

extension SessionFailure {
    /// The step at which the failure happened; nil if this failure can happen at several steps.
    var step: SessionStep? {
        switch self {
        case .noActiveIdentity, .identityNotYetValid, .identityExpired: .identity
        case .nameNotResolved: .name
        case .notConnected, .proxyRefused, .tooManyConnections: .connection
        case .serverUntrusted, .serverNameWrong, .handshakeFailed: .tls
        case .deadlineExceeded(let step): step
        case .identityRefusedInTLS, .connectionLost, .answerTooLarge, .notHTTP, .redirected, .mismatch,
            .identityRefused,
            .requestRefused, .tooManyRequests, .appleUnavailable, .unexpectedContent, .unexpectedStatus:
            .answer
        case .paytokend: nil
        }
    }
}

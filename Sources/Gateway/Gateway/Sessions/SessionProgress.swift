import Locks
package import NIOCore

/// The client on whose behalf paytokend is called, and the time until which a response is useful.
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

/// One session's origin and progress, which determine the text of a failure and of a check.
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
    /// The step at which the failure happened, if the failure itself determines it.
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

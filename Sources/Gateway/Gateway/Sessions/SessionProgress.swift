package import NIOCore
import Synchronization

/// The client on whose behalf paytokend is asked, and the time until which an answer is of use.
package struct SessionOrigin: Sendable {
    /// The client of the gateway; nil for the gateway's own questions.
    package let client: String?
    /// The trace that each question continues (W3C Trace Context §3.2); nil for none.
    package let traceparent: String?
    /// The session's deadline.
    package let deadline: NIODeadline

    package init(client: String? = nil, traceparent: String? = nil, deadline: NIODeadline = .distantFuture) {
        self.client = client
        self.traceparent = traceparent
        self.deadline = deadline
    }
}

/// One session's origin and progress: for the words of a failure and of a check.
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

    /// The step that is under way.
    var next: SessionStep {
        let position = (done?.position ?? -1) + 1
        return position < SessionStep.allCases.count ? SessionStep.allCases[position] : .answer
    }
}

extension SessionStep {
    var position: Int { Self.allCases.firstIndex(of: self) ?? 0 }
}

extension SessionFailure {
    /// The step at which the failure happened, if the failure alone says so.
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

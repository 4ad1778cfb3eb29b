import Foundation
import Locks
import Logging
import Telemetry

/// The metrics of merchant sessions, and warnings in the log if an operator has to act.
final class SessionMetrics: SessionObserver {
    /// The label `outcome` is `ok` or the refusal's code.
    private let sessions = Counter(
        "paytoken_gateway_sessions_total", help: "Merchant sessions requested from Apple.", labels: ["outcome"])
    private let sessionSeconds = Histogram(
        "paytoken_gateway_session_seconds", help: "Time from a session's request to Apple's answer.", bounds: latencies)
    private let handshakes = Counter(
        "paytoken_gateway_apple_handshakes_total", help: "TLS handshakes with Apple's host.", labels: ["outcome"])
    private let signatures = Counter(
        "paytoken_gateway_signatures_total", help: "Signatures of TLS handshakes requested from paytokend.",
        labels: ["outcome"])
    private let signatureSeconds = Histogram(
        "paytoken_gateway_signature_seconds", help: "Time until paytokend's answer with a signature.", bounds: latencies
    )
    /// The label `connection` is `new` or `reused`.
    private let requests = Counter(
        "paytoken_gateway_apple_requests_total", help: "Requests to Apple's host, by the connection they went over.",
        labels: ["connection"])
    private let notAfter = Gauge(
        "paytoken_gateway_identity_not_after_seconds",
        help: "The expiry of the certificate last used to request a merchant's sessions, in seconds since 1970.",
        labels: ["merchant"])

    private let logger: Logger
    /// The times of the last warnings about merchants' certificates, by merchant identifier.
    private let warned = Mutex<[String: Date]>([:])

    init(logger: Logger) { self.logger = logger }

    func sessionEnded(outcome: String, after duration: Duration) {
        sessions.increment([outcome])
        sessionSeconds.observe(duration)
    }

    func handshakeEnded(outcome: String) { handshakes.increment([outcome]) }

    func signatureEnded(outcome: String, after duration: Duration) {
        signatures.increment([outcome])
        signatureSeconds.observe(duration)
    }

    func connectionTaken(isNew: Bool) { requests.increment([isNew ? "new" : "reused"]) }

    func identityUsed(merchantIdentifier: String, ends: Date, now: Date) {
        let left = ends.timeIntervalSince(now)
        notAfter.set([merchantIdentifier], to: ends.timeIntervalSince1970.rounded(.down))
        guard left < Self.warnsBefore else { return }
        let isDue = warned.withLock { warned in
            if let last = warned[merchantIdentifier], now.timeIntervalSince(last) < Self.day { return false }
            warned[merchantIdentifier] = now
            return true
        }
        guard isDue else { return }
        logger.warning(
            "The merchant's identity certificate expires soon. Rotate the identity key.",
            metadata: [
                "merchant": "\(merchantIdentifier)", "days_left": "\(Int((left / Self.day).rounded(.down)))",
            ])
    }

    private static let day: TimeInterval = 86_400
    /// The time before a certificate's expiry from which the log warns, once a day.
    private static let warnsBefore = 30 * day

    /// The bucket bounds in seconds, from a request on an open connection to the deadline of a session, 10 s.
    private static let latencies: [Double] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]
}

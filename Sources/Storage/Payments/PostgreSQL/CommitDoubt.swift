import Locks
import PostgreSQLClient

/// Tracks commits that the server has not acknowledged. The session of such a commit may wait on the server for an
/// unavailable standby, long after the gateway has dropped it.
///
/// After such a commit, the gateway commits no further change until a probe's commit is acknowledged. Otherwise each
/// change would leave one more waiting session on the server, until no program could connect. Only changes that were
/// already in progress, and the first probe, can leave a session each. Later probes wait for the first probe's lock and
/// send no commit.
final class CommitDoubt: Sendable {
    private struct State {
        var isOpen = false
        var isProbed = false
        var tried: ContinuousClock.Instant?
    }

    private let state = Mutex(State())
    private static let pause = Duration.milliseconds(500)

    var isOpen: Bool { state.withLock { $0.isOpen } }

    func began() { state.withLock { $0.isOpen = true } }

    /// Runs a probe if a commit is in doubt. If the server acknowledges the probe's commit without a warning, the doubt
    /// ends. Only one thread probes at a time. The next probe starts at least 500 ms after the start of a failed probe.
    ///
    /// - Returns: true if the probe ran; false if no commit is in doubt.
    /// - Throws: the probe's error; `unavailable` while another thread runs the probe, or during the pause.
    func resolve(in session: PostgreSQLPaymentSession, until deadline: ContinuousClock.Instant) throws -> Bool {
        let isMine: Bool? = state.withLock { state in
            guard state.isOpen else { return nil }
            guard !state.isProbed, state.tried.map({ $0 + Self.pause <= .now }) ?? true else { return false }
            (state.isProbed, state.tried) = (true, .now)
            return true
        }
        guard let isMine else { return false }
        guard isMine else {
            throw PaymentStoreError.unavailable(
                reason: "PostgreSQL has not acknowledged an earlier commit, and nothing is sent before it does.")
        }
        defer { state.withLock { $0.isProbed = false } }
        try PostgreSQLPaymentTransaction.probe.runAsProbe(in: session, self, until: deadline)
        state.withLock { ($0.isOpen, $0.tried) = (false, nil) }
        return true
    }
}

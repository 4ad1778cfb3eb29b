import Synchronization

/// Tracks commits that the server has not acknowledged. The session of such a commit may wait on the server for an
/// unavailable standby, long after the gateway has dropped it.
///
/// Nothing else is committed until a later commit is acknowledged. Otherwise each change would leave one more session
/// on the server, until no program could connect. Each change that was in progress at that moment leaves one session,
/// and one probe leaves another. Later probes wait for its lock and send no commit.
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

    /// Ends the doubt, if there is any.
    ///
    /// - Parameter probe: returns after a commit was acknowledged without a warning. Called by one thread at a time,
    ///   and after a failure only after a pause.
    /// - Returns: true if it probed.
    func settle(_ probe: () throws -> Void) throws -> Bool {
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
        try probe()
        state.withLock { ($0.isOpen, $0.tried) = (false, nil) }
        return true
    }
}

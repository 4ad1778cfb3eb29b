import Synchronization

/// Commits that the server has not acknowledged. The session of one may wait on the server for a standby that is away, long after the
/// gateway has given it up.
///
/// Nothing is committed until a later commit was acknowledged: each change would leave one more session on the server, until it has
/// no connection left for any program. Changes that were under way at that moment leave one each, and one probe leaves another;
/// later probes wait for its lock, and send no commit.
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
    /// - Parameter probe: returns when a commit was acknowledged without a warning. Called by one at a time, and not at once again.
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

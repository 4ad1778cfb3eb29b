import Synchronization

/// The connection that a request came by, as the work for that request sees it.
package final class RequestOrigin: Sendable {
    private let share: @Sendable () -> TurnShare
    /// nil where requests are not answered on the connection's event loop.
    private let turns: LoopTurns?
    private let left = Atomic(false)

    init(share: @escaping @Sendable () -> TurnShare, turns: LoopTurns?) {
        self.share = share
        self.turns = turns
    }

    /// Returns true once the connection is closed: nothing can be answered any more.
    ///
    /// A peer that has only finished sending has not left.
    package var hasLeft: Bool { left.load(ordering: .relaxed) }

    func leave() { left.store(true, ordering: .relaxed) }

    /// Waits until this peer may have computation done on its event loop, in turn with other sources. Returns at once where the
    /// loop is free.
    ///
    /// - Parameter client: whom the peer works for; its turns go round these names (``FairQueue``).
    /// - Returns: the turn, which must be ended before anything else is waited for.
    package func turn(named client: String? = nil) async -> LoopTurn {
        guard let turns, turns.eventLoop.inEventLoop else { return LoopTurn(nil) }
        if !turns.takeNow() {
            await withCheckedContinuation { continuation in
                turns.take(of: share().named(client)) { continuation.resume() }
            }
        }
        return LoopTurn(turns)
    }
}

/// A source's turn on an event loop, until it is ended.
package final class LoopTurn: Sendable {
    private let turns: LoopTurns?
    private let hasEnded = Atomic(false)

    init(_ turns: LoopTurns?) {
        self.turns = turns
    }

    /// Lets the next source have its turn. A second call does nothing.
    package func end() {
        guard let turns, !hasEnded.exchange(true, ordering: .relaxed) else { return }
        if turns.eventLoop.inEventLoop { turns.end() } else { turns.eventLoop.execute { turns.end() } }
    }
}

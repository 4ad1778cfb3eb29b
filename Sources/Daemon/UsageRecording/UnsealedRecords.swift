import AuditChain
import Encodings
package import Ledger
import Locks
package import Logging
package import Telemetry

/// Tracks the end of the record and the end of its sealed part, and determines when the next audit checkpoint is due
/// (``AuditChain/CheckpointSchedule``).
///
/// The ledger's writer reports every commit. Therefore all records count, even those for which no caller waits: refusals,
/// and records of the writer itself. The age of records is measured by a monotonic clock.
package final class UnsealedRecords: Sendable {
    private struct State {
        /// The chain's last sequence; 0 before the first record.
        var recorded = 0
        /// The sequence of the chain's last durable checkpoint; 0 if it has none.
        var sealed = 0
        /// The time since which the oldest unsealed record has waited; nil if all records are sealed.
        var oldest: ContinuousClock.Instant?

        mutating func record(upTo sequence: Int, at now: ContinuousClock.Instant) {
            guard sequence > recorded else { return }
            recorded = sequence
            if oldest == nil { oldest = now }
        }

        func isDue(at now: ContinuousClock.Instant) -> Bool {
            guard let oldest else { return false }
            return recorded - sealed >= CheckpointSchedule.maximumRecords
                || oldest.duration(to: now) >= CheckpointSchedule.maximumAge
        }
    }

    private let state = Mutex(State())
    /// Yields a value when an audit checkpoint may be due.
    let wakeUps: AsyncStream<Void>
    private let wake: AsyncStream<Void>.Continuation

    package init() {
        (wakeUps, wake) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
    }

    /// The number of records after the last durable checkpoint.
    var count: Int { state.withLock { $0.recorded - $0.sealed } }

    /// Updates the end of the record. The ledger's writer calls this function on its own thread, so it must not block.
    package func recorded(upTo sequence: Int, at now: ContinuousClock.Instant = .now) {
        let isDue = state.withLock { state in
            state.record(upTo: sequence, at: now)
            return state.isDue(at: now)
        }
        if isDue { wake.yield() }
    }

    /// Restarts the schedule of audit checkpoints for another audit key. The record ends at `end`, or at a later sequence
    /// that the writer has already reported.
    func restart(end: Int, sealed: Int, at now: ContinuousClock.Instant = .now) {
        state.withLock { state in
            let recorded = max(state.recorded, end)
            state = State(recorded: recorded, sealed: min(sealed, recorded), oldest: recorded > sealed ? now : nil)
        }
    }

    /// Updates the end of the sealed part after an audit checkpoint has become durable.
    ///
    /// - Parameter cut: the time just before the end of the chain was read for that audit checkpoint. Records added since
    ///   then remain unsealed, and their age counts from this time.
    func sealed(upTo sequence: Int, cut: ContinuousClock.Instant) {
        state.withLock { state in
            state.record(upTo: sequence, at: cut)
            state.sealed = max(state.sealed, sequence)
            state.oldest = state.recorded > state.sealed ? cut : nil
        }
    }

    func isDue(at now: ContinuousClock.Instant = .now) -> Bool { state.withLock { $0.isDue(at: now) } }

    /// The time at which the next audit checkpoint is due if nothing more is recorded; nil if everything is sealed.
    var deadline: ContinuousClock.Instant? { state.withLock { $0.oldest.map { $0 + CheckpointSchedule.maximumAge } } }

    /// Makes ``wakeUps`` yield an element, even if no audit checkpoint is due.
    func wakeUp() { wake.yield() }

    /// Ends ``wakeUps``, and with it the task that seals the record.
    func finish() { wake.finish() }

    /// Returns the receiver of the ledger's events, which updates the end of the record, measures the commits and logs
    /// what an operator must know.
    ///
    /// - Parameters:
    ///   - batchSizes: the numbers of writes that share one commit.
    ///   - roundTrips: the numbers of round trips to the ledger's server for one commit.
    ///   - readsBack: the commits that were not acknowledged, by outcome.
    package func observer(
        batchSizes: Histogram<0>, roundTrips: Histogram<0>, readsBack: Counter<1>, logger: Logger
    ) -> @Sendable (LedgerEvent) -> Void {
        { [self] event in
            switch event {
            case .committed(let writes, _): batchSizes.observe(Double(writes))
            case .exchanged(let count): roundTrips.observe(Double(count))
            case .recorded(let sequence): recorded(upTo: sequence)
            case .readBack(let outcome):
                readsBack.increment([outcome.rawValue])
                logger.notice(
                    "a commit of the ledger was not acknowledged; its outcome was read back",
                    metadata: ["outcome": "\(outcome.rawValue)"])
            case .held(let finding):
                logger.critical(
                    "the ledger is older than what this daemon has written to it; nothing is released on any node",
                    metadata: ["found": "\(finding.sentence)"])
            case .waitsForNodeName(let holder):
                let whose =
                    holder.isConnected
                    ? "a daemon at \(holder.address ?? "the server's own host")" : "a daemon without a session there"
                logger.notice(
                    "another daemon has this node's name in the ledger; waiting for its lease to end",
                    metadata: [
                        "node": "\(holder.node)", "holder": "\(whose)", "version": "\(holder.version)",
                        "until": "\(RFC3339.string(holder.until))",
                    ])
            case .claimsUnread(let reason):
                logger.warning(
                    "the claims of Google Pay messages were not read; until they are, each first release waits for a read",
                    metadata: ["reason": "\(reason)"])
            case .failed, .dropped: break
            }
        }
    }
}

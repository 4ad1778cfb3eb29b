import AuditChain
import Synchronization

/// How far the record reaches, how far it is sealed, and so when the next checkpoint is due.
///
/// The ledger's writer tells it of every commit. So every record counts, whoever wrote it: also those that nobody waited
/// for, such as refusals, and the writer's own.
final class UnsealedRecords: Sendable {
    private struct State {
        var schedule = CheckpointSchedule<ContinuousClock.Instant>(at: .now)
        var recorded = 0
    }

    private let state = Mutex(State())
    /// Gives a value when a checkpoint may be due.
    let looks: AsyncStream<Void>
    private let wake: AsyncStream<Void>.Continuation

    init() {
        (looks, wake) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
    }

    /// The record reaches to here. Called on the writer's thread: it costs no more than a look.
    func recorded(upTo sequence: Int, at now: ContinuousClock.Instant = .now) {
        let isDue = state.withLock { state in
            state.recorded = max(state.recorded, sequence)
            state.schedule.recorded(upTo: sequence, at: now)
            return state.schedule.isDue(at: now)
        }
        if isDue { wake.yield() }
    }

    /// Counts anew, with another key: the record ends at `end`, or further if the writer has said so already.
    func restart(end: Int, sealed: Int, at now: ContinuousClock.Instant = .now) {
        state.withLock { state in
            state.recorded = max(state.recorded, end)
            state.schedule = CheckpointSchedule(recorded: state.recorded, sealed: sealed, at: now)
        }
    }

    /// A checkpoint of this sequence is durable.
    ///
    /// - Parameter cut: when its sequence was read.
    func sealed(upTo sequence: Int, cut: ContinuousClock.Instant) {
        state.withLock { state in
            state.schedule.recorded(upTo: sequence, at: cut)
            state.schedule.sealed(upTo: sequence, cut: cut)
        }
    }

    func isDue(at now: ContinuousClock.Instant = .now) -> Bool { state.withLock { $0.schedule.isDue(at: now) } }

    /// When the next checkpoint is due without further records; nil when all is sealed.
    var deadline: ContinuousClock.Instant? { state.withLock { $0.schedule.deadline } }

    /// Has ``looks`` give a value.
    func look() { wake.yield() }

    /// Ends ``looks``.
    func finish() { wake.finish() }
}

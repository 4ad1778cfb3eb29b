import Foundation
import Synchronization

/// Writes that wait for the one writer. What arrives while a commit is under way shares the next one, and its sync.
///
/// Bounded: a write that finds no room is refused at once. Notes, which nobody waits for, may fill half of it only, so
/// that a flood of refusals does not keep out releases; those that find no room are counted.
final class CommitQueue<Write: Sendable>: Sendable {
    enum Admission {
        /// The writer is idle: whoever entered this starts it.
        case begins
        /// The writer takes it with its next batch.
        case joins
        case full
        case closed
    }

    /// Notes that were not recorded.
    struct Dropped: Sendable, Equatable {
        var count: Int
        /// When the first of them was dropped.
        var since: Date
    }

    private struct State {
        var waiting: [Write] = []
        var notes = 0
        var isWriting = false
        var isClosed = false
        var dropped: Dropped?
    }

    private let capacity: Int
    private let state = Mutex(State())

    init(capacity: Int) {
        self.capacity = capacity
    }

    func enter(_ write: Write, isNote: Bool) -> Admission {
        state.withLock { state in
            guard !state.isClosed else { return .closed }
            guard state.waiting.count < capacity, !isNote || state.notes < max(1, capacity / 2) else { return .full }
            state.waiting.append(write)
            if isNote { state.notes += 1 }
            defer { state.isWriting = true }
            return state.isWriting ? .joins : .begins
        }
    }

    /// All that waits; nil when nothing does, and then the writer is idle.
    func next() -> [Write]? {
        state.withLock { state in
            guard !state.waiting.isEmpty else {
                state.isWriting = false
                return nil
            }
            defer {
                state.waiting = []
                state.notes = 0
            }
            return state.waiting
        }
    }

    /// How many wait now.
    var waiting: Int { state.withLock { $0.waiting.count } }

    /// Nothing enters from now on; what waits is still written.
    func close() {
        state.withLock { $0.isClosed = true }
    }

    func drop(_ dropped: Dropped) {
        state.withLock { state in
            state.dropped = Dropped(
                count: dropped.count + (state.dropped?.count ?? 0),
                since: min(dropped.since, state.dropped?.since ?? .distantFuture))
        }
    }

    var hasDropped: Bool { state.withLock { $0.dropped != nil } }

    /// What is to be recorded as dropped; who takes it gives it back with ``drop(_:)`` when that fails.
    func takeDropped() -> Dropped? {
        state.withLock { state in
            defer { state.dropped = nil }
            return state.dropped
        }
    }
}

import NIOCore
import Synchronization
import WorkerProtocol

/// The part of one HSM token's sessions that signatures may have at a time, so that they cannot starve decryption: an RSA
/// signature takes a token several times as long as opening a payment token.
///
/// Who finds no place waits, and callers are served in turn, so that one who asks for hundreds delays another by one signature
/// of its own. Who has too many waiting is refused. A call at a token has an end (`call_timeout`), so each of them is reached.
final class SignatureShare: Sendable {
    private struct State {
        var underWay = 0
        /// By caller; a caller without any has no entry.
        var waiting: [String?: CircularBuffer<CheckedContinuation<Bool, Never>>] = [:]
        /// The callers that wait, in the order in which they are served.
        var round = CircularBuffer<String?>()
        var count = 0

        mutating func append(_ place: CheckedContinuation<Bool, Never>, of caller: String?) {
            if waiting[caller] == nil { round.append(caller) }
            waiting[caller, default: []].append(place)
            count += 1
        }

        mutating func popFirst() -> CheckedContinuation<Bool, Never>? {
            guard let caller = round.popFirst(), let place = waiting[caller]?.popFirst() else { return nil }
            count -= 1
            if waiting[caller]?.isEmpty == true { waiting[caller] = nil } else { round.append(caller) }
            return place
        }
    }

    /// Sessions that signatures may have at a time.
    let most: Int
    /// Signatures that may wait; one caller alone gets half.
    private let capacity: Int
    private let state = Mutex(State())

    /// - Parameter sessions: of the token. A quarter is for signatures, and one at least.
    init(sessions: Int, capacity: Int = 256) {
        most = max(1, sessions / 4)
        self.capacity = capacity
    }

    /// Makes one signature as soon as there is a place.
    ///
    /// - Parameter caller: who asks, by the name that records have.
    /// - Throws: `overloaded` when too many wait; `deadlineExceeded` when the place comes too late.
    func run<Answer>(
        for caller: String? = nil, until deadline: ContinuousClock.Instant,
        _ sign: () async throws(WorkerFailure) -> Answer
    ) async throws(WorkerFailure) -> Answer {
        try await enter(caller)
        defer { leave() }
        guard .now < deadline else {
            throw WorkerFailure(.deadlineExceeded, "Signatures before this one took until its deadline.")
        }
        return try await sign()
    }

    /// How many wait.
    var waiting: Int { state.withLock { $0.count } }

    private func enter(_ caller: String?) async throws(WorkerFailure) {
        let isAdmitted = await withCheckedContinuation { (place: CheckedContinuation<Bool, Never>) in
            let answer: Bool? = state.withLock { state in
                if state.underWay < most {
                    state.underWay += 1
                    return true
                }
                // A caller has fewer waiting than there is room left: whoever has filled what they can leaves room for others.
                guard state.waiting[caller]?.count ?? 0 < capacity - state.count else { return false }
                state.append(place, of: caller)
                return nil
            }
            if let answer { place.resume(returning: answer) }
        }
        guard isAdmitted else {
            throw WorkerFailure(.overloaded, "Too many signatures of this caller wait for the HSM token already.")
        }
    }

    /// Hands the place to the next caller's signature that has waited longest.
    private func leave() {
        let next = state.withLock { state in
            let next = state.popFirst()
            if next == nil { state.underWay -= 1 }
            return next
        }
        next?.resume(returning: true)
    }
}

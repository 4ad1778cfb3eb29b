import FairShares
import Synchronization
import WorkerProtocol

/// The part of one HSM token's sessions that signatures may use at a time, so that they cannot starve decryption: an
/// RSA signature takes an HSM token several times as long as decrypting a payment token.
///
/// A signature without a place waits, and callers are served in turn (``FairQueue``). A caller with too many waiting
/// signatures is refused. Calls at an HSM token have a limit (`call_timeout`), so each waiting signature gets its turn.
final class SignatureShare: Sendable {
    private struct State {
        var underWay = 0
        var waiting = FairQueue<String?, CheckedContinuation<Bool, Never>>()
    }

    /// The number of sessions that signatures may use at a time.
    let most: Int
    /// The number of signatures that may wait; a single caller gets half.
    private let capacity: Int
    private let state = Mutex(State())

    /// - Parameter sessions: the number of sessions of the HSM token. A quarter is for signatures, at least one.
    init(sessions: Int, capacity: Int = 256) {
        most = max(1, sessions / 4)
        self.capacity = capacity
    }

    /// Makes one signature as soon as a place is free.
    ///
    /// - Throws: `overloaded` when too many wait; `deadlineExceeded` when a place becomes free too late.
    func run<Answer>(
        for requester: Requester = Requester(), until deadline: ContinuousClock.Instant,
        _ sign: () async throws(WorkerFailure) -> Answer
    ) async throws(WorkerFailure) -> Answer {
        try await enter(requester)
        defer { leave() }
        guard .now < deadline else {
            throw WorkerFailure(
                .deadlineExceeded, "Earlier signatures took until this one's deadline.", isUnsent: true)
        }
        guard !requester.hasLeft() else { throw PendingCall.abandonedByCaller }
        return try await sign()
    }

    /// The number of waiting signatures.
    var waiting: Int { state.withLock { $0.waiting.count } }

    private func enter(_ requester: Requester) async throws(WorkerFailure) {
        let isAdmitted = await withCheckedContinuation { (place: CheckedContinuation<Bool, Never>) in
            let answer: Bool? = state.withLock { state in
                if state.underWay < most {
                    state.underWay += 1
                    return true
                }
                // A caller may have at most as many signatures waiting as there are free places. A caller at its limit
                // thus leaves places for others.
                guard state.waiting.count(of: requester.caller) < capacity - state.waiting.count else { return false }
                state.waiting.append(place, of: requester.caller, named: requester.client)
                return nil
            }
            if let answer { place.resume(returning: answer) }
        }
        guard isAdmitted else {
            throw WorkerFailure(.overloaded, "Too many signatures of this caller already wait for the HSM token.")
        }
    }

    /// Passes the place to the next caller's longest-waiting signature.
    private func leave() {
        let next = state.withLock { state in
            let next = state.waiting.popFirst()
            if next == nil { state.underWay -= 1 }
            return next
        }
        next?.resume(returning: true)
    }
}

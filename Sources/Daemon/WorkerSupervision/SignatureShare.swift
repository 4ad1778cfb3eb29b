import FairShares
import Synchronization
import WorkerProtocol

/// The part of one HSM token's sessions that signatures may have at a time, so that they cannot starve decryption: an RSA
/// signature takes a token several times as long as opening a payment token.
///
/// A signature without a place waits, and callers are served in turn (``FairQueue``). A caller with too many waiting is
/// refused. A call at a token has an end (`call_timeout`), so each of them is reached.
final class SignatureShare: Sendable {
    private struct State {
        var underWay = 0
        var waiting = FairQueue<String?, CheckedContinuation<Bool, Never>>()
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
    /// - Throws: `overloaded` when too many wait; `deadlineExceeded` when the place comes too late.
    func run<Answer>(
        for requester: Requester = Requester(), until deadline: ContinuousClock.Instant,
        _ sign: () async throws(WorkerFailure) -> Answer
    ) async throws(WorkerFailure) -> Answer {
        try await enter(requester)
        defer { leave() }
        guard .now < deadline else {
            throw WorkerFailure(
                .deadlineExceeded, "Signatures before this one took until its deadline.", isUnsent: true)
        }
        guard !requester.hasLeft() else { throw PendingCall.abandonedByCaller }
        return try await sign()
    }

    /// How many wait.
    var waiting: Int { state.withLock { $0.waiting.count } }

    private func enter(_ requester: Requester) async throws(WorkerFailure) {
        let isAdmitted = await withCheckedContinuation { (place: CheckedContinuation<Bool, Never>) in
            let answer: Bool? = state.withLock { state in
                if state.underWay < most {
                    state.underWay += 1
                    return true
                }
                // A caller has fewer waiting than there is room left, so one that has filled its room leaves some for others.
                guard state.waiting.count(of: requester.caller) < capacity - state.waiting.count else { return false }
                state.waiting.append(place, of: requester.caller, named: requester.client)
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
            let next = state.waiting.popFirst()
            if next == nil { state.underWay -= 1 }
            return next
        }
        next?.resume(returning: true)
    }
}

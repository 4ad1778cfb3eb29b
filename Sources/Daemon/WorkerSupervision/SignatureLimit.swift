import FairShares
import Locks
import WorkerProtocol

/// Limits the sessions of one HSM token that signatures use at a time. Without this limit signatures could starve
/// decryption: an RSA signature takes an HSM token several times as long as decrypting a payment token.
///
/// A signature that finds no free place waits, and callers take turns (``FairQueue``). A caller with too many waiting
/// signatures is refused. Since each call has a limit (`call_timeout`), places keep becoming free.
final class SignatureLimit: Sendable {
    private struct State {
        var underWay = 0
        var waiting = FairQueue<String?, CheckedContinuation<Bool, Never>>()
    }

    /// The maximum number of sessions that signatures use at a time.
    let most: Int
    /// The maximum number of waiting signatures; a single caller gets half.
    private let capacity: Int
    private let state = Mutex(State())

    /// - Parameter sessions: the number of sessions of the HSM token. Signatures get a quarter of them, but at least one.
    init(sessions: Int, capacity: Int = 256) {
        most = max(1, sessions / 4)
        self.capacity = capacity
    }

    /// Calls `sign` as soon as a place is free.
    ///
    /// - Throws: `overloaded` if the caller already has too many waiting signatures; `deadlineExceeded` if no place becomes
    ///   free before the deadline.
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

    /// The number of signatures that wait for a place.
    var waiting: Int { state.withLock { $0.waiting.count } }

    private func enter(_ requester: Requester) async throws(WorkerFailure) {
        let isAdmitted = await withCheckedContinuation { (place: CheckedContinuation<Bool, Never>) in
            let answer: Bool? = state.withLock { state in
                if state.underWay < most {
                    state.underWay += 1
                    return true
                }
                // A caller is refused if it already has as many waiting signatures as there are free places. One caller
                // thus always leaves free places for others.
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

    /// Passes the freed place to the longest-waiting signature of the caller whose turn it is.
    private func leave() {
        let next = state.withLock { state in
            let next = state.waiting.popFirst()
            if next == nil { state.underWay -= 1 }
            return next
        }
        next?.resume(returning: true)
    }
}

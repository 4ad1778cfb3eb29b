import Locks
import MerchantKeys
import PaymentToken
import UsageRecording

/// Makes requests wait while the daemon opens its HSM tokens for the first time. A restart, for example after an upgrade,
/// therefore delays callers instead of refusing them.
///
/// A request waits only during that first opening, and for at most ``longest``. If an HSM token is unavailable later,
/// requests are refused at once.
final class FirstOpening: Sendable {
    /// The maximum time that requests wait. SoftHSM opens in a tenth of a second, a network HSM in seconds. Callers
    /// often give up if they have to wait for longer.
    static let longest = Duration.seconds(5)
    private static let pause = Duration.milliseconds(2)

    private struct Waiting {
        let number: Int
        let isServed: @Sendable () -> Bool
        let continuation: CheckedContinuation<Void, Never>
    }

    private struct State {
        var isOver = false
        var waiting: [Waiting] = []
        var count = 0
    }

    private let state = Mutex(State())

    /// - Parameter isOver: true if no request shall ever wait. False requires a call of ``start(longest:isOver:)``, since
    ///   requests would otherwise wait for ever.
    init(isOver: Bool = false) { state.withLock { $0.isOver = isOver } }

    var waitingCount: Int { state.withLock { $0.waiting.count } }

    /// Waits until `isServed` returns true, or until the daemon's first opening of its HSM tokens has ended.
    /// - Parameter isServed: a function that returns true if the keys of the request are available. It must not block.
    func pass(when isServed: @escaping @Sendable () -> Bool) async {
        guard !state.withLock({ $0.isOver }), !isServed() else { return }
        await withCheckedContinuation { continuation in
            let isOver = state.withLock { state in
                guard !state.isOver else { return true }
                state.count += 1
                state.waiting.append(Waiting(number: state.count, isServed: isServed, continuation: continuation))
                return false
            }
            if isOver { continuation.resume() }
        }
    }

    /// Waits until an HSM token lists the key and ``LedgerGate`` has compared the ledger with the HSM token, or until
    /// the first opening of the HSM tokens has ended. For an unknown key, waits only for the comparison.
    func pass(for key: PublicKeyHash, in keys: KeyIndex, _ gate: LedgerGate) async {
        await pass { keys.entry(key)?.condition != .missing && gate.position != .waiting }
    }

    /// Waits until HSM tokens list all keys of the merchant, or until their first opening has ended.
    func pass(forKeysOf merchant: String, in keys: KeyIndex) async {
        guard !state.withLock({ $0.isOver }) else { return }
        // The list of keys is complete: the ledger's keys were read before any request was served.
        let awaited = keys.entries.filter { $0.merchantIdentifier == merchant && $0.condition == .missing }
            .map(\.publicKeyHash)
        await pass { awaited.allSatisfy { keys.entry($0)?.condition != .missing } }
    }

    /// Starts the task that resumes waiting requests.
    /// - Parameter isOver: a function that returns true once no HSM token is being opened any more.
    /// - Returns: a task that resumes each request when its keys are available, and all requests when the task ends.
    ///   Cancelling the task ends it early.
    func start(longest: Duration = longest, isOver: @escaping @Sendable () -> Bool) -> Task<Void, Never> {
        Task {
            let end = ContinuousClock.now + longest
            // The task polls, since no event reports that the last HSM token is open and the ledger has been compared.
            while !isOver(), ContinuousClock.now < end, !Task.isCancelled {
                // The conditions are evaluated without holding the lock. Otherwise they would delay every request,
                // since each takes the lock.
                let served = Set(state.withLock { $0.waiting }.filter { $0.isServed() }.map(\.number))
                let passing = state.withLock { state in
                    let boundary = state.waiting.partition { served.contains($0.number) }
                    defer { state.waiting.removeSubrange(boundary...) }
                    return Array(state.waiting[boundary...])
                }
                for request in passing { request.continuation.resume() }
                try? await Task.sleep(for: Self.pause)
            }
            let rest = state.withLock { state in
                defer { state = State(isOver: true) }
                return state.waiting
            }
            for request in rest { request.continuation.resume() }
        }
    }
}

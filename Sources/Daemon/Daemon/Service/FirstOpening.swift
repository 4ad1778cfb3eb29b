import MerchantKeys
import PaymentToken
import Synchronization

/// Makes requests wait for their key while the daemon opens its HSM tokens for the first time. A restart, for example
/// for an upgrade, then delays callers instead of refusing them.
///
/// This applies only then, and only for ``longest``. An HSM token that is unavailable after that, or is lost later, is
/// reported at once.
final class FirstOpening: Sendable {
    /// The longest wait. SoftHSM takes a tenth of a second, a network HSM seconds. Callers that wait longer have often
    /// given up.
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

    /// - Parameter isOver: false if ``start(longest:isOver:)`` will be called.
    init(isOver: Bool = false) { state.withLock { $0.isOver = isOver } }

    var waitingCount: Int { state.withLock { $0.waiting.count } }

    /// Returns once `isServed` returns true or the first opening is over.
    /// - Parameter isServed: a function that returns true if the request's keys are available, and does not block.
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

    /// Returns once an HSM token lists the key and the ledger was compared, or the first opening is over. Returns at
    /// once for an unknown key.
    func pass(for key: PublicKeyHash, in keys: KeyIndex, _ gate: LedgerGate) async {
        await pass { keys.entry(key)?.condition != .missing && gate.position != .waiting }
    }

    /// Returns once HSM tokens list all keys of the merchant, or the first opening is over.
    func pass(forKeysOf merchant: String, in keys: KeyIndex) async {
        guard !state.withLock({ $0.isOver }) else { return }
        // One pass over all keys suffices: the ledger's keys are known before any caller is served.
        let awaited = keys.entries.filter { $0.merchantIdentifier == merchant && $0.condition == .missing }
            .map(\.publicKeyHash)
        await pass { awaited.allSatisfy { keys.entry($0)?.condition != .missing } }
    }

    /// - Parameter isOver: a function that returns true if no HSM token is being opened any more.
    /// - Returns: a task that resumes requests whose keys are available, and all requests when it ends. Cancelling ends
    ///   it.
    func start(longest: Duration = longest, isOver: @escaping @Sendable () -> Bool) -> Task<Void, Never> {
        Task {
            let end = ContinuousClock.now + longest
            // No event reports when the last of several HSM tokens, and the ledger's comparison, are done.
            while !isOver(), ContinuousClock.now < end, !Task.isCancelled {
                // The conditions are evaluated without the lock, which every request takes.
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

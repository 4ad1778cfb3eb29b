import MerchantKeys
import PaymentToken
import Synchronization

/// Has requests that need a key wait for it while the daemon opens its HSM tokens for the first time. So a restart, for an
/// upgrade say, costs callers the time that it takes, and not a refusal.
///
/// Only then, and only for ``longest``: a token that is away, or is lost later, is said at once.
final class FirstOpening: Sendable {
    /// SoftHSM takes a tenth of a second, a network HSM seconds. Callers who are answered later have often given up.
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

    /// - Parameter isOver: false where ``start(longest:isOver:)`` is going to be called.
    init(isOver: Bool = false) { state.withLock { $0.isOver = isOver } }

    var waitingCount: Int { state.withLock { $0.waiting.count } }

    /// Returns once `isServed` holds, or the first opening is over.
    /// - Parameter isServed: whether what the request needs is there; returns soon.
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

    /// Returns once an HSM token shows the key and the ledger was compared, or the first opening is over; at once for a key that
    /// nobody knows.
    func pass(for key: PublicKeyHash, in keys: KeyIndex, _ gate: LedgerGate) async {
        await pass { keys.entry(key)?.condition != .missing && gate.position != .waiting }
    }

    /// Returns once HSM tokens show all keys of the merchant, or the first opening is over.
    func pass(forKeysOf merchant: String, in keys: KeyIndex) async {
        guard !state.withLock({ $0.isOver }) else { return }
        // All keys are looked through once: the ledger's are known before anybody is served.
        let awaited = keys.entries.filter { $0.merchantIdentifier == merchant && $0.condition == .missing }
            .map(\.publicKeyHash)
        await pass { awaited.allSatisfy { keys.entry($0)?.condition != .missing } }
    }

    /// - Parameter isOver: whether nothing is being opened any more.
    /// - Returns: a task that lets those pass whose keys are there, and at its end all. Its cancellation is its end.
    func start(longest: Duration = longest, isOver: @escaping @Sendable () -> Bool) -> Task<Void, Never> {
        Task {
            let end = ContinuousClock.now + longest
            // Nothing tells when the last of several tokens, and the ledger's comparison, are done.
            while !isOver(), ContinuousClock.now < end, !Task.isCancelled {
                // Asked without the lock, which every request takes.
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

import Synchronization
import WorkerProtocol

/// Which transaction fails, and how often it was tried.
final class Faltering: Sendable {
    private let state = Mutex<(victim: [UInt8], tries: Int)>(([], 0))

    /// The key material of the transaction that fails; empty while none does.
    var victim: [UInt8] {
        get { state.withLock { $0.victim } }
        set { state.withLock { $0.victim = newValue } }
    }

    /// How often the victim was tried, this time included; `Int.max` for any other transaction.
    func applies(to input: Decryption) -> Int {
        state.withLock { state in
            guard !state.victim.isEmpty, input.keyMaterial == state.victim else { return .max }
            state.tries += 1
            return state.tries
        }
    }
}

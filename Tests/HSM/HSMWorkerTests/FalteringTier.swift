import KeyTypes
import PKCS11
import Synchronization
import WorkerProtocol

@testable import HSMWorker

/// SoftHSM's tier with failures that a test chooses.
final class FalteringTier: RestorationTier {
    let scheme = RestorationScheme.ecV1
    let protection = ProtectionTier.c
    let requirement = "luck"

    private let calls = Mutex(0)
    private let fault: @Sendable (_ call: Int, Decryption) -> RestorationError?

    /// - Parameter fault: receives the number of the call, from 1, and its input; returns nil to let it pass.
    init(_ fault: @escaping @Sendable (_ call: Int, Decryption) -> RestorationError?) {
        self.fault = fault
    }

    var count: Int { calls.withLock { $0 } }

    func open(
        _ input: Decryption, with key: borrowing PrivateKeyEntry, in session: inout Session
    ) throws(RestorationError) -> [UInt8] {
        let call = calls.withLock { calls in
            calls += 1
            return calls
        }
        if let error = fault(call, input) { throw error }
        return try ECDHSecretTier().open(input, with: key, in: &session)
    }
}

/// The transaction that fails, and the number of its tries.
final class Faltering: Sendable {
    private let state = Mutex<(victim: [UInt8], tries: Int)>(([], 0))

    /// The key material of the failing transaction; empty while none fails.
    var victim: [UInt8] {
        get { state.withLock { $0.victim } }
        set { state.withLock { $0.victim = newValue } }
    }

    /// The number of tries of the victim, including this one; `Int.max` for any other transaction.
    func applies(to input: Decryption) -> Int {
        state.withLock { state in
            guard !state.victim.isEmpty, input.keyMaterial == state.victim else { return .max }
            state.tries += 1
            return state.tries
        }
    }
}

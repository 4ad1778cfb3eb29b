import KeyTypes
import PKCS11
import Synchronization
import WorkerProtocol

@testable import HSMWorker

/// A tier on SoftHSM that fails when the test requests it.
final class FalteringTier: RestorationTier {
    let scheme = RestorationScheme.ecV1
    let protection = ProtectionTier.c
    let requirement = "luck"

    private let calls = Mutex(0)
    private let fault: @Sendable (_ call: Int, Decryption) -> RestorationError?

    /// Makes a tier that calls `fault` with each call's number, from 1, and input. The tier throws the returned error,
    /// or decrypts if it is nil.
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

/// The transaction that fails, and the number of attempts at it.
final class Faltering: Sendable {
    private let state = Mutex<(victim: [UInt8], tries: Int)>(([], 0))

    /// The key material of the failing transaction; empty while none fails.
    var victim: [UInt8] {
        get { state.withLock { $0.victim } }
        set { state.withLock { $0.victim = newValue } }
    }

    /// Returns the number of attempts at the failing transaction including this one, or `Int.max` for any other
    /// transaction.
    func applies(to input: Decryption) -> Int {
        state.withLock { state in
            guard !state.victim.isEmpty, input.keyMaterial == state.victim else { return .max }
            state.tries += 1
            return state.tries
        }
    }
}

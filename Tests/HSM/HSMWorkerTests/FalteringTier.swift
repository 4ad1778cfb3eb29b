import KeyTypes
import Locks
import PKCS11
import WorkerProtocol

@testable import HSMWorker

/// A tier on SoftHSM that fails when the test requests it.
final class FalteringTier: RestorationTier {
    let scheme = RestorationScheme.ecV1
    let protection = ProtectionTier.c
    let requirement = "luck"

    private let calls = Mutex(0)
    private let fault: @Sendable (_ call: Int, Decryption) -> RestorationError?

    /// Makes a tier that passes the number of each call, from 1, and the call's input to `fault`. The tier throws the
    /// error that `fault` returns, and decrypts if `fault` returns nil.
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

/// The transaction whose decryption must fail, and the number of attempts to decrypt it.
final class FailingTransaction: Sendable {
    private let state = Mutex<(keyMaterial: [UInt8], tries: Int)>(([], 0))

    /// The key material of the failing transaction; empty while all transactions succeed.
    var keyMaterial: [UInt8] {
        get { state.withLock { $0.keyMaterial } }
        set { state.withLock { $0.keyMaterial = newValue } }
    }

    /// Counts an attempt. Returns its number, from 1, for the failing transaction, and `Int.max` for any other one.
    func attempt(_ input: Decryption) -> Int {
        state.withLock { state in
            guard !state.keyMaterial.isEmpty, input.keyMaterial == state.keyMaterial else { return .max }
            state.tries += 1
            return state.tries
        }
    }
}

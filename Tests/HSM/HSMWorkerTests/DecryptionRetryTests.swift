import PKCS11
import TestSupport
import Testing
import WorkerProtocol

@testable import HSMWorker

/// Classification of a decryption's errors: invalid input, or a failing HSM token.
@Suite struct DecryptionRetryTests {
    private static func hsmToken(_ call: String, _ value: ReturnValue) -> RestorationError {
        .hsmToken(CallError(call: call, cause: .returned(value)))
    }

    private func kind(_ result: Result<[UInt8], WorkerFailure>) -> WorkerFailure.Kind? {
        if case .failure(let failure) = result { failure.kind } else { nil }
    }

    @Test(
        "decrypts a transaction despite errors that soon stop",
        arguments: [
            (1, "C_DeriveKey", ReturnValue.generalError), (1, "C_Decrypt", .functionFailed),
            (2, "C_Decrypt", .encryptedDataInvalid), (1, "C_GetAttributeValue", .deviceError),
            (1, "C_DeriveKey", .keyHandleInvalid), (1, "C_DeriveKey", .sessionHandleInvalid),
            (1, "C_DecryptInit", .operationActive), (1, "C_DeriveKey", .userNotLoggedIn),
            (5, "C_DeriveKey", .deviceMemory), (3, "C_DeriveKey", .sessionCount),
        ])
    func transient(_ times: Int, _ call: String, _ value: ReturnValue) throws {
        let failing = FailingTransaction()
        let harness = try OpenTokenHarness(
            FalteringTier { _, input in
                failing.attempt(input) <= times ? Self.hsmToken(call, value) : nil
            })
        let payment = try harness.payment()
        failing.keyMaterial = payment.keyMaterial
        var session = try harness.softHSM.openSession()
        #expect(try harness.decrypt(payment, in: &session).get() == payment.plaintext)
    }

    @Test("refuses a transaction whose tag the HSM token rejects three times, but not after two rejections")
    func refusals() throws {
        for (times, expected) in [(1, nil), (2, nil), (3, WorkerFailure.Kind.decryptionFailed)] {
            let failing = FailingTransaction()
            let harness = try OpenTokenHarness(
                FalteringTier { _, input in
                    guard failing.attempt(input) <= times else { return nil }
                    return .refused(CallError(call: "C_Decrypt", cause: .returned(.encryptedDataInvalid)))
                })
            let payment = try harness.payment()
            failing.keyMaterial = payment.keyMaterial
            var session = try harness.softHSM.openSession()
            #expect(kind(harness.decrypt(payment, in: &session)) == expected)
        }
    }

    @Test("refuses a transaction if it alone causes an error in a call that uses its bytes")
    func followsInput() throws {
        for (call, expected) in [
            ("C_Decrypt", WorkerFailure.Kind.decryptionFailed), ("C_UnwrapKey", .decryptionFailed),
            // These calls do not depend on unchecked bytes: the worker has found the point to be on the curve. The caller
            // may therefore try again.
            ("C_DeriveKey", .overloaded), ("C_DestroyObject", .overloaded),
        ] {
            let failing = FailingTransaction()
            let harness = try OpenTokenHarness(
                FalteringTier { _, input in
                    failing.attempt(input) < .max ? Self.hsmToken(call, .generalError) : nil
                })
            let payment = try harness.payment()
            failing.keyMaterial = payment.keyMaterial
            var session = try harness.softHSM.openSession()
            #expect(kind(harness.decrypt(payment, in: &session)) == expected, "\(call)")
            let other = try harness.payment()
            #expect(try harness.decrypt(other, in: &session).get() == other.plaintext)
        }
    }

    @Test("reports the HSM token as unavailable, and does not refuse the transaction, if every decryption fails")
    func dead() throws {
        let failing = FailingTransaction()
        let harness = try OpenTokenHarness(
            FalteringTier { _, _ in failing.keyMaterial.isEmpty ? nil : Self.hsmToken("C_Decrypt", .generalError) })
        let payment = try harness.payment()
        failing.keyMaterial = [1]
        var session = try harness.softHSM.openSession()
        #expect(kind(harness.decrypt(payment, in: &session)) == .hsmTokenUnavailable)
    }

    @Test("retries on a busy HSM token only until the deadline")
    func busy() throws {
        let failing = FailingTransaction()
        let harness = try OpenTokenHarness(
            FalteringTier { _, input in
                failing.attempt(input) < .max ? Self.hsmToken("C_DeriveKey", .deviceMemory) : nil
            })
        let payment = try harness.payment()
        failing.keyMaterial = payment.keyMaterial
        var session = try harness.softHSM.openSession()
        let start = ContinuousClock.now
        // The worker stops retrying after three quarters of the timeout. The rest is a margin for a busy machine.
        #expect(kind(harness.decrypt(payment, in: &session, callTimeout: 8000)) == .overloaded)
        #expect(ContinuousClock.now - start < .milliseconds(8000))
    }

    @Test("refuses a point off the curve without a call to the HSM token")
    func offCurve() throws {
        let harness = try OpenTokenHarness()
        var payment = try harness.payment()
        payment.keyMaterial[64] ^= 1
        // In a closed session, every call to the HSM token fails. `decryptionFailed` therefore shows that the worker
        // made no call.
        var session = Session(closedIn: harness.softHSM.slot)
        #expect(kind(harness.decrypt(payment, in: &session)) == .decryptionFailed)
        let isOpen = session.isOpen
        #expect(!isOpen)
    }
}

import Crypto
import Foundation
import TestSupport
import Testing
import TokenForge
import WorkerProtocol

/// Peculiarities of HSM tokens, which the scripted module in front of SoftHSM simulates for the real worker process.
@Suite struct ScriptedTokenTests {
    private func serving(
        _ hsmToken: ScriptedToken, sessions: UInt16 = 1, allowExtractableSecret: Bool = true
    ) async throws -> (WorkerUnderTest, HSMTokenDescription) {
        let worker = try WorkerUnderTest(hsmToken)
        return (
            worker, try await worker.open(hsmToken, sessions: sessions, allowExtractableSecret: allowExtractableSecret)
        )
    }

    @Test("logs in only once if there are no faults")
    func forwards() async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory())
        let (worker, description) = try await serving(hsmToken)
        #expect(description.tierECv1 == .c && description.tierRSAv1 == .c)
        for merchant in [try SharedForge.ecMerchant, try SharedForge.rsaMerchant] {
            try await worker.mustImport(merchant, description)
        }
        let payment = try EncryptedPayment.ec()
        #expect(try await worker.call(payment.request) == .plaintext(payment.plaintext, tier: .c))
        #expect(hsmToken.calls("C_Login").map(\.value) == [0])
    }

    @Test("serves an HSM token whose slot number changes")
    func renumbered() async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory(), "slot-offset 1000")
        let (worker, _) = try await serving(hsmToken)
        #expect(try await worker.call(.probe) == .done)
        try hsmToken.play("slot-offset 7")
        let (later, _) = try await serving(hsmToken)
        #expect(try await later.call(.probe) == .done)
    }

    @Test("does not serve EC_v1 on an HSM token that refuses CKD_NULL and has no alternative, and names the call")
    func noTier() async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory(), "refuse-null-kdf")
        let (_, description) = try await serving(hsmToken)
        #expect(description.tierECv1 == nil)
        #expect(description.tierRSAv1 == .c)
        #expect(
            description.shortcomings.contains { $0.contains("EC_v1") && $0.contains("CKR_MECHANISM_PARAM_INVALID") },
            "\(description.shortcomings)")
    }

    @Test("tries to log in only once if the HSM token reports a locked PIN")
    func lockedPIN() async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory(), "fault C_Login always return=0xA4")
        let failure = await #expect(throws: WorkerFailure.self) { try await serving(hsmToken) }
        #expect(failure?.kind == .loginRefused)
        #expect(failure?.message.contains("locked") == true, "\(failure?.message ?? "")")
        #expect(hsmToken.calls("C_Login").count == 1)
    }

    @Test("fails with hsmTokenUnavailable, not decryption_failed, if the HSM token stops deriving")
    func dead() async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory())
        let (worker, description) = try await serving(hsmToken)
        try await worker.mustImport(SharedForge.ecMerchant, description)
        try hsmToken.play("fault C_DeriveKey always return=0x30")
        let answer = try await worker.call(try EncryptedPayment.ec().request)
        #expect(answer.failureKind == .hsmTokenUnavailable)
        #expect(answer.failureMessage.contains("CKR_DEVICE_ERROR"), "\(answer)")
    }

    @Test("ends the worker if the library crashes, and serves in the next worker")
    func crash() async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory())
        let (worker, description) = try await serving(hsmToken)
        try await worker.mustImport(SharedForge.ecMerchant, description)
        try hsmToken.play("fault C_DeriveKey from=3 crash once")
        for _ in 0..<2 { _ = try await worker.call(try EncryptedPayment.ec().request) }
        worker.send(try EncryptedPayment.ec().request.encoded(identifier: 77))
        #expect(try await worker.receive() == nil)
        #expect(try await worker.end() == 128 + SIGKILL)
        let (later, _) = try await serving(hsmToken)
        _ = try await later.keys()
        for _ in 0..<5 {
            let payment = try EncryptedPayment.ec()
            #expect(try await later.call(payment.request) == .plaintext(payment.plaintext, tier: .c))
        }
    }
}

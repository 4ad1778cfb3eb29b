import Foundation
import TestSupport
import Testing
import TokenForge
import WorkerProtocol

/// The number of login attempts, which the scripted module counts.
@Suite struct ScriptedLoginTests {
    private struct Setup {
        let real: TokenDirectory
        let hsmToken: ScriptedToken
        var refused: String { real.directory.path("refused") }

        init() async throws {
            real = try await TokenDirectory()
            hsmToken = try ScriptedToken(real)
        }

        func set(_ pin: String) throws { try real.directory.write(pin + "\n", to: "pin") }
        var logins: [UInt] { hsmToken.calls("C_Login").map(\.value) }

        func open() async throws -> (WorkerUnderTest, HSMTokenDescription) {
            let worker = try WorkerUnderTest(hsmToken)
            return (worker, try await worker.open(hsmToken) { $0.refusedLogins = refused })
        }

        func failure() async throws -> WorkerFailure? {
            do {
                _ = try await open()
                return nil
            } catch let failure as WorkerFailure {
                return failure
            }
        }
    }

    /// The return value CKR_PIN_INCORRECT.
    private static let incorrect: UInt = 0xA0

    @Test("tries a wrong PIN once for any number of workers, and then the right PIN once")
    func onceAcrossWorkers() async throws {
        let setup = try await Setup()
        try setup.set("99887766")
        for _ in 0..<4 { #expect(try await setup.failure()?.kind == .loginRefused) }
        #expect(setup.logins == [Self.incorrect])
        try setup.set(TokenDirectory.pin)
        #expect(try await setup.failure() == nil)
        #expect(setup.logins == [Self.incorrect, 0])
    }

    @Test("renews a lost login with a wrong PIN only once, and not at each request")
    func lostLogin() async throws {
        let setup = try await Setup()
        let (worker, description) = try await setup.open()
        try await worker.mustImport(SharedForge.ecMerchant, description)
        try setup.set("99887766")
        try setup.hsmToken.play("fault C_DeriveKey nth=1 logout")
        for _ in 0..<4 {
            let payment = try EncryptedPayment.ec()
            #expect(try await worker.call(payment.request).failureKind == .loginRefused)
        }
        #expect(try await worker.call(.probe).failureKind == .loginRefused)
        #expect(try await setup.failure()?.kind == .loginRefused)
        #expect(setup.logins == [0, Self.incorrect])
    }

    @Test("completes a login under way before it exits at the end of its input")
    func endsAfterLogin() async throws {
        let setup = try await Setup()
        let (worker, description) = try await setup.open()
        try await worker.mustImport(SharedForge.ecMerchant, description)
        try setup.hsmToken.play("fault C_DeriveKey nth=1 logout", "fault C_Login nth=1 delay=1500 once")
        let payment = try EncryptedPayment(ec: SharedForge.ecMerchant.key.subjectPublicKeyInfo)
        worker.send(try payment.request.encoded(identifier: 1000))
        try await wait(for: "the second login to begin") { setup.hsmToken.hasFired }
        #expect(try await worker.end() == 0)
        // The scripted module logs a call when the call returns, so the second login was completed.
        #expect(setup.logins == [0, 0])
    }

    @Test("waits for all calls to return before it logs in again, because a logout frees objects that they use")
    func waitsForCalls() async throws {
        let setup = try await Setup()
        let worker = try WorkerUnderTest(setup.hsmToken)
        let description = try await worker.open(setup.hsmToken) {
            $0.refusedLogins = setup.refused
            $0.sessions = 2
        }
        try await worker.mustImport(SharedForge.ecMerchant, description)
        let before = setup.hsmToken.calls().count
        try setup.hsmToken.play("fault C_DeriveKey nth=1 delay=1000 once", "fault C_DeriveKey nth=2 logout")
        let payment = try EncryptedPayment(ec: SharedForge.ecMerchant.key.subjectPublicKeyInfo)
        worker.send(try payment.request.encoded(identifier: 1001))
        try await wait(for: "the first call to be delayed") { setup.hsmToken.hasFired }
        worker.send(try payment.request.encoded(identifier: 1002))
        for _ in 0..<2 {
            #expect(try await worker.receive()?.answer == .plaintext(payment.plaintext, tier: .c))
        }
        // The scripted module logs a call when the call returns. The log must therefore contain both calls, the delayed
        // one included, before the login.
        let functions = setup.hsmToken.calls()[before...].map(\.function)
        let login = try #require(functions.firstIndex(of: "C_Login"))
        #expect(functions[..<login].count { $0 == "C_DeriveKey" } == 2, "\(functions)")
        #expect(setup.logins == [0, 0])
    }

    @Test("makes no login if only one try is left or the PIN is locked, and says what to do")
    func lastTry() async throws {
        let setup = try await Setup()
        for (flag, word) in [("0x20000", "CKF_USER_PIN_FINAL_TRY"), ("0x40000", "locked")] {
            try setup.hsmToken.play("token-flags \(flag)")
            let failure = try #require(try await setup.failure())
            #expect(failure.kind == .loginRefused && failure.message.contains(word), "\(failure.message)")
        }
        #expect(setup.logins.isEmpty)
        // If the HSM token reports CKF_USER_PIN_COUNT_LOW (0x10000), the worker still tries a PIN that was never refused.
        try setup.hsmToken.play("token-flags 0x10000")
        #expect(try await setup.failure() == nil)
        #expect(setup.logins == [0])
    }

    @Test("tries the same PIN in the next worker if the login failed for another reason than a wrong PIN")
    func failingToken() async throws {
        let setup = try await Setup()
        try setup.hsmToken.play("fault C_Login always return=0x30")
        #expect(try await setup.failure()?.kind == .hsmTokenUnavailable)
        try setup.hsmToken.play()
        #expect(try await setup.failure() == nil)
        #expect(setup.logins == [0x30, 0])
    }
}

import Foundation
import SecretMemory
import TestSupport
import Testing
import WorkerProtocol

@testable import HSMWorker

@Suite struct RefusedLoginTests {
    private struct Setup {
        let hsmToken: TokenDirectory
        var file: String { hsmToken.directory.path("refused") }

        func set(_ pin: String) throws { try hsmToken.directory.write(pin + "\n", to: "pin") }

        /// Opens the HSM token in a new worker. Returns the worker's failure, or nil on success.
        func failure() async throws -> WorkerFailure? {
            let worker = try WorkerUnderTest(hsmToken)
            do {
                try await worker.open(hsmToken) { $0.refusedLogins = file }
                return nil
            } catch let failure as WorkerFailure {
                return failure
            }
        }
    }

    @Test(
        "does not retry a refused PIN in a later worker until the right PIN has been accepted"
    )
    func remembers() async throws {
        let setup = Setup(hsmToken: try await TokenDirectory())
        try setup.set("99887766")
        let first = try #require(try await setup.failure())
        #expect(first.kind == .loginRefused && first.message.contains("C_Login: CKR_PIN_INCORRECT"))
        for _ in 0..<2 {
            let again = try #require(try await setup.failure())
            #expect(again.kind == .loginRefused)
            #expect(!again.message.contains("C_Login") && again.message.contains(setup.file), "\(again.message)")
        }
        try setup.set("88776655")
        #expect(try await setup.failure()?.message.contains("C_Login: CKR_PIN_INCORRECT") == true)
        try setup.set("99887766")
        #expect(try await setup.failure()?.message.contains("C_Login") == false)
        try setup.set(TokenDirectory.pin)
        #expect(try await setup.failure() == nil)
        try setup.set("99887766")
        #expect(try await setup.failure()?.message.contains("C_Login: CKR_PIN_INCORRECT") == true)
    }

    @Test("stores the refusal without the PIN in a file only its owner can read, whose removal permits one more try")
    func file() async throws {
        let setup = Setup(hsmToken: try await TokenDirectory())
        try setup.set("99887766")
        _ = try await setup.failure()
        let attributes = try FileManager.default.attributesOfItem(atPath: setup.file)
        #expect(attributes[.posixPermissions] as? Int == 0o600)
        let text = try String(contentsOfFile: setup.file, encoding: .utf8)
        #expect(!text.contains("99887766"))
        #expect(text.split(separator: "\n").count == 3)
        try FileManager.default.removeItem(atPath: setup.file)
        #expect(try await setup.failure()?.message.contains("C_Login: CKR_PIN_INCORRECT") == true)
    }

    @Test("replaces a damaged refusal file, and opens the HSM token even if the file cannot be written")
    func damaged() async throws {
        let setup = Setup(hsmToken: try await TokenDirectory())
        try setup.hsmToken.directory.write("something else\n", to: "refused")
        #expect(try await setup.failure() == nil)
        try setup.set("99887766")
        _ = try await setup.failure()
        #expect(try await setup.failure()?.message.contains("C_Login") == false)

        let other = Setup(hsmToken: try await TokenDirectory())
        try other.hsmToken.directory.makeDirectory("refused")
        #expect(try await other.failure() == nil)
    }

    @Test("makes no login after a wrong PIN while a refusal cannot be stored")
    func countLow() async throws {
        let setup = Setup(hsmToken: try await TokenDirectory())
        try setup.set("99887766")
        _ = try await setup.failure()
        try FileManager.default.removeItem(atPath: setup.file)
        try setup.hsmToken.directory.makeDirectory("refused")
        // After the wrong PIN above, SoftHSM sets CKF_USER_PIN_COUNT_LOW.
        try setup.set(TokenDirectory.pin)
        let failure = try #require(try await setup.failure())
        #expect(failure.kind == .loginRefused)
        #expect(failure.message.contains("CKF_USER_PIN_COUNT_LOW") && !failure.message.contains("C_Login"))
    }

    @Test("remembers a refused PIN only for the HSM token that refused it")
    func otherToken() throws {
        let directory = try FreshDirectory()
        let memory = try #require(try RefusedLogins(path: directory.path("refused")))
        let (one, other) = (try SoftHSM.shared().freshToken(), try SoftHSM.shared().freshToken())
        let pin = SecretBytes(copying: Array("99887766".utf8))
        let similar = SecretBytes(copying: Array("99887767".utf8))
        try memory.remember(pin, for: one.slot.tokenInfo())
        #expect(try memory.contains(pin, for: one.slot.tokenInfo()))
        #expect(try !memory.contains(pin, for: other.slot.tokenInfo()))
        #expect(try !memory.contains(similar, for: one.slot.tokenInfo()))
        try memory.forget()
        #expect(try !memory.contains(pin, for: one.slot.tokenInfo()))
    }
}

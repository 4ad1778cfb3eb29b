import Crypto
import Foundation
import TestSupport
import Testing
import WorkerProtocol

/// The audit key and the stored audit checkpoint on an HSM token that fails while the worker changes or uses them.
@Suite struct ScriptedAuditTests {
    private let identifier = (0..<16).map { UInt8($0) }
    private let checkpoint = Array(#"{"node":"backend-1","sequence":7}"#.utf8)

    @Test("keeps both lines if the worker is killed after it creates the new object and before it destroys the old one")
    func killedBetween() async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory())
        let worker = try await WorkerUnderTest.serving(hsmToken)
        #expect(try await worker.remember("one", node: "backend-1") == .done)
        try hsmToken.play("fault C_DestroyObject nth=1 crash once")
        worker.send(
            try WorkerRequest.rememberHead(HeadToRemember(node: "backend-1", line: Array("two".utf8)))
                .encoded(identifier: 9))
        #expect(try await worker.receive() == nil)
        _ = try await worker.end()
        let later = try await WorkerUnderTest.serving(hsmToken)
        #expect(try await later.heads().sorted() == ["one", "two"])
        #expect(try await later.remember("two", node: "backend-1") == .done)
        #expect(try await later.heads() == ["two"])
    }

    @Test("replaces the stored line without a search among all objects")
    func withoutSearch() async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory())
        let worker = try await WorkerUnderTest.serving(hsmToken)
        #expect(try await worker.remember("one", node: "backend-1") == .done)
        let searches = hsmToken.calls("C_FindObjectsInit").count
        for line in ["two", "two", "three"] { #expect(try await worker.remember(line, node: "backend-1") == .done) }
        #expect(hsmToken.calls("C_FindObjectsInit").count == searches)
        #expect(try await worker.heads() == ["three"])
    }

    @Test(
        "searches for the stored object again if the old one is missing or cannot be destroyed",
        arguments: ["0x82", "0x5"])
    func searchesAgain(value: String) async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory())
        let worker = try await WorkerUnderTest.serving(hsmToken)
        #expect(try await worker.remember("one", node: "backend-1") == .done)
        try hsmToken.play("fault C_DestroyObject nth=1 return=\(value) once")
        // After CKR_OBJECT_HANDLE_INVALID (0x82) the worker searches for the old object within the same request and
        // destroys it.
        let answer = try await worker.remember("two", node: "backend-1")
        #expect(value == "0x82" ? answer == .done : answer.failureKind == .auditRefused)
        let searches = hsmToken.calls("C_FindObjectsInit").count
        #expect(try await worker.remember("two", node: "backend-1") == .done)
        #expect(hsmToken.calls("C_FindObjectsInit").count == searches + (value == "0x82" ? 0 : 1))
        #expect(try await worker.heads() == ["two"])
    }

    @Test("keeps the old line if the new one cannot be created, and reports the reason")
    func notCreated() async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory())
        let worker = try await WorkerUnderTest.serving(hsmToken)
        #expect(try await worker.remember("one", node: "backend-1") == .done)
        for (value, word) in [("0xE2", "read-only"), ("0x31", "full"), ("0x5", "CKR_GENERAL_ERROR")] {
            try hsmToken.play("fault C_CreateObject always return=\(value)")
            let answer = try await worker.remember("two", node: "backend-1")
            #expect(answer.failureKind == .auditRefused)
            #expect(answer.failureMessage.contains(word), "\(answer)")
        }
        try hsmToken.play()
        #expect(try await worker.heads() == ["one"])
    }

    @Test("keeps both lines if the old one cannot be destroyed, and reports the failure")
    func notDestroyed() async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory())
        let worker = try await WorkerUnderTest.serving(hsmToken)
        #expect(try await worker.remember("one", node: "backend-1") == .done)
        try hsmToken.play("fault C_DestroyObject always return=0x1B")
        #expect(try await worker.remember("two", node: "backend-1").failureKind == .auditRefused)
        #expect(try await worker.heads().sorted() == ["one", "two"])
    }

    @Test("refuses to make an audit key in a read-only HSM token, and says what to do")
    func readOnly() async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory())
        let worker = try await WorkerUnderTest.serving(hsmToken)
        try hsmToken.play("fault C_GenerateKeyPair always return=0xE2")
        let answer = try await worker.call(.createAuditKey(identifier: identifier))
        #expect(answer.failureKind == .auditRefused)
        #expect(answer.failureMessage.contains("CKR_TOKEN_WRITE_PROTECTED"), "\(answer)")
        #expect(answer.failureMessage.contains("make it writable"), "\(answer)")
        #expect(try await worker.auditKeys().isEmpty)
    }

    @Test("refuses an audit key that the HSM token does not report as local, and leaves no usable key")
    func notLocal() async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory(), "keys-not-local")
        let worker = try await WorkerUnderTest.serving(hsmToken)
        let answer = try await worker.call(.createAuditKey(identifier: identifier))
        #expect(answer.failureKind == .auditRefused)
        #expect(answer.failureMessage.contains("CKA_LOCAL"), "\(answer)")
        // Another key would have the same fault, so a repeated request generates no key.
        let made = hsmToken.calls("C_GenerateKeyPair").count
        #expect(try await worker.call(.createAuditKey(identifier: identifier)) == answer)
        #expect(hsmToken.calls("C_GenerateKeyPair").count == made)
        // Without the script, the HSM token shows no audit key.
        try hsmToken.play()
        let later = try await WorkerUnderTest.serving(hsmToken)
        #expect(try await later.auditKeys().isEmpty)
        #expect(try await later.sign(checkpoint, identifier).failureKind == .keyNotFound)
    }

    @Test(
        "refuses an audit key that can leave the HSM token, or may do more than sign",
        arguments: [
            // CKA_SENSITIVE is false, although CKA_ALWAYS_SENSITIVE is true.
            ("template C_GetAttributeValue 0x103 0", "is extractable or not sensitive"),
            // CKA_DERIVE and CKA_UNWRAP.
            ("template C_GenerateKeyPair 0x10C 1", "permits other uses than signatures"),
            ("template C_GenerateKeyPair 0x107 1", "permits other uses than signatures"),
        ])
    func unfitKey(_ script: String, _ reason: String) async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory())
        let worker = try await WorkerUnderTest.serving(hsmToken)
        try hsmToken.play(script)
        let answer = try await worker.call(.createAuditKey(identifier: identifier))
        #expect(answer.failureKind == .auditRefused)
        #expect(answer.failureMessage.contains(reason), "\(answer)")
        #expect(try await worker.auditKeys().isEmpty)
        #expect(try await worker.sign(checkpoint, identifier).failureKind != nil)
    }

    @Test("does not list or use an audit key that the HSM token reports as imported")
    func importedKey() async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory())
        _ = try await WorkerUnderTest.serving(hsmToken).createAuditKey(identifier)
        try hsmToken.play("keys-not-local")
        let worker = try await WorkerUnderTest.serving(hsmToken)
        #expect(try await worker.auditKeys().isEmpty)
        for answer in [
            try await worker.sign(checkpoint, identifier),
            try await worker.call(.createAuditKey(identifier: identifier)),
        ] {
            #expect(answer.failureKind == .auditRefused)
            #expect(answer.failureMessage.contains("CKA_LOCAL"), "\(answer)")
        }
    }

    @Test("searches for the audit key again after an invalid handle, and signs the audit checkpoint")
    func staleHandle() async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory())
        let worker = try await WorkerUnderTest.serving(hsmToken)
        let key = try P256.Signing.PublicKey(
            x963Representation: try await worker.createAuditKey(identifier).publicKey)
        for value in ["0x60", "0x82"] {
            try hsmToken.play("fault C_SignInit nth=1 return=\(value)")
            guard case .signature(let der) = try await worker.sign(checkpoint, identifier) else {
                Issue.record("not signed")
                return
            }
            #expect(key.isValidSignature(try P256.Signing.ECDSASignature(derRepresentation: der), for: checkpoint))
        }
    }

    @Test("reports the HSM token as unavailable if it no longer finds an audit key that it has used")
    func lostToken() async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory())
        let worker = try await WorkerUnderTest.serving(hsmToken)
        _ = try await worker.createAuditKey(identifier)
        let removed = try await removePrivateKey(hsmToken)
        try #require(removed.status == 0, "\(removed)")
        try hsmToken.play("fault C_SignInit always return=0x60")
        #expect(try await worker.sign(checkpoint, identifier).failureKind == .hsmTokenUnavailable)
        #expect(try await WorkerUnderTest.serving(hsmToken).sign(checkpoint, identifier).failureKind == .keyNotFound)
    }

    private func removePrivateKey(_ hsmToken: ScriptedToken) async throws -> ProgramResult {
        try await Program.run(
            Program.installed("pkcs11-tool"),
            [
                "--module", SoftHSM.libraryPath, "--token-label", TokenDirectory.label, "--login", "--pin",
                TokenDirectory.pin, "--delete-object", "--type", "privkey", "--id",
                identifier.hexadecimal,
            ], environment: hsmToken.environment)
    }

    @Test("continues after a failed signature if the HSM token still decrypts, and otherwise ends the worker")
    func failingSignature() async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory())
        let worker = try WorkerUnderTest(hsmToken)
        let description = try await worker.open(hsmToken, sessions: 1)
        try await worker.mustImport(SharedForge.ecMerchant, description)
        _ = try await worker.createAuditKey(identifier)
        try hsmToken.play("fault C_Sign always answer=0x30")
        let alone = try await worker.sign(checkpoint, identifier)
        #expect(alone.failureKind == .auditRefused)
        #expect(alone.failureMessage.contains("C_Sign: CKR_DEVICE_ERROR"), "\(alone)")
        try hsmToken.play("fault C_Sign always answer=0x30", "fault C_DeriveKey always return=0x30")
        #expect(try await worker.sign(checkpoint, identifier).failureKind == .hsmTokenUnavailable)
    }
}

import AuditChain
import Foundation
import KeyTypes
import TestSupport
import Testing
import TokenForge
import WorkerProtocol

/// The audit key of HSM tokens that do not sign with EC keys, in the real worker process.
@Suite struct RSAAuditKeyTests {
    private let identifier = (0..<16).map { UInt8(0xB0 + $0) }
    private let checkpoint = Array(#"{"node":"backend-1","sequence":7}"#.utf8)

    /// An HSM token that makes no EC keys (CKM_EC_KEY_PAIR_GEN).
    private static let noECKeys = "refuse-mechanism C_GenerateKeyPair 0x1040"
    /// An HSM token that makes EC keys but does not sign with them (CKM_ECDSA).
    private static let noECSignatures = "refuse-mechanism C_SignInit 0x1041"
    /// An HSM token that makes no PSS signatures. It also refuses the bare RSA operation, with which the worker could
    /// make them after padding the message itself.
    private static let noPSS = ["0xD", "0x43", "0x3"].map { "refuse-mechanism C_SignInit \($0)" }

    private func signature(
        _ worker: WorkerUnderTest, _ algorithm: AuditSignatureAlgorithm
    ) async throws -> WorkerAnswer {
        try await worker.call(
            .signCheckpoint(CheckpointSigning(identifier: identifier, message: checkpoint, algorithm: algorithm)))
    }

    @Test(
        "makes an RSA-2048 key where EC keys or signatures are refused, leaves no other, and signs in a later worker",
        arguments: [
            ([noECKeys], AuditSignatureAlgorithm.rsaPSS), ([noECSignatures], .rsaPSS),
            ([noECKeys] + noPSS, .rsaPKCS1), ([noECSignatures] + noPSS, .rsaPKCS1),
            // The HSM token permits the bare RSA operation, so the worker pads the message itself.
            ([noECKeys] + noPSS.dropLast(), .rsaPSS),
        ])
    func made(instructions: [String], algorithm: AuditSignatureAlgorithm) async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory())
        try hsmToken.play(instructions)
        let worker = try await WorkerUnderTest.serving(hsmToken)
        let before = hsmToken.remainingObjects
        let key = try await worker.createAuditKey(identifier)
        #expect(key.algorithm == algorithm && key.identifier == identifier)
        #expect(hsmToken.remainingObjects == before + 2)
        let publicKey = try #require(CheckpointKey(stored: key.publicKey))
        #expect(publicKey.keyAlgorithm == .rsa)
        #expect(try await worker.createAuditKey(identifier) == key)
        #expect(hsmToken.remainingObjects == before + 2)
        for worker in [worker, try await .serving(hsmToken)] {
            #expect(try await worker.auditKeys() == [key])
            guard case .signature(let bytes) = try await signature(worker, algorithm),
                let signature = CheckpointSignature(bytes, by: algorithm)
            else {
                Issue.record("not signed")
                return
            }
            #expect(publicKey.verifies(signature, by: algorithm, of: checkpoint))
            for other in AuditSignatureAlgorithm.allCases where other != algorithm {
                let answer = try await self.signature(worker, other)
                // An HSM token with PSS has PKCS #1 v1.5 too, so the RSA key signs with both. The worker refuses the rest.
                guard other == .rsaPKCS1 else {
                    #expect(answer.failureKind == .auditRefused, "\(answer)")
                    continue
                }
                guard case .signature(let bytes) = answer else {
                    Issue.record("\(answer)")
                    return
                }
                #expect(
                    try publicKey.verifies(#require(CheckpointSignature(bytes, by: other)), by: other, of: checkpoint))
            }
        }
        // The audit key is no merchant key.
        #expect(try await worker.call(.listKeys) == .keys([]))
    }

    @Test("keeps an EC audit key in an HSM token that has one, even if it makes no more EC keys")
    func existing() async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory())
        let key = try await WorkerUnderTest.serving(hsmToken).createAuditKey(identifier)
        #expect(key.algorithm == .ecdsaP256)
        try hsmToken.play(Self.noECKeys)
        let worker = try await WorkerUnderTest.serving(hsmToken)
        #expect(try await worker.createAuditKey(identifier) == key)
        #expect(try await worker.auditKeys() == [key])
        guard case .signature = try await signature(worker, .ecdsaP256) else {
            Issue.record("not signed")
            return
        }
        #expect(try await signature(worker, .rsaPSS).failureKind == .auditRefused)
    }

    @Test("makes no RSA key after a failure that has nothing to do with EC keys", arguments: ["0x30", "0x5", "0xE2"])
    func unrelated(value: String) async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory())
        let worker = try await WorkerUnderTest.serving(hsmToken)
        try hsmToken.play("fault C_GenerateKeyPair always return=\(value)")
        let answer = try await worker.call(.createAuditKey(identifier: identifier))
        #expect(answer.failureKind == .auditRefused, "\(answer)")
        try hsmToken.play()
        #expect(try await worker.createAuditKey(identifier).algorithm == .ecdsaP256)
    }

    @Test("replaces an EC key that a killed worker left before its first signature, if the HSM token refuses ECDSA")
    func killedBeforeSignature() async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory())
        let first = try await WorkerUnderTest.serving(hsmToken)
        try hsmToken.play(Self.noECSignatures, "fault C_SignInit always crash")
        _ = try? await first.call(.createAuditKey(identifier: identifier))
        #expect(try await first.end() == 128 + SIGKILL)
        try hsmToken.play(Self.noECSignatures)
        let before = hsmToken.remainingObjects
        let worker = try await WorkerUnderTest.serving(hsmToken)
        let left = try #require(try await worker.auditKeys().first)
        #expect(left.algorithm == .ecdsaP256)
        #expect(try await signature(worker, .ecdsaP256).failureKind == .auditRefused)
        let key = try await worker.createAuditKey(identifier)
        #expect(key.algorithm == .rsaPSS && hsmToken.remainingObjects == before)
        for worker in [worker, try await .serving(hsmToken)] {
            #expect(try await worker.auditKeys() == [key])
            #expect(try await worker.createAuditKey(identifier) == key)
            guard case .signature = try await signature(worker, .rsaPSS) else {
                Issue.record("not signed")
                return
            }
        }
    }

    @Test(
        "keeps an EC key that a killed worker left, if the HSM token signs with it, or fails for another reason",
        arguments: [nil, "fault C_SignInit always return=0x30"])
    func keptAfterKill(fault: String?) async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory())
        let first = try await WorkerUnderTest.serving(hsmToken)
        try hsmToken.play("fault C_SignInit always crash")
        _ = try? await first.call(.createAuditKey(identifier: identifier))
        #expect(try await first.end() == 128 + SIGKILL)
        try hsmToken.play()
        let worker = try await WorkerUnderTest.serving(hsmToken)
        let left = try await worker.auditKeys()
        #expect(left.count == 1)
        if let fault {
            try hsmToken.play(fault)
            #expect(try await worker.call(.createAuditKey(identifier: identifier)).failureKind != nil)
            try hsmToken.play()
        }
        #expect(try await [worker.createAuditKey(identifier)] == left)
    }

    @Test("makes another RSA key pair after an interruption that left a public key alone")
    func interrupted() async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory(), Self.noECKeys)
        let key = try await WorkerUnderTest.serving(hsmToken).createAuditKey(identifier)
        // The private key is deleted, so that only the public key remains.
        let removed = try await Program.run(
            Program.installed("pkcs11-tool"),
            [
                "--module", SoftHSM.libraryPath, "--token-label", TokenDirectory.label, "--login", "--pin",
                TokenDirectory.pin, "--delete-object", "--type", "privkey", "--id", identifier.hexadecimal,
            ], environment: hsmToken.environment)
        try #require(removed.status == 0, "\(removed)")
        let worker = try await WorkerUnderTest.serving(hsmToken)
        let again = try await worker.createAuditKey(identifier)
        #expect(again.algorithm == .rsaPSS && again.publicKey != key.publicKey)
        #expect(try await worker.auditKeys() == [again])
    }
}

import KeyTypes
import TestSupport
import Testing
import TokenForge
import WorkerProtocol

/// HSM tokens that keep only the first bytes of a CKA_ID. The YubiHSM 2's library kept two bytes before 2023, in
/// objects and in searches (https://github.com/gravitational/teleport/pull/25370,
/// https://github.com/Yubico/yubihsm-shell/issues/335).
@Suite struct IdentifierLimitTests {
    private static let limit = "identifier-limit 2"

    private func opened(
        _ hsmToken: ScriptedToken
    ) async throws -> (worker: WorkerUnderTest, description: HSMTokenDescription) {
        let worker = try WorkerUnderTest(hsmToken)
        return (worker, try await worker.open(hsmToken))
    }

    private func expectRefusal(_ answer: WorkerAnswer) {
        #expect(answer.failureKind == .importRefused)
        let words = "HSM token \"\(TokenDirectory.label)\" cannot hold this key: it keeps 2 of the 32 bytes of a CKA_ID"
        #expect(answer.failureMessage.contains(words), "\(answer)")
    }

    @Test("refuses an import, names the HSM token and its limit, and leaves only the former key")
    func refusesImports() async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory())
        let (worker, description) = try await opened(hsmToken)
        try await worker.mustImport(SharedForge.ecMerchant, description)
        let before = hsmToken.remainingObjects
        try hsmToken.play(Self.limit)
        expectRefusal(try await worker.importKey(try SharedForge.rsaMerchant, description))
        #expect(hsmToken.remainingObjects == before)
        let payment = try EncryptedPayment.ec()
        #expect(try await worker.call(payment.request) == .plaintext(payment.plaintext, tier: .c))
        // The HSM token is able to hold the key once the limit is gone.
        try hsmToken.play()
        try await worker.mustImport(SharedForge.rsaMerchant, description)
        #expect(try await worker.keys().map(\.inconsistency) == [nil, nil])
    }

    @Test("refuses to generate a key, and leaves none", arguments: [KeyAlgorithm.ec, .rsa])
    func refusesGeneration(_ algorithm: KeyAlgorithm) async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory())
        let (worker, _) = try await opened(hsmToken)
        let before = hsmToken.remainingObjects
        try hsmToken.play(Self.limit)
        let generation = KeyGeneration(merchantIdentifier: "merchant.test", algorithm: algorithm)
        expectRefusal(try await worker.call(.generateKey(generation)))
        #expect(hsmToken.remainingObjects == before)
    }

    @Test("destroys no key that a search finds only because its CKA_ID begins with the same bytes")
    func destroysNoOther() async throws {
        let directory = try await TokenDirectory()
        let hsmToken = try ScriptedToken(directory)
        let (first, description) = try await opened(hsmToken)
        try await first.mustImport(SharedForge.ecMerchant, description)
        let identifier = try #require(try await first.keys().first).identifier
        // The test makes another program's private key, without a public key. Its CKA_ID has two bytes, the first two
        // of the RSA key's CKA_ID.
        let hash = try EncryptedPayment.rsa().publicKeyHash
        let changed = try await directory.tool([
            "--set-id", Array(hash.prefix(2)).hexadecimal, "--type", "privkey", "--id", identifier.hexadecimal,
        ])
        try #require(changed.status == 0, "\(changed)")
        let before = hsmToken.remainingObjects
        try hsmToken.play(Self.limit)
        let (worker, next) = try await opened(hsmToken)
        #expect(try await worker.call(.destroyKey(publicKeyHash: hash)) == .done)
        expectRefusal(try await worker.importKey(try SharedForge.rsaMerchant, next))
        #expect(hsmToken.remainingObjects == before)
        #expect(try await worker.keys().map(\.identifier) == [Array(hash.prefix(2))])
    }

    @Test("makes no audit key, since the next worker would not find it and make another one")
    func refusesAuditKeys() async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory(), Self.limit)
        let (worker, _) = try await opened(hsmToken)
        let before = hsmToken.remainingObjects
        let answer = try await worker.call(.createAuditKey(identifier: [UInt8](1...16)))
        #expect(answer.failureKind == .auditRefused)
        #expect(answer.failureMessage.contains("keeps 2 of the 16 bytes of a CKA_ID"), "\(answer)")
        #expect(hsmToken.remainingObjects == before)
    }

    @Test("leaves no test pair in an HSM token that makes stored keys only, and gives the reason")
    func storesNoTestPair() async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory(), "stored-keys-only", Self.limit)
        let (_, description) = try await opened(hsmToken)
        #expect(description.tierECv1 == nil && description.tierRSAv1 == nil && description.testKeys.isEmpty)
        let reasons = description.shortcomings.joined(separator: "\n")
        #expect(reasons.contains("a pair that is not found again by its CKA_ID"), "\(reasons)")
        #expect(hsmToken.remainingObjects == 0)
    }
}

import KeyTypes
import TestSupport
import Testing
import WorkerProtocol

/// Self-tests on an HSM token that makes only stored key pairs, like a TPM. The scripted module simulates this HSM token.
@Suite struct StoredTestPairTests {
    private static let names: Set = ["EC_v1", "RSA_v1", "TLS"]

    private func opened(_ hsmToken: ScriptedToken) async throws -> (WorkerUnderTest, HSMTokenDescription) {
        let worker = try WorkerUnderTest(hsmToken)
        return (worker, try await worker.open(hsmToken))
    }

    private func pairsMade(_ hsmToken: ScriptedToken) -> Int {
        hsmToken.calls("C_GenerateKeyPair").count { $0.value == 0 }
    }

    @Test("makes a stored pair for each test once, uses it at each opening, and lists none as a merchant's key")
    func once() async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory(), "stored-keys-only")
        let (worker, first) = try await opened(hsmToken)
        #expect(first.tierECv1 == .c && first.tierRSAv1 == .c && first.shortcomings.isEmpty)
        #expect(first.tlsSignatures.pss == .byToken && first.tlsSignatures.pkcs1)
        #expect(Set(first.testKeys) == Self.names && first.testKeysMade == 3)
        #expect(pairsMade(hsmToken) == 3)
        #expect(try await worker.keys().isEmpty)
        let (_, second) = try await opened(hsmToken)
        #expect(Set(second.testKeys) == Self.names && second.testKeysMade == 0)
        #expect(second.tierECv1 == .c && second.tierRSAv1 == .c)
        #expect(pairsMade(hsmToken) == 3)
        #expect(hsmToken.remainingObjects == 6, "the tests left nothing but the three pairs")
    }

    @Test("serves merchants' keys that the HSM token generates")
    func serves() async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory(), "stored-keys-only")
        let (worker, _) = try await opened(hsmToken)
        for algorithm in [KeyAlgorithm.ec, .rsa] {
            let generation = KeyGeneration(merchantIdentifier: "merchant.test", algorithm: algorithm)
            guard case .generatedKey(let key) = try await worker.call(.generateKey(generation)) else {
                Issue.record("not generated")
                return
            }
            let payment =
                try algorithm == .ec
                ? EncryptedPayment(ec: key.subjectPublicKeyInfo) : EncryptedPayment(rsa: key.subjectPublicKeyInfo)
            #expect(try await worker.call(payment.request) == .plaintext(payment.plaintext, tier: .c))
        }
        let (later, description) = try await opened(hsmToken)
        #expect(description.testKeysMade == 0)
        #expect(try await later.keys().count == 2)
    }

    @Test("tests RSA_v1 with a pair that decrypts alone if the HSM token unwraps with no such pair")
    func withoutUnwrap() async throws {
        // The attribute 0x107 is CKA_UNWRAP.
        let hsmToken = try ScriptedToken(
            try await TokenDirectory(), "stored-keys-only", "refuse-attribute C_GenerateKeyPair 0x107")
        let (_, description) = try await opened(hsmToken)
        #expect(description.tierRSAv1 == .c && description.shortcomings.isEmpty, "\(description)")
        #expect(Set(description.testKeys) == Self.names)
    }

    @Test("names the mechanism that is lacking for one version, and serves the other version")
    func lacking() async throws {
        let hsmToken = try ScriptedToken(
            try await TokenDirectory(), "stored-keys-only", "fault C_DeriveKey always return=0x70")
        let (_, description) = try await opened(hsmToken)
        #expect(description.tierECv1 == nil && description.tierRSAv1 == .c)
        let reason = try #require(description.shortcomings.first)
        #expect(reason.contains("EC_v1") && reason.contains("CKM_ECDH1_DERIVE"), "\(reason)")
        #expect(reason.contains("CKR_MECHANISM_INVALID"), "\(reason)")
    }

    @Test("stores no test pair if the HSM token makes session pairs, or fails for another reason than the template")
    func storesNothing() async throws {
        let usual = try ScriptedToken(try await TokenDirectory())
        #expect(try await opened(usual).1.testKeys.isEmpty)
        let failing = try ScriptedToken(
            try await TokenDirectory(), "fault C_CreateObject always return=0x30",
            "fault C_GenerateKeyPair always return=0x30")
        let (_, description) = try await opened(failing)
        #expect(description.testKeys.isEmpty && description.shortcomings.count == 3)
        #expect(pairsMade(failing) == 0)
    }

    @Test("removes the test pairs on request, and no other key")
    func removed() async throws {
        let directory = try await TokenDirectory()
        let hsmToken = try ScriptedToken(directory, "stored-keys-only")
        let (worker, _) = try await opened(hsmToken)
        let generation = KeyGeneration(merchantIdentifier: "merchant.test", algorithm: .ec)
        guard case .generatedKey(let key) = try await worker.call(.generateKey(generation)) else {
            Issue.record("not generated")
            return
        }
        for removed: UInt32 in [3, 0] {
            #expect(try await worker.call(.removeTestKeys) == .removedTestKeys(removed))
        }
        let (later, description) = try await opened(hsmToken)
        #expect(description.testKeysMade == 3)
        #expect(try await later.keys().map(\.identifier) == [key.identifier])
    }
}

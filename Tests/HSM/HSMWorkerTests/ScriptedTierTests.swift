import Crypto
import Foundation
import KeyTypes
import TestSupport
import Testing
import TokenForge
import WorkerProtocol

/// Tiers on HSM tokens with more or fewer mechanisms than SoftHSM. The scripted module simulates them in front of
/// SoftHSM or NSS.
@Suite struct ScriptedTierTests {
    private func serving(
        _ hsmToken: ScriptedToken, allowExtractableSecret: Bool = true
    ) async throws -> (WorkerUnderTest, HSMTokenDescription) {
        let worker = try WorkerUnderTest(hsmToken)
        return (worker, try await worker.open(hsmToken, sessions: 1, allowExtractableSecret: allowExtractableSecret))
    }

    @Test(
        "serves EC_v1 at tier A with the one-step KDF and with either form of GCM parameters",
        arguments: [
            ["one-step-kdf"], ["one-step-kdf", "refuse-null-kdf"], ["one-step-kdf", "five-field-gcm"],
            ["one-step-kdf", "refuse-null-kdf", "five-field-gcm", "slot-offset 9"],
        ])
    func tierA(_ instructions: [String]) async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory())
        try hsmToken.play(instructions)
        let (worker, description) = try await serving(hsmToken)
        // EC_v1 and RSA_v1 have different tiers on this HSM token.
        #expect(description.tierECv1 == .a && description.tierRSAv1 == .c)
        #expect(description.shortcomings.isEmpty)
        try await worker.mustImport(SharedForge.ecMerchant, description)
        try await worker.mustImport(SharedForge.rsaMerchant, description)
        for _ in 0..<10 {
            let payment = try EncryptedPayment.ec()
            #expect(try await worker.call(payment.request) == .plaintext(payment.plaintext, tier: .a))
        }
        let rsa = try EncryptedPayment.rsa()
        #expect(try await worker.call(rsa.request) == .plaintext(rsa.plaintext, tier: .c))
    }

    @Test("reads no secret from the HSM token at tier A, and destroys every key that it derives")
    func nothingRead() async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory(), "one-step-kdf")
        let (worker, description) = try await serving(hsmToken)
        try await worker.mustImport(SharedForge.ecMerchant, description)
        let before = hsmToken.calls().count
        for _ in 0..<5 { _ = try await worker.call(try EncryptedPayment.ec().request) }
        let calls = hsmToken.calls().dropFirst(before).map(\.function)
        #expect(!calls.contains("C_GetAttributeValue"))
        for name in ["C_DeriveKey", "C_DecryptInit", "C_Decrypt", "C_DestroyObject"] {
            #expect(calls.count { $0 == name } == 5, "\(name)")
        }
    }

    @Test("serves EC_v1 at tier A but not RSA_v1 if extractable secrets are forbidden, and names what is lacking")
    func noExtractableSecret() async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory(), "one-step-kdf", "refuse-null-kdf")
        let (worker, description) = try await serving(hsmToken, allowExtractableSecret: false)
        #expect(description.tierECv1 == .a && description.tierRSAv1 == nil)
        try #require(description.shortcomings.count == 1)
        for word in [
            "RSA_v1", "the HSM token lacks", "CKM_RSA_PKCS_OAEP with SHA-256", "allow_extractable_secret is false",
        ] {
            #expect(description.shortcomings[0].contains(word), "\(description.shortcomings)")
        }
        try await worker.mustImport(SharedForge.ecMerchant, description)
        let payment = try EncryptedPayment.ec()
        #expect(try await worker.call(payment.request) == .plaintext(payment.plaintext, tier: .a))
    }

    @Test("does not serve EC_v1 on an HSM token without CKD_NULL and the one-step KDF, even with extractable secrets")
    func nullRefused() async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory(), "refuse-null-kdf")
        for allowed in [true, false] {
            let (worker, description) = try await serving(hsmToken, allowExtractableSecret: allowed)
            #expect(description.tierECv1 == nil)
            #expect(description.tierRSAv1 == (allowed ? .c : nil))
            let sentence = description.shortcomings.first { $0.hasPrefix("EC_v1") } ?? ""
            for word in ["CKD_SHA256_KDF_SP800", "C_DeriveKey: CKR_MECHANISM_PARAM_INVALID"] {
                #expect(sentence.contains(word), "\(sentence)")
            }
            #expect(sentence.contains("CKM_ECDH1_DERIVE with CKD_NULL") == allowed, "\(sentence)")
            #expect(sentence.contains("allow_extractable_secret is false") == !allowed, "\(sentence)")
            #expect(try await worker.call(try EncryptedPayment.ec().request).failureKind == .notSupported)
        }
    }

    @Test("tests the mechanisms of an HSM token that lists none")
    func emptyMechanismList() async throws {
        let hsmToken = try ScriptedToken(
            try await TokenDirectory(), "one-step-kdf", "fault C_GetMechanismInfo always return=0x70",
            "fault C_GetMechanismList always return=0x5")
        let (_, description) = try await serving(hsmToken)
        #expect(description.tierECv1 == .a && description.tierRSAv1 == .c)
    }

    @Test("ends the worker if the HSM token has other tiers after a login, and determines them in the next worker")
    func otherTiers() async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory(), "one-step-kdf")
        let (worker, description) = try await serving(hsmToken)
        #expect(description.tierECv1 == .a)
        try await worker.mustImport(SharedForge.ecMerchant, description)
        try hsmToken.play("fault C_DeriveKey nth=1 logout")
        let answer = try await worker.call(try EncryptedPayment.ec().request)
        #expect(answer.failureKind == .hsmTokenUnavailable)
        #expect(answer.failureMessage.contains("other tiers"), "\(answer)")
        try hsmToken.play()
        let (later, now) = try await serving(hsmToken)
        #expect(now.tierECv1 == .c)
        #expect(try await later.keys().count == 1)
        let payment = try EncryptedPayment.ec()
        #expect(try await later.call(payment.request) == .plaintext(payment.plaintext, tier: .c))
    }

    @Test("waits while the HSM token is busy during the tests of its tiers, and serves at its best tier")
    func busyAtTest() async throws {
        let hsmToken = try ScriptedToken(
            try await TokenDirectory(), "one-step-kdf", "fault C_DeriveKey always return=0x31")
        let worker = try WorkerUnderTest(hsmToken)
        async let description = worker.open(hsmToken) { $0.callTimeout = 60_000 }
        try await wait(for: "three refusals") { hsmToken.calls("C_DeriveKey").count >= 3 }
        try hsmToken.play("one-step-kdf")
        #expect(try await description.tierECv1 == .a)
    }

    @Test("does not list a key as inconsistent if the HSM token is busy during the test of the key")
    func busyAtListing() async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory())
        let (first, description) = try await serving(hsmToken)
        try await first.mustImport(SharedForge.ecMerchant, description)
        let worker = try WorkerUnderTest(hsmToken)
        try await worker.open(hsmToken) { $0.callTimeout = 60_000 }
        try hsmToken.play("fault C_DeriveKey always return=0x31")
        async let keys = worker.keys()
        try await wait(for: "three refusals") { hsmToken.calls("C_DeriveKey").count { $0.value == 0x31 } >= 3 }
        try hsmToken.play()
        #expect(try await keys.map(\.inconsistency) == [nil])
    }

    @Test("causes no syslog messages of SoftHSM during the tests of its tiers")
    func quiet() async throws {
        let directory = try FreshDirectory()
        let hsmToken = try ScriptedToken(try await TokenDirectory(), "syslog \(directory.path("syslog"))")
        let (worker, description) = try await serving(hsmToken)
        #expect(description.tierECv1 == .c && description.tierRSAv1 == .c)
        func lines() throws -> [Substring] {
            try String(contentsOfFile: directory.path("syslog"), encoding: .utf8).split(separator: "\n")
        }
        #expect(try lines() == ["syslog: from here on"])
        // An import and a listing cause no syslog message either.
        try await worker.mustImport(SharedForge.ecMerchant, description)
        _ = try await worker.keys()
        #expect(try lines() == ["syslog: from here on"])
        #expect(try await worker.end() == 0)
    }

    @Test(
        "fails with hsmTokenUnavailable if the login ends during the tests of the tiers, and repeats them later"
    )
    func logoutAtTest() async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory(), "fault C_DeriveKey nth=1 logout once")
        let failure = await #expect(throws: WorkerFailure.self) { try await serving(hsmToken) }
        #expect(failure?.kind == .hsmTokenUnavailable)
        #expect(failure?.message.contains("ended the login") == true, "\(failure?.message ?? "")")
        #expect(try await serving(hsmToken).1.tierECv1 == .c)
    }

    /// An HSM token that this host can provide or simulate. The raw value names its tiers for EC_v1 and RSA_v1.
    enum SimulatedToken: String, CaseIterable, CustomTestStringConvertible {
        case softHSM = "C and C"
        case oneStep = "A and C"
        case nss = "B and A"

        var testDescription: String { rawValue }
        static var possible: [SimulatedToken] { allCases.filter { $0 != .nss || NSSTokenDirectory.isInstalled } }

        func hsmToken() async throws -> ScriptedToken {
            switch self {
            case .softHSM: try ScriptedToken(try await TokenDirectory())
            case .oneStep: try ScriptedToken(try await TokenDirectory(), "one-step-kdf")
            case .nss: try ScriptedToken(try await NSSTokenDirectory())
            }
        }

        var tiers: (ec: ProtectionTier, rsa: ProtectionTier) {
            switch self {
            case .softHSM: (.c, .c)
            case .oneStep: (.a, .c)
            case .nss: (.b, .a)
            }
        }
    }

    @Test(
        "fails with decryption_failed for every invalid input at every tier, without repairs of sessions or logins",
        arguments: SimulatedToken.possible)
    func untrustedInput(_ simulated: SimulatedToken) async throws {
        let hsmToken = try await simulated.hsmToken()
        let (worker, description) = try await serving(hsmToken)
        #expect(description.tierECv1 == simulated.tiers.ec && description.tierRSAv1 == simulated.tiers.rsa)
        try await worker.mustImport(SharedForge.ecMerchant, description)
        try await worker.mustImport(SharedForge.rsaMerchant, description)
        let before = hsmToken.calls().count
        for round in 0..<6 {
            var (tag, curve, oaep) = (
                round.isMultiple(of: 2) ? try EncryptedPayment.ec() : try EncryptedPayment.rsa(),
                try EncryptedPayment.ec(), try EncryptedPayment.rsa()
            )
            tag.ciphertext[tag.ciphertext.count - 1 - round] ^= 1
            curve.keyMaterial[40 + round] ^= 1
            oaep.keyMaterial[100 + round] ^= 1
            for (what, payment) in [("tag", tag), ("curve", curve), ("OAEP", oaep)] {
                let answer = try await worker.call(payment.request)
                #expect(answer.failureKind == .decryptionFailed, "\(what): \(answer)")
            }
            for (payment, tier) in [
                (try EncryptedPayment.ec(), simulated.tiers.ec), (try EncryptedPayment.rsa(), simulated.tiers.rsa),
            ] {
                #expect(try await worker.call(payment.request) == .plaintext(payment.plaintext, tier: tier))
            }
        }
        let calls = Set(hsmToken.calls().dropFirst(before).map(\.function))
        for repair in ["C_OpenSession", "C_CloseSession", "C_Login", "C_FindObjectsInit", "C_Initialize"] {
            #expect(!calls.contains(repair), "\(repair)")
        }
        #expect(try await worker.end() == 0)
    }
}

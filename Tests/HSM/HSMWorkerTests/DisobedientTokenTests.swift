import Foundation
import KeyTypes
import TestSupport
import Testing
import TokenForge
import WorkerProtocol

/// HSM tokens that accept a private key's template but store different attributes. The worker refuses the key and
/// leaves no object.
@Suite struct DisobedientTokenTests {
    /// The attributes that protect a private key (PKCS#11 v2.40 base, table 36), each with the value that removes the
    /// protection.
    enum Weakness: String, CaseIterable, CustomTestStringConvertible {
        case insensitive = "0x103 0"
        case extractable = "0x162 1"

        var testDescription: String { self == .insensitive ? "CKA_SENSITIVE false" : "CKA_EXTRACTABLE true" }
    }

    private static var cases: [(Weakness, KeyAlgorithm)] {
        Weakness.allCases.flatMap { weakness in [KeyAlgorithm.ec, .rsa].map { (weakness, $0) } }
    }

    /// The HSM token's object files. SoftHSM stores each object in one file.
    private func objects(_ hsmToken: TokenDirectory) throws -> [String] {
        let names = FileManager.default.enumerator(atPath: hsmToken.directory.path("tokens"))?.compactMap {
            $0 as? String
        }
        return try #require(names).filter { $0.hasSuffix(".object") }.sorted()
    }

    private func merchant(_ algorithm: KeyAlgorithm) throws -> ForgedMerchant {
        algorithm == .ec ? try SharedForge.ecMerchant : try SharedForge.rsaMerchant
    }

    private func expectRefusal(_ answer: WorkerAnswer, _ worker: WorkerUnderTest) async throws {
        #expect(answer.failureKind == .importRefused, "\(answer)")
        #expect(answer.failureMessage.contains("extractable or not sensitive"), "\(answer)")
        #expect(try await worker.keys().isEmpty)
    }

    @Test("refuses and undoes an import if the HSM token stores the key with a weaker attribute", arguments: cases)
    func imported(_ weakness: Weakness, _ algorithm: KeyAlgorithm) async throws {
        let softHSM = try await TokenDirectory()
        let hsmToken = try ScriptedToken(softHSM)
        let worker = try WorkerUnderTest(hsmToken)
        let description = try await worker.open(hsmToken, sessions: 1)
        let before = try objects(softHSM)
        try hsmToken.play("template C_CreateObject \(weakness.rawValue)")
        try await expectRefusal(worker.importKey(merchant(algorithm), description), worker)
        #expect(hsmToken.calls("C_CreateObject").suffix(3).map(\.value) == [0, 0, 0])
        #expect(try objects(softHSM) == before)
        try hsmToken.play()
        try await worker.mustImport(merchant(algorithm), description)
        #expect(try await worker.keys().map(\.isProtected) == [true])
    }

    @Test("refuses and destroys a generated key pair if the HSM token gives it a weaker attribute", arguments: cases)
    func generated(_ weakness: Weakness, _ algorithm: KeyAlgorithm) async throws {
        let softHSM = try await TokenDirectory()
        let hsmToken = try ScriptedToken(softHSM)
        let worker = try WorkerUnderTest(hsmToken)
        try await worker.open(hsmToken, sessions: 1)
        let before = try objects(softHSM)
        try hsmToken.play("template C_GenerateKeyPair \(weakness.rawValue)")
        let generation = KeyGeneration(merchantIdentifier: "merchant.test", algorithm: algorithm)
        try await expectRefusal(worker.call(.generateKey(generation)), worker)
        #expect(hsmToken.calls("C_GenerateKeyPair").map(\.value) == [0])
        #expect(try objects(softHSM) == before)
        try hsmToken.play()
        #expect(try await worker.generate(algorithm, for: "merchant.test").isProtected)
    }

    @Test(
        "lists a stored key with a weaker attribute as inconsistent, and does not decrypt with it", arguments: cases)
    func listed(_ weakness: Weakness, _ algorithm: KeyAlgorithm) async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory())
        let worker = try WorkerUnderTest(hsmToken)
        let description = try await worker.open(hsmToken, sessions: 1)
        try hsmToken.play("template C_CreateObject \(weakness.rawValue)", "fault C_DestroyObject always return=0x5")
        #expect(try await worker.importKey(merchant(algorithm), description).failureKind == .importRefused)
        try hsmToken.play()
        let key = try #require(try await worker.keys().first)
        #expect(!key.isProtected)
        #expect(key.inconsistency?.contains("extractable or not sensitive") == true)
        let info = try merchant(algorithm).key.subjectPublicKeyInfo
        let payment = algorithm == .ec ? try EncryptedPayment(ec: info) : try EncryptedPayment(rsa: info)
        #expect(try await worker.call(payment.request).failureKind == .keyNotFound)
    }
}

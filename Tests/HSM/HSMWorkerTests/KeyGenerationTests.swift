import Crypto
import Foundation
import KeyTypes
import TestSupport
import Testing
import WorkerProtocol

/// Merchant keys that the real worker process generates inside the HSM token.
@Suite struct KeyGenerationTests {
    private static let merchant = "merchant.com.example.generated"

    /// Each combination of an installed HSM token and a key type.
    private static var kinds: [(TokenKind, KeyAlgorithm)] {
        TokenKind.installed.flatMap { kind in [KeyAlgorithm.ec, .rsa].map { (kind, $0) } }
    }

    private func payment(for key: KeyDescription) throws -> EncryptedPayment {
        switch key.algorithm {
        case .ec: try EncryptedPayment(ec: key.subjectPublicKeyInfo)
        case .rsa: try EncryptedPayment(rsa: key.subjectPublicKeyInfo)
        }
    }

    @Test(
        "generates a key that decrypts, identifies it by its publicKeyHash, and lists it as it was returned",
        arguments: kinds)
    func made(_ kind: TokenKind, _ algorithm: KeyAlgorithm) async throws {
        let hsmToken = try await kind.fresh()
        let worker = try await WorkerUnderTest.serving(hsmToken)
        let key = try await worker.generate(algorithm, for: Self.merchant)
        #expect(key.identifier == Array(SHA256.hash(data: key.subjectPublicKeyInfo)))
        #expect(key.label == Self.merchant)
        #expect(key.algorithm == algorithm)
        #expect(key.use == .processing)
        #expect(key.isProtected)
        #expect(key.inconsistency == nil)
        #expect(try await worker.keys() == [key])
        let payment = try payment(for: key)
        for worker in [worker, try await .serving(hsmToken)] {
            #expect(try await worker.keys() == [key])
            guard case .plaintext(let plaintext, _, _) = try await worker.call(payment.request) else {
                Issue.record("not decrypted")
                return
            }
            #expect(plaintext == payment.plaintext)
        }
        #expect(try await worker.generate(algorithm, for: Self.merchant).identifier != key.identifier)
        #expect(try await worker.keys().count == 2)
    }

    /// Returns the line of pkcs11-tool's output that shows this property of the HSM token's only private key.
    private func line(_ name: String, _ hsmToken: TokenDirectory) async throws -> String {
        let listing = try await hsmToken.tool(["--list-objects", "--type", "privkey"]).output
        let found = try #require(listing.split(separator: "\n").first { $0.contains("\(name):") })
        return found.split(separator: ":")[1].trimmingCharacters(in: .whitespaces)
    }

    @Test(
        "generates a key that other tools show as local, never extractable and limited to the necessary uses",
        arguments: [
            (KeyAlgorithm.ec, KeyUse.processing, "derive"), (.rsa, .processing, "decrypt, unwrap"),
            (.rsa, .identity, "sign"),
        ])
    func attributesSeenByOthers(_ algorithm: KeyAlgorithm, _ use: KeyUse, usage: String) async throws {
        let hsmToken = try await TokenDirectory()
        let key = try await WorkerUnderTest.serving(hsmToken).generate(algorithm, use, for: Self.merchant)
        #expect(try await line("Usage", hsmToken) == usage)
        #expect(try await line("Access", hsmToken) == "sensitive, always sensitive, never extractable, local")
        #expect(try await line("label", hsmToken) == Self.merchant)
        #expect(try await line("ID", hsmToken) == key.identifier.hexadecimal)
    }

    @Test("limits imported keys to their necessary uses", arguments: [KeyAlgorithm.ec, .rsa])
    func importedUsage(_ algorithm: KeyAlgorithm) async throws {
        let hsmToken = try await TokenDirectory()
        let worker = try WorkerUnderTest(hsmToken)
        let description = try await worker.open(hsmToken)
        try await worker.mustImport(
            algorithm == .ec ? SharedForge.ecMerchant : SharedForge.rsaMerchant, description)
        #expect(try await line("Usage", hsmToken) == (algorithm == .ec ? "derive" : "decrypt, unwrap"))
    }

    private var unfinished: String { (KeyGeneration.unfinishedIdentifier + Array(1...8)).hexadecimal }

    @Test(
        "finishes an interrupted generation at the next request, and makes no second key",
        arguments: [["pubkey"], ["pubkey", "privkey"]], [true, false])
    func finished(types: [String], onlyFinishes: Bool) async throws {
        let hsmToken = try await TokenDirectory()
        let key = try await WorkerUnderTest.serving(hsmToken).generate(.ec, for: Self.merchant)
        // Restores the state of an interrupted generation: the objects have the temporary CKA_ID.
        for type in types {
            let changed = try await hsmToken.tool([
                "--set-id", unfinished, "--type", type, "--id", key.identifier.hexadecimal,
            ])
            try #require(changed.status == 0, "\(changed)")
        }
        let worker = try await WorkerUnderTest.serving(hsmToken)
        let listed = try #require(try await worker.keys().first)
        #expect(listed.inconsistency != nil)
        #expect(try await worker.call(try payment(for: key).request).failureKind == .keyNotFound)
        #expect(try await worker.generate(.ec, for: Self.merchant, onlyFinishes: onlyFinishes) == key)
        #expect(try await worker.keys() == [key])
        #expect(try await worker.call(try payment(for: key).request).failureKind == nil)
    }

    @Test("does not touch an unfinished key of another merchant or type")
    func othersUnfinished() async throws {
        let hsmToken = try await TokenDirectory()
        let key = try await WorkerUnderTest.serving(hsmToken).generate(.ec, for: Self.merchant)
        for type in ["pubkey", "privkey"] {
            _ = try await hsmToken.tool(["--set-id", unfinished, "--type", type, "--id", key.identifier.hexadecimal])
        }
        let worker = try await WorkerUnderTest.serving(hsmToken)
        for (merchant, algorithm) in [("merchant.other", KeyAlgorithm.ec), (Self.merchant, .rsa)] {
            let generation = KeyGeneration(merchantIdentifier: merchant, algorithm: algorithm, onlyFinishes: true)
            #expect(try await worker.call(.generateKey(generation)).failureKind == .keyNotFound)
        }
        #expect(try await worker.generate(.ec, for: "merchant.other").identifier != key.identifier)
        #expect(try await worker.keys().count == 2)
    }

    @Test("removes a public key whose private key does not exist")
    func publicKeyAlone() async throws {
        let hsmToken = try await TokenDirectory()
        let key = try await WorkerUnderTest.serving(hsmToken).generate(.ec, for: Self.merchant)
        _ = try await hsmToken.tool(["--set-id", unfinished, "--type", "pubkey", "--id", key.identifier.hexadecimal])
        let deleted = try await hsmToken.tool([
            "--delete-object", "--type", "privkey", "--id", key.identifier.hexadecimal,
        ])
        try #require(deleted.status == 0, "\(deleted)")
        let worker = try await WorkerUnderTest.serving(hsmToken)
        let generation = KeyGeneration(merchantIdentifier: Self.merchant, algorithm: .ec, onlyFinishes: true)
        #expect(try await worker.call(.generateKey(generation)).failureKind == .keyNotFound)
        let left = try await hsmToken.tool(["--list-objects", "--type", "pubkey"])
        #expect(!left.output.contains(Self.merchant))
    }

    @Test("refuses to generate a key whose type would need an extractable secret if those are forbidden")
    func withoutTier() async throws {
        let hsmToken = try await TokenDirectory()
        let worker = try WorkerUnderTest(hsmToken)
        try await worker.open(hsmToken, allowExtractableSecret: false)
        let generation = KeyGeneration(merchantIdentifier: Self.merchant, algorithm: .ec)
        guard case .failed(let failure) = try await worker.call(.generateKey(generation)) else {
            Issue.record("not refused")
            return
        }
        #expect(failure.kind == .importRefused)
        for text in ["cannot serve EC_v1", "an EC key", "\"paytokend\""] {
            #expect(failure.message.contains(text), "\(failure.message)")
        }
        #expect(try await worker.keys().isEmpty)
    }
}

extension WorkerUnderTest {
    func generate(
        _ algorithm: KeyAlgorithm, _ use: KeyUse = .processing, for merchant: String, onlyFinishes: Bool = false
    ) async throws -> KeyDescription {
        let generation = KeyGeneration(
            merchantIdentifier: merchant, algorithm: algorithm, use: use, onlyFinishes: onlyFinishes)
        let answer = try await call(.generateKey(generation))
        guard case .generatedKey(let key) = answer else { throw Unexpected(description: "\(answer)") }
        return key
    }
}

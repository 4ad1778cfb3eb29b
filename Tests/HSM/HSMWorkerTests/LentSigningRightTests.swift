import Foundation
import KeyTypes
import MerchantKeys
import TestSupport
import Testing
import TokenForge
import WorkerProtocol

/// The temporary right of a processing key to sign its own certificate request, in each way in which an HSM token can
/// grant it.
@Suite struct LentSigningRightTests {
    private static let merchant = "merchant.com.example.lent"
    // The attribute 0x108 is CKA_SIGN.
    private static let noCopy = "refuse-attribute C_CopyObject 0x108"
    private static let noChange = "refuse-attribute C_SetAttributeValue 0x108"

    private static var kinds: [(TokenKind, KeyAlgorithm)] {
        TokenKind.installed.flatMap { kind in [KeyAlgorithm.ec, .rsa].map { (kind, $0) } }
    }

    private func request(
        for key: KeyDescription, _ worker: WorkerUnderTest
    ) async throws -> CertificateRequest {
        try await CertificateRequest(
            subjectPublicKeyInfo: key.subjectPublicKeyInfo, merchantIdentifier: Self.merchant
        ) { information throws(WorkerFailure) in
            try await worker.signature(of: information, by: key.identifier)
        }
    }

    private func store(
        _ request: CertificateRequest, of key: KeyDescription, _ worker: WorkerUnderTest
    ) async throws -> WorkerAnswer {
        let certificate = try SharedForge.authority.merchantCertificate(
            certificateSigningRequest: request.der,
            profile: MerchantCertificateProfile(merchantIdentifier: Self.merchant))
        return try await worker.call(
            .importCertificate(
                CertificateToStore(
                    publicKeyHash: key.identifier, merchantIdentifier: Self.merchant, certificate: certificate)))
    }

    /// Returns the uses that pkcs11-tool shows for the HSM token's only private key.
    private func usage(_ hsmToken: TokenDirectory) async throws -> String {
        let listing = try await hsmToken.tool(["--list-objects", "--type", "privkey"]).output
        let found = try #require(listing.split(separator: "\n").first { $0.contains("Usage:") })
        return found.split(separator: ":")[1].trimmingCharacters(in: .whitespaces)
    }

    private func decryptionUses(_ algorithm: KeyAlgorithm) -> String { algorithm == .ec ? "derive" : "decrypt, unwrap" }

    @Test("signs with a copy of the key, and never changes the stored key", arguments: kinds)
    func byCopy(_ kind: TokenKind, _ algorithm: KeyAlgorithm) async throws {
        let hsmToken = try ScriptedToken(try await kind.fresh(), Self.noChange)
        let worker = try await WorkerUnderTest.serving(hsmToken)
        let key = try await worker.generate(algorithm, for: Self.merchant)
        let request = try await request(for: key, worker)
        #expect(try await store(request, of: key, worker) == .done)
        #expect(hsmToken.calls("C_GenerateKeyPair").count == 1)
        #expect(hsmToken.calls("C_SetAttributeValue").allSatisfy { $0.value == 0 })
    }

    @Test(
        "gives the stored key the right to sign, and removes the right again, if the HSM token lets no copy sign",
        arguments: kinds)
    func byChange(_ kind: TokenKind, _ algorithm: KeyAlgorithm) async throws {
        let real = try await kind.fresh()
        let hsmToken = try ScriptedToken(real, Self.noCopy)
        let worker = try await WorkerUnderTest.serving(hsmToken)
        let key = try await worker.generate(algorithm, for: Self.merchant)
        _ = try await request(for: key, worker)
        #expect(hsmToken.calls("C_GenerateKeyPair").count == 1)
        if let softHSM = real as? TokenDirectory { #expect(try await usage(softHSM) == decryptionUses(algorithm)) }
    }

    @Test(
        "does not use a copy that may not sign, is stored, or has weaker protection",
        arguments: ["0x108 0", "0x1 1", "0x162 1"])
    func disobedientCopy(_ attribute: String) async throws {
        let softHSM = try await TokenDirectory()
        let hsmToken = try ScriptedToken(softHSM, "template C_CopyObject \(attribute)")
        let worker = try await WorkerUnderTest.serving(hsmToken)
        let key = try await worker.generate(.rsa, for: Self.merchant)
        let changes = hsmToken.calls("C_SetAttributeValue").count
        _ = try await request(for: key, worker)
        // The worker gave the stored key the right to sign, and then removed the right.
        #expect(hsmToken.calls("C_SetAttributeValue").count == changes + 2)
        #expect(try await usage(softHSM) == decryptionUses(.rsa))
    }

    @Test("removes the right to sign even after a failed signature", arguments: [KeyAlgorithm.ec, .rsa])
    func failing(_ algorithm: KeyAlgorithm) async throws {
        let softHSM = try await TokenDirectory()
        let hsmToken = try ScriptedToken(softHSM, Self.noCopy)
        let worker = try await WorkerUnderTest.serving(hsmToken)
        let key = try await worker.generate(algorithm, for: Self.merchant)
        try hsmToken.play(Self.noCopy, "fault C_Sign always return=0x6")
        await #expect(throws: WorkerFailure.self) { try await request(for: key, worker) }
        #expect(try await usage(softHSM) == decryptionUses(algorithm))
    }

    @Test(
        "makes a key that may sign until its certificate is stored if the HSM token grants no temporary right",
        arguments: [KeyAlgorithm.ec, .rsa])
    func fromBeginning(_ algorithm: KeyAlgorithm) async throws {
        let softHSM = try await TokenDirectory()
        let hsmToken = try ScriptedToken(softHSM, Self.noCopy, Self.noChange)
        let worker = try await WorkerUnderTest.serving(hsmToken)
        let key = try await worker.generate(algorithm, for: Self.merchant)
        #expect(key.use == .processing)
        // The first key pair could not sign, so the worker destroyed it and generated another one.
        #expect(hsmToken.calls("C_GenerateKeyPair").count == 2)
        #expect(try await worker.keys() == [key])
        #expect(try await usage(softHSM).contains("sign"))
        let request = try await request(for: key, worker)
        // From here on, the HSM token permits the worker to remove the key's right to sign.
        try hsmToken.play(Self.noCopy)
        #expect(try await store(request, of: key, worker) == .done)
        #expect(try await usage(softHSM) == decryptionUses(algorithm))
        // The HSM token now grants no temporary right again. The key has lost its permanent right, so it cannot sign.
        try hsmToken.play(Self.noCopy, Self.noChange)
        let again = await #expect(throws: WorkerFailure.self) { try await self.request(for: key, worker) }
        #expect(again?.kind == .importRefused)
    }

    @Test("signs with an earlier version's key, which may sign, and removes the right when it stores the certificate")
    func earlierVersion() async throws {
        let softHSM = try await TokenDirectory()
        let hsmToken = try ScriptedToken(softHSM)
        let worker = try WorkerUnderTest(hsmToken)
        let description = try await worker.open(hsmToken, sessions: 1)
        try hsmToken.play("template C_CreateObject 0x108 1")
        try await worker.mustImport(SharedForge.rsaMerchant, description)
        try hsmToken.play()
        let key = try #require(try await worker.keys().first)
        #expect(key.use == .processing && key.inconsistency == nil)
        #expect(try await usage(softHSM) == "decrypt, sign, unwrap")
        // The worker refuses to sign a handshake with the key.
        #expect(try await worker.signTLS(key.identifier).failureKind == .keyNotFound)
        let copies = hsmToken.calls("C_CopyObject").count
        let request = try await request(for: key, worker)
        #expect(hsmToken.calls("C_CopyObject").count == copies)
        #expect(try await store(request, of: key, worker) == .done)
        #expect(try await usage(softHSM) == "decrypt, unwrap")
        let payment = try EncryptedPayment.rsa()
        #expect(try await worker.call(payment.request) == .plaintext(payment.plaintext, tier: .c))
    }
}

import Foundation
import KeySealing
import KeyTypes
import SecretMemory
import TestSupport
import Testing
import TokenForge
import WorkerProtocol

@Suite struct KeyImportTests {
    private func opened() async throws -> (TokenDirectory, WorkerUnderTest, HSMTokenDescription) {
        let hsmToken = try await TokenDirectory()
        let worker = try WorkerUnderTest(hsmToken)
        return (hsmToken, worker, try await worker.open(hsmToken))
    }

    private func opened(_ kind: TokenKind) async throws -> (WorkerUnderTest, HSMTokenDescription) {
        let hsmToken = try await kind.fresh()
        let worker = try WorkerUnderTest(hsmToken)
        return (worker, try await worker.open(hsmToken))
    }

    /// Runs pkcs11-tool on the same HSM token after a login, as any holder of the PIN can.
    private func tool(_ hsmToken: TokenDirectory, _ arguments: [String]) async throws -> ProgramResult {
        try await Program.run(
            Program.installed("pkcs11-tool"),
            [
                "--module", SoftHSM.libraryPath, "--token-label", TokenDirectory.label, "--login", "--pin",
                TokenDirectory.pin,
            ]
                + arguments, environment: hsmToken.environment)
    }

    @Test(
        "lists an imported key as protected and consistent, with its publicKeyHash and certificate",
        arguments: TokenKind.installed)
    func listed(_ kind: TokenKind) async throws {
        let (worker, description) = try await opened(kind)
        for merchant in [try SharedForge.ecMerchant, try SharedForge.rsaMerchant] {
            try await worker.mustImport(merchant, description)
        }
        let keys = try await worker.keys()
        #expect(keys.count == 2)
        for (merchant, algorithm) in [
            (try SharedForge.ecMerchant, KeyAlgorithm.ec), (try SharedForge.rsaMerchant, .rsa),
        ] {
            let key = try #require(keys.first { $0.identifier == merchant.merchant.publicKeyHash })
            #expect(
                key
                    == KeyDescription(
                        identifier: merchant.merchant.publicKeyHash, label: merchant.merchant.identifier,
                        algorithm: algorithm,
                        subjectPublicKeyInfo: merchant.key.subjectPublicKeyInfo, certificates: [merchant.certificate],
                        isProtected: true, inconsistency: nil))
        }
    }

    @Test("imports a private key that other tools show as sensitive and not extractable")
    func attributesSeenByOthers() async throws {
        let (hsmToken, worker, description) = try await opened()
        try await worker.mustImport(SharedForge.ecMerchant, description)
        let listing = try await tool(hsmToken, ["--list-objects", "--type", "privkey"])
        let access = try #require(listing.output.split(separator: "\n").first { $0.contains("Access:") })
        #expect(access.contains("sensitive"))
        #expect(!access.contains("extractable"))
    }

    @Test("accepts a repeated import, and stores nothing twice", arguments: TokenKind.installed)
    func idempotent(_ kind: TokenKind) async throws {
        let (worker, description) = try await opened(kind)
        for _ in 0..<2 { try await worker.mustImport(SharedForge.ecMerchant, description) }
        let keys = try await worker.keys()
        #expect(keys.count == 1)
        #expect(keys.first?.certificates.count == 1)
    }

    @Test("refuses to import a stored key with another certificate, but stores that certificate alone once")
    func renewedCertificate() async throws {
        let (_, worker, description) = try await opened()
        let merchant = try SharedForge.ecMerchant
        try await worker.mustImport(merchant, description)
        let renewed = try SharedForge.authority.merchantCertificate(
            subjectPublicKeyInfo: merchant.key.subjectPublicKeyInfo,
            profile: MerchantCertificateProfile(merchantIdentifier: "merchant.com.example.shop"))
        let again = try await worker.importKey(pkcs8: merchant.key.pkcs8, certificate: renewed, description)
        #expect(again.failureKind == .importRefused)
        let request = WorkerRequest.importCertificate(
            CertificateToStore(
                publicKeyHash: merchant.merchant.publicKeyHash, merchantIdentifier: "merchant.test",
                certificate: renewed))
        for _ in 0..<2 { #expect(try await worker.call(request) == .done) }
        #expect(try await worker.keys().first?.certificates == [merchant.certificate, renewed])
    }

    @Test("refuses an invalid certificate, one of another key, and one whose key is not in the HSM token")
    func foreignCertificate() async throws {
        let (_, worker, description) = try await opened()
        let (ec, rsa) = (try SharedForge.ecMerchant, try SharedForge.rsaMerchant)
        try await worker.mustImport(ec, description)
        func answer(_ hash: [UInt8], _ certificate: [UInt8]) async throws -> WorkerFailure.Kind? {
            try await worker.call(
                .importCertificate(
                    CertificateToStore(
                        publicKeyHash: hash, merchantIdentifier: "merchant.test", certificate: certificate))
            ).failureKind
        }
        #expect(try await answer(ec.merchant.publicKeyHash, rsa.certificate) == .importRefused)
        #expect(try await answer(rsa.merchant.publicKeyHash, rsa.certificate) == .keyNotFound)
        #expect(try await answer(ec.merchant.publicKeyHash, [0x30, 0x03, 1, 2, 3]) == .importRefused)
    }

    @Test("refuses a private key that does not match the certificate, and leaves no object")
    func mismatch() async throws {
        let (hsmToken, worker, description) = try await opened()
        let otherKey = try ForgeKey(generating: .p256)
        for (pkcs8, certificate) in [
            (otherKey.pkcs8, try SharedForge.ecMerchant.certificate),
            (try SharedForge.rsaMerchant.key.pkcs8, try SharedForge.ecMerchant.certificate),
            (otherKey.pkcs8.dropLast() + [], try SharedForge.ecMerchant.certificate),
            (otherKey.pkcs8, [UInt8](repeating: 0x30, count: 40)),
        ] {
            let answer = try await worker.importKey(pkcs8: Array(pkcs8), certificate: certificate, description)
            #expect(answer.failureKind == .importRefused, "\(answer)")
        }
        #expect(try await worker.keys().isEmpty)
        #expect(try await tool(hsmToken, ["--list-objects"]).output.contains("Object") == false)
    }

    @Test("detects an RSA key with inconsistent private numbers by the pair test, and leaves no object")
    func brokenPair() async throws {
        let (hsmToken, worker, description) = try await opened()
        let merchant = try SharedForge.rsaMerchant
        // The test changes one bit of the private exponent, which follows the public exponent 65537. It also changes one
        // bit of the coefficient, the last number. A calculation with either of these numbers then fails.
        var pkcs8 = merchant.key.pkcs8
        let publicExponent: [UInt8] = [2, 3, 1, 0, 1]
        let place = try #require(pkcs8.indices.first { pkcs8[$0...].starts(with: publicExponent) })
        pkcs8[place + 105] ^= 1
        pkcs8[pkcs8.count - 20] ^= 1
        let answer = try await worker.importKey(pkcs8: pkcs8, certificate: merchant.certificate, description)
        #expect(answer.failureKind == .importRefused, "\(answer)")
        #expect(try await tool(hsmToken, ["--list-objects"]).output.contains("Object") == false)
        try await worker.mustImport(merchant, description)
    }

    @Test("refuses a key that was sealed to an earlier worker or for another certificate")
    func sealing() async throws {
        let (hsmToken, worker, description) = try await opened()
        let merchant = try SharedForge.ecMerchant
        let earlier = try await WorkerUnderTest(hsmToken).open(hsmToken)
        #expect(earlier.importKey != description.importKey)
        #expect(try await worker.importKey(merchant, earlier).failureKind == .importRefused)
        let sealed = try KeySealing.seal(
            privateKey: SecretBytes(copying: merchant.key.pkcs8), authenticating: SharedForge.rsaMerchant.certificate,
            to: description.importKey)
        let moved = try await worker.call(
            .importPrivateKey(
                PrivateKeyImport(
                    merchantIdentifier: "m", certificate: merchant.certificate,
                    encapsulatedKey: sealed.encapsulatedKey, sealedPrivateKey: sealed.sealed)))
        #expect(moved.failureKind == .importRefused)
        #expect(try await worker.keys().isEmpty)
    }

    @Test("lists a foreign key with a wrong CKA_ID, an extractable one, or one without a public key as inconsistent")
    func inconsistent() async throws {
        let (hsmToken, _, _) = try await opened()
        let generated = try await tool(
            hsmToken,
            ["--keypairgen", "--key-type", "EC:prime256v1", "--id", "0102", "--label", "wrong", "--usage-derive"])
        try #require(generated.status == 0, "\(generated)")
        let orphan = try await tool(
            hsmToken,
            ["--keypairgen", "--key-type", "EC:prime256v1", "--id", "0304", "--label", "orphan", "--usage-derive"])
        try #require(orphan.status == 0)
        let removed = try await tool(hsmToken, ["--delete-object", "--type", "pubkey", "--id", "0304"])
        try #require(removed.status == 0)
        let merchant = try SharedForge.ecMerchant
        let file = hsmToken.directory
        try file.write(merchant.key.pkcs8, to: "key.der")
        let identifier = merchant.merchant.publicKeyHash.hexadecimal
        try file.write(merchant.key.subjectPublicKeyInfo, to: "pub.der")
        for arguments in [
            ["--write-object", file.path("key.der"), "--type", "privkey", "--extractable"],
            ["--write-object", file.path("pub.der"), "--type", "pubkey"],
        ] {
            let written = try await tool(
                hsmToken, arguments + ["--id", identifier, "--label", "open", "--usage-derive"])
            try #require(written.status == 0, "\(written)")
        }
        let worker = try WorkerUnderTest(hsmToken)
        try await worker.open(hsmToken)
        let keys = try await worker.keys()
        func inconsistency(_ label: String) -> String? { keys.first { $0.label == label }?.inconsistency }
        #expect(inconsistency("wrong")?.contains("CKA_ID") == true)
        #expect(inconsistency("orphan")?.contains("public key") == true)
        #expect(inconsistency("open")?.contains("extractable") == true)
        #expect(keys.first { $0.label == "open" }?.isProtected == false)
        let payment = try EncryptedPayment(ec: merchant.key.subjectPublicKeyInfo)
        #expect(try await worker.call(payment.request).failureKind == .keyNotFound)
    }

    @Test("detects a public key that belongs to another key by the pair test")
    func wrongPair() async throws {
        let (hsmToken, _, _) = try await opened()
        let (merchant, otherKey) = (try SharedForge.ecMerchant, try ForgeKey(generating: .p256))
        let file = hsmToken.directory
        try file.write(otherKey.pkcs8, to: "key.der")
        try file.write(merchant.key.subjectPublicKeyInfo, to: "pub.der")
        let identifier = merchant.merchant.publicKeyHash.hexadecimal
        for arguments in [
            ["--write-object", file.path("key.der"), "--type", "privkey"],
            ["--write-object", file.path("pub.der"), "--type", "pubkey"],
        ] {
            let written = try await tool(hsmToken, arguments + ["--id", identifier, "--usage-derive"])
            try #require(written.status == 0, "\(written)")
        }
        let worker = try WorkerUnderTest(hsmToken)
        try await worker.open(hsmToken)
        let key = try #require(try await worker.keys().first)
        #expect(key.identifier == merchant.merchant.publicKeyHash)
        #expect(key.inconsistency?.contains("do not match") == true)
        let payment = try EncryptedPayment(ec: merchant.key.subjectPublicKeyInfo)
        #expect(try await worker.call(payment.request).failureKind == .keyNotFound)
    }
}

import Encodings
import Foundation
import KeyTesting
import KeyTypes
import PKCS11
import SecretMemory
import TestSupport
import Testing
import TokenForge
import WorkerProtocol

@testable import HSMWorker

/// The permanent use of a key. An identity key never decrypts, and a processing key never signs a TLS handshake.
@Suite struct IdentityKeyTests {
    private static let merchant = "merchant.com.example.identity"

    @Test(
        "makes an identity key that signs, and lists it with its use even after a restart",
        arguments: TokenKind.installed
    )
    func made(_ kind: TokenKind) async throws {
        let hsmToken = try await kind.fresh()
        let worker = try await WorkerUnderTest.serving(hsmToken)
        let key = try await worker.generate(.rsa, .identity, for: Self.merchant)
        #expect(key.use == .identity && key.inconsistency == nil && key.isProtected)
        let processing = try await worker.generate(.rsa, for: Self.merchant)
        for worker in [worker, try await .serving(hsmToken)] {
            #expect(Set(try await worker.keys().map(\.identifier)) == [key.identifier, processing.identifier])
            #expect(try await worker.call(.describeKey(publicKeyHash: key.identifier)) == .keys([key]))
            guard case .tlsSignature = try await worker.signTLS(key.identifier) else {
                Issue.record("not signed")
                return
            }
        }
    }

    @Test("signs with an imported identity key, and lists it with its certificate", arguments: TokenKind.installed)
    func imported(_ kind: TokenKind) async throws {
        let hsmToken = try await kind.fresh()
        let worker = try WorkerUnderTest(hsmToken)
        let description = try await worker.open(hsmToken)
        let merchant = try IdentityKeys.merchant
        try await worker.mustImportIdentity(merchant, description)
        let key = try #require(try await worker.keys().first)
        #expect(key.use == .identity && key.inconsistency == nil && key.certificates == [merchant.certificate])
        guard case .tlsSignature = try await worker.signTLS(key.identifier) else {
            Issue.record("not signed")
            return
        }
    }

    @Test("refuses to generate or import an EC identity key")
    func notEC() async throws {
        let hsmToken = try await TokenDirectory()
        let worker = try WorkerUnderTest(hsmToken)
        let description = try await worker.open(hsmToken)
        let generation = KeyGeneration(merchantIdentifier: Self.merchant, algorithm: .ec, use: .identity)
        for answer in [
            try await worker.call(.generateKey(generation)),
            try await worker.importIdentity(SharedForge.ecMerchant, description),
        ] {
            #expect(answer.failureKind == .importRefused)
            #expect(answer.failureMessage.contains("RSA with 2048 bits"), "\(answer)")
        }
        #expect(try await worker.keys().isEmpty)
    }

    @Test("refuses to import a key a second time for the other use", arguments: [KeyUse.processing, .identity])
    func oneUse(_ first: KeyUse) async throws {
        let hsmToken = try await TokenDirectory()
        let worker = try WorkerUnderTest(hsmToken)
        let description = try await worker.open(hsmToken)
        let merchant = try IdentityKeys.merchant
        for use in [first, first == .identity ? .processing : .identity] {
            let answer = try await worker.importKey(
                pkcs8: merchant.key.pkcs8, certificate: merchant.certificate, description, use: use)
            if use == first {
                #expect(answer == .done)
            } else {
                #expect(answer.failureKind == .importRefused)
                #expect(answer.failureMessage.contains("for another use"), "\(answer)")
            }
        }
        #expect(try await worker.keys().map(\.use) == [first])
    }

    @Test("refuses to decrypt with an identity key before it calls the HSM token")
    func neverDecrypts() async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory())
        let worker = try WorkerUnderTest(hsmToken)
        let description = try await worker.open(hsmToken, sessions: 1)
        let merchant = try IdentityKeys.merchant
        try await worker.mustImportIdentity(merchant, description)
        var payment = try EncryptedPayment(rsa: merchant.key.subjectPublicKeyInfo)
        let before = hsmToken.calls().count
        #expect(try await worker.call(payment.request).failureKind == .keyNotFound)
        // Only EC_v1 has an otherInfo. A request of the form of EC_v1 for the RSA key must fail too.
        payment.otherInfo = [1]
        #expect(try await worker.call(payment.request).failureKind == .keyNotFound)
        #expect(hsmToken.calls().count == before)
        // A worker that has not listed the key yet also refuses to decrypt with it.
        let later = try WorkerUnderTest(hsmToken)
        try await later.open(hsmToken, sessions: 1)
        let listed = hsmToken.calls().count
        payment.otherInfo = []
        #expect(try await later.call(payment.request).failureKind == .keyNotFound)
        let calls = Set(hsmToken.calls().dropFirst(listed).map(\.function))
        for use in ["C_DecryptInit", "C_Decrypt", "C_UnwrapKey", "C_DeriveKey"] { #expect(!calls.contains(use)) }
    }

    @Test("refuses to sign with a processing key before it calls the HSM token")
    func neverSigns() async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory())
        let worker = try WorkerUnderTest(hsmToken)
        let description = try await worker.open(hsmToken, sessions: 1)
        try await worker.mustImport(SharedForge.rsaMerchant, description)
        try await worker.mustImport(SharedForge.ecMerchant, description)
        let before = hsmToken.calls().count
        for merchant in [try SharedForge.rsaMerchant, try SharedForge.ecMerchant] {
            let answer = try await worker.signTLS(merchant.merchant.publicKeyHash)
            #expect(answer.failureKind == .keyNotFound)
            #expect(answer.failureMessage.contains("for another use: it is a processing key"), "\(answer)")
        }
        #expect(hsmToken.calls().count == before)
        #expect(try await worker.signTLS([UInt8](repeating: 1, count: 32)).failureKind == .keyNotFound)
    }

    @Test("does not use a working copy whose rights differ from those of its key", arguments: ["0x105 1", "0x108 0"])
    func otherCopy(_ attribute: String) async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory(), "template C_CopyObject \(attribute)")
        let worker = try WorkerUnderTest(hsmToken)
        let description = try await worker.open(hsmToken, sessions: 1)
        let before = hsmToken.calls().count
        try await worker.mustImportIdentity(IdentityKeys.merchant, description)
        let calls = hsmToken.calls().dropFirst(before)
        let copied = try #require(calls.firstIndex { $0.function == "C_CopyObject" && $0.value == 0 })
        #expect(calls[copied...].contains { $0.function == "C_DestroyObject" && $0.value == 0 })
        guard case .tlsSignature = try await worker.signTLS(IdentityKeys.merchant.merchant.publicKeyHash) else {
            Issue.record("the key itself does not sign")
            return
        }
    }

    @Test("supports RSA identity keys, but no RSA processing keys, on an HSM token without a tier for RSA_v1")
    func withoutTier() async throws {
        let hsmToken = try await TokenDirectory()
        let worker = try WorkerUnderTest(hsmToken)
        let description = try await worker.open(hsmToken, allowExtractableSecret: false)
        try #require(description.tierRSAv1 == nil)
        #expect(try await worker.generate(.rsa, .identity, for: Self.merchant).use == .identity)
        let merchant = try IdentityKeys.merchant
        try await worker.mustImportIdentity(merchant, description)
        #expect(try await worker.keys().map(\.inconsistency) == [nil, nil])
        #expect(try await worker.importKey(SharedForge.rsaMerchant, description).failureKind == .importRefused)
    }

    @Test("refuses identity keys on an HSM token that makes no RSA signatures, and explains why")
    func withoutSignatures() async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory(), "fault C_SignInit always return=0x70")
        let worker = try WorkerUnderTest(hsmToken)
        let description = try await worker.open(hsmToken)
        #expect(description.tlsSignatures == TLSSignatures(pss: .none, pkcs1: false))
        #expect(description.tierECv1 == .c && description.tierRSAv1 == .c)
        #expect(description.shortcomings.count == 2)
        for text in ["rsa_pss_rsae_sha256", "rsa_pkcs1_sha256", "CKM_RSA_X_509", "CKR_MECHANISM_INVALID"] {
            #expect(description.shortcomings.contains { $0.contains(text) }, "\(description.shortcomings)")
        }
        let generation = KeyGeneration(merchantIdentifier: Self.merchant, algorithm: .rsa, use: .identity)
        for answer in [
            try await worker.importIdentity(IdentityKeys.merchant, description),
            try await worker.call(.generateKey(generation)),
        ] {
            guard case .failed(let failure) = answer else {
                Issue.record("not refused: \(answer)")
                continue
            }
            #expect(failure.kind == .importRefused)
            #expect(failure.message.contains("makes no RSA signatures") && failure.message.contains("an identity key"))
            #expect(failure.message.contains("\"\(description.label)\""), "\(failure.message)")
        }
    }

    @Test(
        "refuses an identity key to which the HSM token gives other rights than signing",
        arguments: ["0x105 1", "0x107 1", "0x10c 1", "0x108 0"])
    func disobedient(_ attribute: String) async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory())
        let worker = try WorkerUnderTest(hsmToken)
        let description = try await worker.open(hsmToken, sessions: 1)
        try hsmToken.play("template C_CreateObject \(attribute)", "template C_GenerateKeyPair \(attribute)")
        let generation = KeyGeneration(merchantIdentifier: Self.merchant, algorithm: .rsa, use: .identity)
        for answer in [
            try await worker.importIdentity(IdentityKeys.merchant, description),
            try await worker.call(.generateKey(generation)),
        ] {
            #expect(answer.failureKind == .importRefused)
            #expect(answer.failureMessage.contains("other uses of the identity key"), "\(answer)")
        }
        #expect(try await worker.keys().isEmpty)
    }
}

/// The use of a key as the HSM token stores it, with the PKCS#11 library loaded into this process.
@Suite struct KeyUseTests {
    private func stored(
        _ merchant: ForgedMerchant, _ use: KeyUse, in session: inout Session
    ) throws -> ObjectHandle {
        let key = try PrivateKeyInfo(pkcs8: SecretBytes(copying: merchant.key.pkcs8))
        let objects = KeyObjects(
            publicKey: try SubjectPublicKeyInfo(der: merchant.key.subjectPublicKeyInfo), label: "merchant.test",
            use: use)
        _ = try session.createObject(objects.templates().publicKey)
        return try session.createObject(objects.templates().privateKey, secrets: key.secrets)
    }

    private func listed(
        _ harness: OpenTokenHarness, _ merchant: ForgedMerchant
    ) throws -> KeyDescription {
        var session = try harness.softHSM.openSession()
        let keys = try harness.hsmToken.listKeys(in: &session)
        return try #require(keys.first { $0.identifier == merchant.merchant.publicKeyHash })
    }

    /// Runs `body` in a session of each installed library. The test's process loads the library.
    private func inEachLibrary(_ body: (inout Session) throws -> Void) throws {
        var session = try SoftHSM.shared().freshToken().openSession()
        try body(&session)
        if NSSSoftoken.isInstalled { try NSSSoftoken.alone(body) }
    }

    /// Makes session objects of the test key pair, with the attributes that the key's use requires.
    private func pair(
        _ use: KeyUse, _ scheme: RestorationScheme = .rsaV1, in session: inout Session
    ) throws -> (TestKeyPair, PrivateKeyEntry) {
        let pair = try TestKeyPair(for: scheme, use: use, in: &session)
        let entry = pair.entry
        try session.setAttributes(
            Template(
                KeyObjects.privateKeyUsage(scheme.algorithm, use).filter {
                    ![AttributeType.sensitive, .extractable].contains($0.type)
                }), of: entry.object)
        return (pair, entry)
    }

    @Test("refuses to decrypt, unwrap or derive with an identity key even through PKCS#11 alone")
    func identityOnly() throws { try inEachLibrary(identityOnly) }

    private func identityOnly(_ session: inout Session) throws {
        let (pair, key) = try pair(.identity, in: &session)
        defer { pair.destroy(in: &session) }
        #expect(try session.keyRights(of: key.object).use(of: .rsa) == .identity)
        let wrapped = try #require(TestTransaction.wrappedKey(for: key.publicKey, isPaddedWell: true))
        for mechanism in [Mechanism.rsaX509, .rsaOAEPSHA256] {
            #expect(throws: CallError.self) {
                _ = try session.decrypt(wrapped, mechanism, key: key.object, capacity: 256)
            }
            #expect(throws: CallError.self) {
                try session.unwrapKey(wrapped, mechanism, with: key.object, Template(TransactionKey.attributes))
            }
        }
        #expect(throws: CallError.self) {
            try session.deriveKey(.sha256KeyDerivation, from: key.object, Template(TransactionKey.attributes))
        }
        for method in RSASignatureMethod.allCases {
            #expect(try method.sign([1, 2, 3], with: key, in: &session)?.count == 256, "\(method)")
        }
        // Each RSA tier fails to decrypt with an identity key.
        let transaction = try TestTransaction(for: key.publicKey)
        for tier in [OAEPInTokenTier(), BareRSATier(), UnwrappedKeyTier(form: .withVectorBits)] as [any RestorationTier]
        {
            #expect(throws: RestorationError.self) { try tier.open(transaction.input, with: key, in: &session) }
        }
    }

    @Test("refuses to sign with a processing key even through PKCS#11 alone", arguments: RestorationScheme.allCases)
    func processingOnly(_ scheme: RestorationScheme) throws {
        try inEachLibrary { session in try processingOnly(scheme, &session) }
    }

    private func processingOnly(_ scheme: RestorationScheme, _ session: inout Session) throws {
        let (pair, key) = try pair(.processing, scheme, in: &session)
        defer { pair.destroy(in: &session) }
        #expect(try session.keyRights(of: key.object).use(of: scheme.algorithm) == .processing)
        let mechanisms =
            scheme.algorithm == .ec
            ? [.ecdsa] : RSASignatureMethod.allCases.map { $0.mechanism(for: [1, 2, 3]).mechanism }
        for mechanism in mechanisms {
            #expect(throws: CallError.self) {
                try session.sign([UInt8](repeating: 0, count: 32), mechanism, key: key.object)
            }
        }
        // A temporary right allows the key to sign its certificate request.
        let method = RSASignatureMethod.pkcs1Hashing.mechanism(for: [1, 2, 3])
        let signature = try session.signRequest(
            scheme.algorithm == .ec ? [UInt8](repeating: 7, count: 32) : method.data,
            scheme.algorithm == .ec ? .ecdsa : method.mechanism, with: key.object)
        #expect(signature.count == (scheme.algorithm == .ec ? 64 : 256))
        #expect(try session.keyRights(of: key.object).signs == false)
    }

    @Test("gives a key's working copy exactly the rights of the key", arguments: [KeyUse.processing, .identity])
    func copies(_ use: KeyUse) throws {
        let harness = try OpenTokenHarness()
        var session = try harness.softHSM.openSession()
        let merchant = try IdentityKeys.merchant
        let object = try stored(merchant, use, in: &session)
        #expect(try listed(harness, merchant).use == use)
        let entry = try #require(harness.hsmToken.keys[merchant.merchant.publicKeyHash])
        try #require(entry.hasCopy && entry.use == use)
        #expect(try session.keyRights(of: entry.working) == session.keyRights(of: object))
    }

    @Test("determines a key's use from its attributes, even after they change")
    func readFromToken() throws {
        let harness = try OpenTokenHarness()
        var session = try harness.softHSM.openSession()
        let merchant = try IdentityKeys.merchant
        let object = try stored(merchant, .identity, in: &session)
        #expect(try listed(harness, merchant).use == .identity)
        // A holder of the PIN can change the attributes. A key that can decrypt is no longer an identity key.
        try session.setAttributes([.decrypt(true)], of: object)
        #expect(try listed(harness, merchant).use == .processing)
        #expect(harness.hsmToken.keys[merchant.merchant.publicKeyHash]?.use == .processing)
        try session.setAttributes([.decrypt(false)], of: object)
        #expect(try listed(harness, merchant).use == .identity)
        #expect(harness.hsmToken.keys[merchant.merchant.publicKeyHash]?.use == .identity)
        try session.setAttributes([.sign(false)], of: object)
        let without = try listed(harness, merchant)
        #expect(without.inconsistency?.contains("it cannot be used") == true, "\(without.inconsistency ?? "")")
        #expect(harness.hsmToken.keys[merchant.merchant.publicKeyHash] == nil)
    }

    @Test("lists an EC key that only signs as a service key, even if it was a processing key")
    func signingEC() throws {
        let harness = try OpenTokenHarness()
        var session = try harness.softHSM.openSession()
        let merchant = try SharedForge.ecMerchant
        for object in try session.findObjects(matching: [.objectClass(.privateKey), .token(true)]) {
            try session.setAttributes([.derive(false), .sign(true)], of: object)
        }
        let key = try listed(harness, merchant)
        #expect(key.use == .service && key.inconsistency == nil, "\(key.inconsistency ?? "")")
        #expect(harness.hsmToken.keys[merchant.merchant.publicKeyHash]?.use == .service)
    }
}

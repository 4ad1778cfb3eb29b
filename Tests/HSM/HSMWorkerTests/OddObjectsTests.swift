import Encodings
import KeyTypes
import PKCS11
import SecretMemory
import TestSupport
import Testing
import TokenForge
import WorkerProtocol

@testable import HSMWorker

/// Unusual objects, which must not prevent the listing of the HSM token's other keys.
@Suite struct OddObjectsTests {
    /// Returns the keys as the daemon receives them: encoded into a frame and decoded.
    private func list(_ harness: OpenTokenHarness) throws -> [KeyDescription] {
        var session = try harness.softHSM.openSession()
        let answer = try #require(try harness.hsmToken.listKeys(nil, in: &session))
        let bytes = try answer.encoded(identifier: 1)
        var decoder = FrameDecoder(maximumLength: FieldBound.answerFrame)
        decoder.append(bytes[...])
        let frame = try #require(try decoder.next())
        guard case .keys(let keys) = try WorkerAnswer(frame) else {
            Issue.record("no single page of keys")
            return []
        }
        return keys
    }

    @Test(
        "truncates an oversized label between two characters",
        arguments: [
            ("👩‍👩‍👧‍👦", 25), ("é", 2), ("漢", 3), ("x", 1),
        ])
    func longLabel(_ character: Character, _ byteCount: Int) throws {
        try #require(String(character).utf8.count == byteCount)
        let harness = try OpenTokenHarness()
        var session = try harness.softHSM.openSession()
        let label = String(repeating: character, count: FieldBound.name)
        for object in try session.findObjects(matching: [.identifier(SharedForge.ecMerchant.merchant.publicKeyHash)]) {
            try session.setAttributes([.label(label)], of: object)
        }
        try OpenTokenHarness.store(SharedForge.rsaMerchant, in: &session)
        let keys = try list(harness)
        #expect(keys.map(\.inconsistency) == [nil, nil])
        let long = try #require(keys.first { $0.algorithm == .ec }?.label)
        #expect(long == String(repeating: character, count: FieldBound.name / byteCount))
        #expect(keys.contains { $0.algorithm == .rsa && $0.label == "merchant.test" })
    }

    @Test("truncates an oversized label of a single character between two code points")
    func oneLongCharacter() throws {
        let harness = try OpenTokenHarness()
        var session = try harness.softHSM.openSession()
        let label = "a" + String(repeating: "\u{0301}", count: FieldBound.name)
        try #require(label.count == 1)
        for object in try session.findObjects(matching: [.identifier(SharedForge.ecMerchant.merchant.publicKeyHash)]) {
            try session.setAttributes([.label(label)], of: object)
        }
        let found = try #require(try list(harness).first?.label)
        #expect(found.utf8.count == FieldBound.name - 1)
        #expect(label.unicodeScalars.starts(with: found.unicodeScalars))
    }

    @Test(
        "lists a key that requires the PIN for each use as such, and lists the other keys",
        arguments: [KeyUse.processing, .identity])
    func alwaysAuthenticated(_ use: KeyUse) throws {
        let harness = try OpenTokenHarness()
        var session = try harness.softHSM.openSession()
        let merchant = try SharedForge.rsaMerchant
        let objects = KeyObjects(
            publicKey: try SubjectPublicKeyInfo(der: merchant.key.subjectPublicKeyInfo), label: "merchant.test",
            use: use)
        _ = try session.createObject(objects.templates().publicKey)
        var template = objects.templates().privateKey
        template.append(Attribute(.alwaysAuthenticate, .flag(true)))
        _ = try session.createObject(
            template, secrets: PrivateKeyInfo(pkcs8: SecretBytes(copying: merchant.key.pkcs8)).secrets)
        let keys = try list(harness)
        #expect(keys.count == 2 && keys.contains { $0.algorithm == .ec && $0.inconsistency == nil })
        let odd = try #require(keys.first { $0.algorithm == .rsa })
        #expect(odd.inconsistency?.contains("CKA_ALWAYS_AUTHENTICATE") == true, "\(odd.inconsistency ?? "")")
        #expect(harness.hsmToken.keys[merchant.merchant.publicKeyHash] == nil)
    }

    @Test(
        "lists a key with an oversized certificate as inconsistent, and lists the other keys",
        arguments: [FieldBound.certificate + 1, 65_537, 300_000])
    func largeCertificate(_ byteCount: Int) throws {
        let harness = try OpenTokenHarness()
        var session = try harness.softHSM.openSession()
        let merchant = try SharedForge.ecMerchant
        let objects = KeyObjects(
            publicKey: try SubjectPublicKeyInfo(der: merchant.key.subjectPublicKeyInfo), label: "merchant.test")
        let fields = try CertificateAttributes(der: merchant.certificate)
        let large = [UInt8](repeating: 0x30, count: byteCount)
        _ = try session.createObject(objects.certificateTemplate(large, fields))
        _ = try session.createObject(objects.certificateTemplate(merchant.certificate, fields))
        try OpenTokenHarness.store(SharedForge.rsaMerchant, in: &session)
        let keys = try list(harness)
        #expect(keys.count == 2)
        let odd = try #require(keys.first { $0.algorithm == .ec })
        #expect(odd.certificates == [merchant.certificate])
        #expect(odd.inconsistency?.contains("larger than 16384 bytes") == true, "\(odd.inconsistency ?? "")")
        #expect(keys.contains { $0.algorithm == .rsa && $0.inconsistency == nil })
    }

    @Test("returns a certificate at the size limit, and returns an invalid one for the daemon to report")
    func boundaryCertificate() throws {
        let harness = try OpenTokenHarness()
        var session = try harness.softHSM.openSession()
        let merchant = try SharedForge.ecMerchant
        let objects = KeyObjects(
            publicKey: try SubjectPublicKeyInfo(der: merchant.key.subjectPublicKeyInfo), label: "merchant.test")
        let none = [UInt8](repeating: 0x30, count: FieldBound.certificate)
        _ = try session.createObject(
            objects.certificateTemplate(none, try CertificateAttributes(der: merchant.certificate)))
        let key = try #require(try list(harness).first)
        #expect(key.certificates == [none] && key.inconsistency == nil)
    }

    @Test("lists a key with more certificates than an answer holds as inconsistent")
    func manyCertificates() throws {
        let harness = try OpenTokenHarness()
        var session = try harness.softHSM.openSession()
        let merchant = try SharedForge.ecMerchant
        let objects = KeyObjects(
            publicKey: try SubjectPublicKeyInfo(der: merchant.key.subjectPublicKeyInfo), label: "merchant.test")
        let fields = try CertificateAttributes(der: merchant.certificate)
        for number in 0...FieldBound.certificatesPerKey {
            _ = try session.createObject(
                objects.certificateTemplate(merchant.certificate + [UInt8(number)], fields))
        }
        let key = try #require(try list(harness).first)
        #expect(key.certificates.isEmpty)
        #expect(key.inconsistency?.contains("more than 32 certificates") == true)
    }

    @Test("lists the other keys despite an object with an oversized identifier or label")
    func largeAttributes() throws {
        let harness = try OpenTokenHarness()
        var session = try harness.softHSM.openSession()
        let endless = [UInt8](repeating: 0x61, count: 70_000)
        for objectClass: ObjectClass in [.publicKey, .privateKey] {
            for object in try session.findObjects(matching: [.objectClass(objectClass)]) {
                try session.setAttributes([.identifier(endless)], of: object)
            }
        }
        try OpenTokenHarness.store(SharedForge.rsaMerchant, in: &session)
        for object in try session.findObjects(matching: [.identifier(SharedForge.rsaMerchant.merchant.publicKeyHash)]) {
            try session.setAttributes([.label(String(repeating: "x", count: 70_000))], of: object)
        }
        let keys = try list(harness)
        #expect(keys.contains { $0.algorithm == .rsa && $0.inconsistency == nil && $0.label.isEmpty })
        #expect(keys.contains { $0.algorithm == .ec && $0.inconsistency != nil })
    }

    @Test("lists an EC key that may only sign as a service key, which neither decrypts nor signs for a session")
    func signingECKey() throws {
        let harness = try OpenTokenHarness()
        var session = try harness.softHSM.openSession()
        let key = try ForgeKey(generating: .p256)
        let publicKey = try SubjectPublicKeyInfo(der: key.subjectPublicKeyInfo)
        let templates = KeyObjects(publicKey: publicKey, label: "merchant.test", use: .identity).templates()
        _ = try session.createObject(templates.publicKey)
        _ = try session.createObject(
            templates.privateKey, secrets: PrivateKeyInfo(pkcs8: SecretBytes(copying: key.pkcs8)).secrets)
        let found = try #require(try list(harness).first { $0.identifier == publicKey.publicKeyHash })
        #expect(found.use == .service && found.inconsistency == nil, "\(found.inconsistency ?? "")")
        #expect(harness.hsmToken.keys[publicKey.publicKeyHash]?.use == .service)
    }

    @Test("serves one of two private keys with one CKA_ID, and lists the other as unusable")
    func twoPrivateKeys() throws {
        let harness = try OpenTokenHarness()
        var session = try harness.softHSM.openSession()
        let merchant = try SharedForge.ecMerchant
        let objects = KeyObjects(
            publicKey: try SubjectPublicKeyInfo(der: merchant.key.subjectPublicKeyInfo), label: "merchant.test")
        _ = try session.createObject(
            objects.templates().privateKey,
            secrets: PrivateKeyInfo(pkcs8: SecretBytes(copying: merchant.key.pkcs8)).secrets)
        let faults = try list(harness).map(\.inconsistency)
        #expect(faults.count == 2 && faults.contains(nil))
        #expect(faults.contains("Another private key in the HSM token has the same CKA_ID."))
    }

    @Test("truncates a message that is too long for a frame")
    func longSentence() throws {
        let answer = WorkerAnswer.failed(WorkerFailure(.hsmTokenUnavailable, String(repeating: "ä", count: 4000)))
        var decoder = FrameDecoder(maximumLength: FieldBound.answerFrame)
        decoder.append(try answer.encoded(identifier: 1)[...])
        let frame = try #require(try decoder.next())
        guard case .failed(let failure) = try WorkerAnswer(frame) else {
            Issue.record("another answer")
            return
        }
        #expect(failure.kind == .hsmTokenUnavailable)
        #expect(failure.message == String(repeating: "ä", count: 512))
    }
}

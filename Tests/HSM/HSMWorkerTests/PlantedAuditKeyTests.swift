import Encodings
import PKCS11
import SecretMemory
import TestSupport
import Testing
import TokenForge
import WorkerProtocol

@testable import HSMWorker

/// An audit key that an attacker with the PIN has stored in the HSM token under the planned identifier. The attacker
/// keeps a copy of the key.
@Suite struct PlantedAuditKeyTests {
    private let identifier = (0..<16).map { UInt8(0xA0 + $0) }
    private let checkpoint = Array(#"{"node":"backend-1","sequence":7}"#.utf8)

    /// Stores the attacker's key with a real audit key's attributes, except those that only the HSM token sets.
    private func plant(_ key: ForgeKey, withPublicKey: Bool = true, in session: inout Session) throws {
        let objects = AuditKeyObjects(identifier: identifier)
        let information = try PrivateKeyInfo(pkcs8: SecretBytes(copying: key.pkcs8))
        guard case .ec(let point) = try SubjectPublicKeyInfo(der: key.subjectPublicKeyInfo).key else { return }
        var privateKey = objects.templates().privateKey
        var publicKey = objects.templates().publicKey
        for attribute: Attribute in [
            .objectClass(.privateKey), .keyType(.ec), .ecParameters(EllipticCurve.p256Parameters),
        ] {
            privateKey.append(attribute)
        }
        for attribute: Attribute in [
            .objectClass(.publicKey), .keyType(.ec), .ecPoint(EllipticCurve.attributeValue(forPoint: point)),
        ] { publicKey.append(attribute) }
        _ = try session.createObject(privateKey, secrets: information.secrets)
        if withPublicKey { _ = try session.createObject(publicKey) }
    }

    private func failure<T>(_ body: () throws(WorkerFailure) -> T) -> WorkerFailure? {
        do throws(WorkerFailure) {
            _ = try body()
            return nil
        } catch {
            return error
        }
    }

    @Test("does not list or use a planted key, refuses to make the planned key, and says what to do")
    func planted() throws {
        let harness = try OpenTokenHarness()
        var session = try harness.softHSM.openSession()
        try plant(ForgeKey(generating: .p256), in: &session)
        #expect(try harness.hsmToken.auditKeys(in: &session).isEmpty)
        let signing = CheckpointSigning(identifier: identifier, message: checkpoint, algorithm: .ecdsaP256)
        for failure in [
            failure { () throws(WorkerFailure) in try harness.hsmToken.createAuditKey(identifier, in: &session) },
            failure { () throws(WorkerFailure) in try harness.hsmToken.sign(signing, in: &session) },
        ] {
            #expect(failure?.kind == .auditRefused)
            #expect(failure?.message.contains("CKA_NEVER_EXTRACTABLE") == true, "\(String(describing: failure))")
            #expect(failure?.message.contains("a0a1a2a3a4a5a6a7a8a9aaabacadaeaf") == true)
        }
    }

    @Test("signs with the real key even if a planted one has the same identifier")
    func plantedWithRealKey() throws {
        let harness = try OpenTokenHarness()
        var session = try harness.softHSM.openSession()
        try plant(ForgeKey(generating: .p256), withPublicKey: false, in: &session)
        // The real key has the same identifier as the planted key.
        let objects = AuditKeyObjects(identifier: identifier)
        _ = try session.generateKeyPair(
            .ecKeyPairGeneration, publicKey: objects.templates().publicKey, privateKey: objects.templates().privateKey)
        let keys = try harness.hsmToken.auditKeys(in: &session)
        #expect(keys.map(\.identifier) == [identifier])
        #expect(try harness.hsmToken.createAuditKey(identifier, in: &session) == keys.first)
        let signing = CheckpointSigning(identifier: identifier, message: checkpoint, algorithm: .ecdsaP256)
        #expect(try !harness.hsmToken.sign(signing, in: &session).isEmpty)
    }
}

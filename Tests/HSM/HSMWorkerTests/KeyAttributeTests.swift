import KeyTypes
import PKCS11
import TestSupport
import Testing
import TokenForge
import WorkerProtocol

@testable import HSMWorker

/// The attributes of a private key as the HSM token reports them. Expected values follow PKCS#11 v2.40 base §4.9, table
/// 32.
@Suite struct KeyAttributeTests {
    private static let hash = Result { try SharedForge.ecMerchant.merchant.publicKeyHash }

    private func attributes(_ worker: WorkerUnderTest, of hash: [UInt8]) async throws -> [PrivateKeyAttributes] {
        let answer = try await worker.call(.readAttributes(publicKeyHash: hash))
        guard case .keyAttributes(let keys) = answer else {
            throw WorkerUnderTest.Unexpected(description: "\(answer)")
        }
        return keys
    }

    @Test(
        "reports an imported key as sensitive and not extractable now, but neither as local nor as always so"
    )
    func imported() async throws {
        let worker = try await WorkerUnderTest.withMerchantKeys(try await TokenDirectory())
        let ec = try await attributes(worker, of: SharedForge.ecMerchant.merchant.publicKeyHash)
        let rsa = try await attributes(worker, of: SharedForge.rsaMerchant.merchant.publicKeyHash)
        for key in ec + rsa {
            #expect(key.sensitive == true && key.extractable == false)
            #expect(key.local == false && key.alwaysSensitive == false && key.neverExtractable == false)
            #expect(key.token == true && key.private == true)
            #expect(key.sign == false)
        }
        #expect(ec.map(\.algorithm) == [.ec] && ec.map(\.bits) == [256])
        #expect(ec.map(\.derive) == [true] && ec.map(\.decrypt) == [false] && ec.map(\.unwrap) == [false])
        #expect(rsa.map(\.algorithm) == [.rsa] && rsa.map(\.bits) == [2048])
        #expect(rsa.map(\.derive) == [false] && rsa.map(\.decrypt) == [true] && rsa.map(\.unwrap) == [true])
    }

    @Test(
        "reports a generated key as local, always sensitive and never extractable",
        arguments: [KeyAlgorithm.ec, .rsa])
    func generated(_ algorithm: KeyAlgorithm) async throws {
        let worker = try await WorkerUnderTest.serving(try await TokenDirectory())
        let made = try await worker.generate(algorithm, for: "merchant.test")
        let key = try #require(try await attributes(worker, of: made.identifier).first)
        #expect(key.sensitive == true && key.extractable == false)
        #expect(key.local == true && key.alwaysSensitive == true && key.neverExtractable == true)
        #expect(key.algorithm == algorithm && key.bits == (algorithm == .ec ? 256 : 2048))
    }

    @Test("returns an empty list for a missing key instead of a failure")
    func absent() async throws {
        let worker = try await WorkerUnderTest.withMerchantKeys(try await TokenDirectory())
        #expect(try await attributes(worker, of: [UInt8](repeating: 7, count: 32)).isEmpty)
    }

    @Test("reads the attributes from the HSM token at every request")
    func fresh() async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory())
        let worker = try await WorkerUnderTest.withMerchantKeys(hsmToken)
        let hash = try Self.hash.get()
        #expect(try await attributes(worker, of: hash).map(\.extractable) == [false])
        // The attribute 0x162 is CKA_EXTRACTABLE.
        try hsmToken.play("template C_GetAttributeValue 0x162 1")
        #expect(try await attributes(worker, of: hash).map(\.extractable) == [true])
    }

    @Test("reports an attribute that the HSM token lacks as unknown, and the others with their values")
    func missingAttribute() async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory())
        let worker = try await WorkerUnderTest.withMerchantKeys(hsmToken)
        // The attribute 0x165 is CKA_ALWAYS_SENSITIVE.
        try hsmToken.play("refuse-attribute C_GetAttributeValue 0x165")
        let key = try #require(try await attributes(worker, of: Self.hash.get()).first)
        #expect(key.alwaysSensitive == nil)
        #expect(key.sensitive == true && key.neverExtractable == false && key.bits == 256)
    }

    @Test("reports every private key with the requested CKA_ID")
    func copy() throws {
        let harness = try OpenTokenHarness()
        var session = try harness.softHSM.openSession()
        let hash = try Self.hash.get()
        let key = try #require(try session.findObjects(matching: [.objectClass(.privateKey), .identifier(hash)]).first)
        _ = try session.copyObject(key, [.token(true), .sign(true)])
        let found = try harness.hsmToken.attributes(of: hash, in: &session)
        #expect(found.count == 2 && found.filter { $0.sign == true }.count == 1)
    }

    @Test("limits the private keys reported for one CKA_ID to the number that an answer holds")
    func many() throws {
        let harness = try OpenTokenHarness()
        var session = try harness.softHSM.openSession()
        let hash = try Self.hash.get()
        let key = try #require(try session.findObjects(matching: [.objectClass(.privateKey), .identifier(hash)]).first)
        for _ in 0..<FieldBound.privateKeysPerIdentifier { _ = try session.copyObject(key, [.token(true)]) }
        let found = try harness.hsmToken.attributes(of: hash, in: &session)
        #expect(found.count == FieldBound.privateKeysPerIdentifier)
        #expect(throws: Never.self) { try WorkerAnswer.keyAttributes(found).encoded(identifier: 1) }
    }
}

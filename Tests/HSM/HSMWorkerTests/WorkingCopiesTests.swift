import Encodings
import Foundation
import Locks
import PKCS11
import SecretMemory
import TestSupport
import Testing
import TokenForge
import WorkerProtocol

@testable import HSMWorker

/// Selection of the keys of which the worker keeps a copy as a session object.
@Suite struct WorkingCopiesTests {
    private static let most = 64

    /// Opens an HSM token with the EC merchant's key and `count` further keys.
    private func harness(_ count: Int) throws -> (OpenTokenHarness, [ForgeKey]) {
        let harness = try OpenTokenHarness()
        var session = try harness.softHSM.openSession()
        var keys: [ForgeKey] = []
        for _ in 0..<count {
            let key = try ForgeKey(generating: .p256)
            let objects = KeyObjects(
                publicKey: try SubjectPublicKeyInfo(der: key.subjectPublicKeyInfo), label: "merchant.test")
            _ = try session.createObject(objects.templates().publicKey)
            _ = try session.createObject(
                objects.templates().privateKey,
                secrets: PrivateKeyInfo(pkcs8: SecretBytes(copying: key.pkcs8)).secrets)
            keys.append(key)
        }
        _ = try harness.hsmToken.listKeys(in: &session)
        return (harness, keys)
    }

    private func open(_ key: ForgeKey, _ harness: OpenTokenHarness, _ session: inout Session) throws {
        let payment = try EncryptedPayment(ec: key.subjectPublicKeyInfo)
        let opened = harness.decrypt(payment, in: &session)
        #expect(try opened.get() == payment.plaintext)
    }

    private func sessionObjects(_ session: inout Session) throws -> Int {
        try session.findObjects(matching: [.objectClass(.privateKey), .token(false)]).count
    }

    private func copied(_ harness: OpenTokenHarness) -> Set<[UInt8]> {
        Set(harness.hsmToken.keys.all.filter { $0.value.hasCopy }.keys)
    }

    @Test("keeps copies of the most used keys, regardless of their order in the listing, up to the limit")
    func followsUse() throws {
        let (harness, keys) = try harness(Self.most + 6)
        var session = try harness.softHSM.openSession()
        #expect(copied(harness).count == Self.most)
        #expect(try sessionObjects(&session) == Self.most)
        let without = keys.filter { !copied(harness).contains(hash($0)) }
        try #require(without.count >= 6)
        for key in without {
            for _ in 0..<32 { try open(key, harness, &session) }
            #expect(copied(harness).contains(hash(key)))
            #expect(copied(harness).count == Self.most)
            #expect(try sessionObjects(&session) == Self.most)
        }
        // Keys that lost their copy still decrypt.
        for key in keys { try open(key, harness, &session) }
    }

    private func hash(_ key: ForgeKey) -> [UInt8] {
        (try? SubjectPublicKeyInfo(der: key.subjectPublicKeyInfo).publicKeyHash) ?? []
    }

    @Test("does not replace copies while all keys are used equally")
    func stays() throws {
        let (harness, keys) = try harness(Self.most + 6)
        var session = try harness.softHSM.openSession()
        let before = copied(harness)
        for _ in 0..<17 {
            for key in keys { try open(key, harness, &session) }
            // The EC merchant's key must be used too, or it would lose its copy.
            _ = harness.decrypt(try harness.payment(), in: &session)
        }
        #expect(copied(harness) == before)
    }

    @Test("does not replace a key's copy while a session uses it")
    func borrowed() throws {
        let (harness, keys) = try harness(Self.most + 1)
        var session = try harness.softHSM.openSession()
        let before = copied(harness)
        for hash in before { #expect(harness.hsmToken.keys.borrow(hash, for: .processing) != nil) }
        let late = try #require(keys.first { !before.contains(hash($0)) })
        for _ in 0..<32 { try open(late, harness, &session) }
        #expect(copied(harness) == before)
        for hash in before { harness.hsmToken.keys.giveBack(hash) }
        for _ in 0..<8 { try open(late, harness, &session) }
        #expect(copied(harness).contains(hash(late)))
        #expect(try sessionObjects(&session) == Self.most)
    }

    @Test("decrypts with many keys in several sessions, and keeps the number of copies at the limit")
    func concurrently() async throws {
        let (harness, keys) = try harness(Self.most + 16)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for offset in 0..<4 {
                group.addTask {
                    var session = try harness.softHSM.openSession()
                    for round in 0..<400 {
                        // Each thread prefers different keys, which change over time.
                        let index = (offset * 20 + round / 40 * 7 + round % 2) % keys.count
                        try self.open(keys[index], harness, &session)
                    }
                }
            }
            try await group.waitForAll()
        }
        var session = try harness.softHSM.openSession()
        #expect(copied(harness).count == Self.most)
        #expect(try sessionObjects(&session) == Self.most)
    }
}

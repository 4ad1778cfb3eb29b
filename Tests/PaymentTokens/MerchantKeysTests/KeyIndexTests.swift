import Foundation
import PaymentToken
import Refusals
import TestSupport
import Testing
import TokenForge
import WorkerProtocol

@testable import MerchantKeys

@Suite("Key index")
struct KeyIndexTests {
    private let now = Date()

    @Test("Serves a key for which HSM token and ledger agree")
    func served() throws {
        let (key, record) = try pair()
        let entry = try #require(index([key], [record]).entry(record.publicKeyHash))
        #expect(entry.condition == .served)
        #expect(entry.isServed(at: now))
        #expect(entry.merchantIdentifier == "merchant.com.example.shop")
        #expect(entry.algorithm == .ec)
        #expect(entry.hsmTokens == ["primary"])
        #expect(entry.certificate?.der == key.certificates[0])
        #expect(entry.warnings.isEmpty)
    }

    @Test("Decrypts with a served key only in the state active", arguments: KeyState.allCases)
    func states(state: KeyState) throws {
        var (key, record) = try pair()
        record.state = state
        let entry = try #require(index([key], [record]).entry(record.publicKeyHash))
        #expect(entry.condition == .served)
        #expect(entry.state == state)
        #expect(entry.isServed(at: now) == (state == .active))
        key.certificates = []
    }

    @Test("Lists a key as external and pre-activation if the ledger lacks it, and does not decrypt with it")
    func external() throws {
        let (key, record) = try pair()
        let entry = try #require(index([key], []).entry(record.publicKeyHash))
        #expect(entry.condition == .external)
        #expect(entry.state == .preActivation)
        #expect(entry.merchantIdentifier == "merchant.com.example.shop")
        #expect(!entry.isServed(at: now))
    }

    @Test("Lists a key as inconsistent, under its public key's hash, if its CKA_ID differs from that hash")
    func wrongIdentifier() throws {
        var (key, record) = try pair()
        key.identifier = [UInt8](repeating: 1, count: 32)
        try expectInconsistent(index([key], [record]), record, saying: "CKA_ID")
        #expect(index([key], [record]).entry(try #require(PublicKeyHash(bytes: key.identifier))) == nil)
    }

    @Test("Names the HSM tokens with a merchant's active key that lack another of its keys")
    func tokensWithoutKey() throws {
        let (old, oldRecord) = try pair()
        let merchant = oldRecord.merchantIdentifier
        let new: KeyDescription
        var newRecord: KeyRecord
        (new, newRecord) = try pair(
            ForgedMerchant(
                authority: SharedForge.authority, type: .p256,
                profile: MerchantCertificateProfile(merchantIdentifier: merchant)))
        newRecord.state = .preActivation
        let index = KeyIndex()
        index.rebuild(
            hsmTokens: [("first", [old, new]), ("second", [old]), ("spare", [])], keyRecords: [oldRecord, newRecord],
            now: now)
        let key = newRecord.publicKeyHash
        let names = ["spare", "second", "first"]
        #expect(index.hsmTokens(names, without: key, of: merchant, .processing, .ec) == ["second"])
        #expect(index.hsmTokens(names, without: key, of: merchant, .processing, .rsa) == [])
        #expect(index.hsmTokens(names, without: key, of: merchant, .identity, .ec) == [])
        #expect(index.hsmTokens(names, without: key, of: "merchant.com.other", .processing, .ec) == [])
        // The new key is not active, so no HSM token is missed for the old one.
        #expect(index.hsmTokens(names, without: oldRecord.publicKeyHash, of: merchant, .processing, .ec) == [])
        // An HSM token that was not read since the start may have the old key.
        #expect(
            index.hsmTokens(["unread", "second"], without: key, of: merchant, .processing, .ec) == ["unread", "second"])
    }

    @Test("Shows the worker's reason for a key that the worker found inconsistent")
    func workersInconsistency() throws {
        var (key, record) = try pair()
        key.inconsistency = "The pair failed its test."
        try expectInconsistent(index([key], [record]), record, saying: "The pair failed its test.")
    }

    @Test("Lists a key without a public key as inconsistent; warns about one that also lacks a valid CKA_ID")
    func withoutPublicKey() throws {
        var (key, record) = try pair()
        key.subjectPublicKeyInfo = []
        try expectInconsistent(index([key], [record]), record, saying: "no public key")
        key.identifier = [1, 2, 3]
        let other = index([key], [])
        #expect(other.entries.isEmpty)
        #expect(other.warnings.count == 1)
    }

    @Test("Lists a key as inconsistent if its certificate and the ledger name different merchants")
    func anotherMerchant() throws {
        var (key, record) = try pair()
        record.merchantIdentifier = "merchant.com.other"
        try expectInconsistent(index([key], [record]), record, saying: "merchant")
        key.certificates = []
        // A key without a certificate is still served, with a warning that it has none.
        let entry = try #require(index([key], [record]).entry(record.publicKeyHash))
        #expect(entry.condition == .served)
        #expect(entry.warnings.contains { $0.contains("no certificate") })
    }

    @Test("Lists a key as inconsistent with another key's, an unreadable, or a Merchant Identity Certificate")
    func strangeCertificates() throws {
        let (key, record) = try pair()
        let authority = try SharedForge.authority
        let otherKey = try ForgeKey(generating: .p256)
        let profile = MerchantCertificateProfile(merchantIdentifier: record.merchantIdentifier)
        let identity = MerchantCertificateProfile(
            merchantIdentifier: record.merchantIdentifier, kind: .merchantIdentity)
        let outsiders: [([UInt8], String)] = [
            (
                try authority.merchantCertificate(
                    subjectPublicKeyInfo: otherKey.subjectPublicKeyInfo, profile: profile), "another public key"
            ),
            ([1, 2, 3], "not an X.509 certificate"),
            (
                try authority.merchantCertificate(subjectPublicKeyInfo: key.subjectPublicKeyInfo, profile: identity),
                "Merchant Identity"
            ),
        ]
        for (other, sentence) in outsiders {
            var spoilt = key
            spoilt.certificates.append(other)
            try expectInconsistent(index([spoilt], [record]), record, saying: sentence)
        }
    }

    @Test("Lists a key as inconsistent if its algorithm differs from the ledger's")
    func anotherAlgorithm() throws {
        var (key, record) = try pair()
        record.algorithm = .rsa
        try expectInconsistent(index([key], [record]), record, saying: "algorithm")
        key.certificates = []
    }

    @Test("Lists a key as inconsistent if the ledger recorded another use than its attributes permit")
    func anotherUse() throws {
        var (key, record) = try pair()
        record.use = .identity
        try expectInconsistent(index([key], [record]), record, saying: "recorded the key for identity")
        key.certificates = []
    }

    @Test("Shows the newest valid certificate of a key, or the one that expired last if none is valid")
    func severalCertificates() throws {
        var (key, record) = try pair()
        let ages: [(from: Double, until: Double)] = [(-400, 300), (-30, 700), (-900, -200), (10, 800)]
        key.certificates = try ages.map { age in
            var profile = MerchantCertificateProfile(merchantIdentifier: record.merchantIdentifier)
            profile.notBefore = now + age.from * 86_400
            profile.notAfter = now + age.until * 86_400
            return try SharedForge.authority.merchantCertificate(
                subjectPublicKeyInfo: key.subjectPublicKeyInfo, profile: profile)
        }
        let all = key.certificates
        #expect(index([key], [record]).entry(record.publicKeyHash)?.certificate?.der == all[1])
        key.certificates = [all[2], all[0]]
        let later = index([key], [record], now: now + 500 * 86_400)
        #expect(later.entry(record.publicKeyHash)?.certificate?.der == all[0])
    }

    @Test("Lists a key as missing when no HSM token has it any more, and serves it again when it returns")
    func missing() throws {
        let (key, record) = try pair()
        let index = index([key], [record])
        index.rebuild(hsmTokens: [("primary", [])], keyRecords: [record], now: now)
        let gone = try #require(index.entry(record.publicKeyHash))
        #expect(gone.condition == .missing)
        #expect(gone.certificate != nil)
        #expect(gone.state == .active)
        #expect(!gone.isServed(at: now))
        index.rebuild(hsmTokens: [("primary", [key])], keyRecords: [record], now: now)
        #expect(index.entry(record.publicKeyHash)?.condition == .served)
    }

    @Test("Lists a recorded key as missing until an HSM token has listed it")
    func neverSeen() throws {
        let (_, record) = try pair()
        #expect(index([], [record]).entry(record.publicKeyHash)?.condition == .missing)
    }

    @Test("Keeps the previous listing of an HSM token that could not be read")
    func tokenNotAsked() throws {
        let (key, record) = try pair()
        let index = index([key], [record])
        index.rebuild(hsmTokens: [], keyRecords: [record], now: now)
        #expect(index.entry(record.publicKeyHash)?.condition == .served)
    }

    @Test("Lists an external key as missing after it has disappeared")
    func externalGone() throws {
        let (key, record) = try pair()
        let index = index([key], [])
        index.rebuild(hsmTokens: [("primary", [])], keyRecords: [], now: now)
        #expect(index.entry(record.publicKeyHash)?.condition == .missing)
    }

    @Test("Serves a key from the HSM tokens where it is consistent, and warns about the others")
    func twoTokens() throws {
        let (key, record) = try pair()
        var broken = key
        broken.inconsistency = "The pair failed its test."
        let index = KeyIndex()
        index.rebuild(hsmTokens: [("a", [broken]), ("b", [key]), ("c", [key])], keyRecords: [record], now: now)
        let entry = try #require(index.entry(record.publicKeyHash))
        #expect(entry.condition == .served)
        #expect(entry.hsmTokens == ["b", "c"])
        #expect(entry.warnings == ["HSM token a: The pair failed its test."])
    }

    @Test("Does not serve a key that can be exported from its HSM token")
    func unprotected() throws {
        var (key, record) = try pair()
        key.isProtected = false
        let entry = try #require(index([key], [record]).entry(record.publicKeyHash))
        #expect(entry.condition.name == "inconsistent")
        #expect(!entry.isServed(at: now))
    }

    @Test("Warns about a key in only one of several HSM tokens, unless it is destroyed")
    func soleHolder() throws {
        var (key, record) = try pair()
        let index = KeyIndex()
        index.rebuild(hsmTokens: [("a", []), ("b", [key])], keyRecords: [record], now: now)
        #expect(index.warnings.count == 1)
        let remark = try #require(index.warnings.first)
        #expect(remark.contains("Only HSM token b"))
        #expect(remark.contains(record.publicKeyHash.hex.prefix(16)))
        record.state = .destroyed
        index.rebuild(hsmTokens: [], keyRecords: [record], now: now)
        #expect(index.warnings.isEmpty)
        record.state = .active
        index.rebuild(hsmTokens: [("a", [key])], keyRecords: [record], now: now)
        #expect(index.warnings.isEmpty)
        // Another HSM token that has not been opened yet may have the key, so there is no warning.
        let alone = KeyIndex()
        alone.rebuild(hsmTokens: [("b", [key])], keyRecords: [record], now: now)
        #expect(alone.warnings.isEmpty)
        key.certificates = []
    }

    private func pair(_ merchant: ForgedMerchant? = nil) throws -> (KeyDescription, KeyRecord) {
        let forged = try merchant ?? SharedForge.ecMerchant
        let hash = PublicKeyHash.of(subjectPublicKeyInfo: forged.key.subjectPublicKeyInfo)
        let key = KeyDescription(
            identifier: hash.bytes, label: forged.merchant.identifier, algorithm: .ec,
            subjectPublicKeyInfo: forged.key.subjectPublicKeyInfo, certificates: [forged.certificate],
            isProtected: true, inconsistency: nil)
        let record = KeyRecord(
            publicKeyHash: hash, merchantIdentifier: forged.merchant.identifier, algorithm: .ec, state: .active,
            createdAt: now, origin: .imported)
        return (key, record)
    }

    private func index(_ keys: [KeyDescription], _ records: [KeyRecord], now: Date? = nil) -> KeyIndex {
        let index = KeyIndex()
        index.rebuild(hsmTokens: [("primary", keys)], keyRecords: records, now: now ?? self.now)
        return index
    }

    private func expectInconsistent(
        _ index: KeyIndex, _ record: KeyRecord, saying part: String, sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        let entry = try #require(index.entry(record.publicKeyHash), sourceLocation: sourceLocation)
        guard case .inconsistent(let reason) = entry.condition else {
            Issue.record("\(entry.condition)", sourceLocation: sourceLocation)
            return
        }
        #expect(reason.contains(part), "\(reason)", sourceLocation: sourceLocation)
        #expect(entry.hsmTokens.isEmpty, sourceLocation: sourceLocation)
        #expect(!entry.isServed(at: now), sourceLocation: sourceLocation)
    }
}

extension KeyEntry {
    /// True if a payment token can be decrypted with this key.
    fileprivate func isServed(at now: Date) -> Bool { condition == .served && decrypts(at: now) }
}

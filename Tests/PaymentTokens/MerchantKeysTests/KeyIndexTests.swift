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

    @Test("A key that token and ledger agree on is served")
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

    @Test("A served key decrypts only in a state that does", arguments: KeyState.allCases)
    func states(state: KeyState) throws {
        var (key, record) = try pair()
        record.state = state
        let entry = try #require(index([key], [record]).entry(record.publicKeyHash))
        #expect(entry.condition == .served)
        #expect(entry.state == state)
        #expect(entry.isServed(at: now) == (state == .active))
        key.certificates = []
    }

    @Test("A key without a record is external, pre-activation, and does not decrypt")
    func external() throws {
        let (key, record) = try pair()
        let entry = try #require(index([key], []).entry(record.publicKeyHash))
        #expect(entry.condition == .external)
        #expect(entry.state == .preActivation)
        #expect(entry.merchantIdentifier == "merchant.com.example.shop")
        #expect(!entry.isServed(at: now))
    }

    @Test("A key whose CKA_ID is not its public key's hash is inconsistent, under the hash that is right")
    func wrongIdentifier() throws {
        var (key, record) = try pair()
        key.identifier = [UInt8](repeating: 1, count: 32)
        try expectInconsistent(index([key], [record]), record, saying: "CKA_ID")
        #expect(index([key], [record]).entry(try #require(PublicKeyHash(bytes: key.identifier))) == nil)
    }

    @Test("A key that the worker found inconsistent stays so, with its sentence")
    func workersInconsistency() throws {
        var (key, record) = try pair()
        key.inconsistency = "The pair failed its test."
        try expectInconsistent(index([key], [record]), record, saying: "The pair failed its test.")
    }

    @Test("A key without a public key beside it is inconsistent, and one without any hash is only remarked upon")
    func withoutPublicKey() throws {
        var (key, record) = try pair()
        key.subjectPublicKeyInfo = []
        try expectInconsistent(index([key], [record]), record, saying: "no public key")
        key.identifier = [1, 2, 3]
        let other = index([key], [])
        #expect(other.entries.isEmpty)
        #expect(other.warnings.count == 1)
    }

    @Test("A certificate of another merchant than the ledger's makes the key inconsistent")
    func anotherMerchant() throws {
        var (key, record) = try pair()
        record.merchantIdentifier = "merchant.com.other"
        try expectInconsistent(index([key], [record]), record, saying: "merchant")
        key.certificates = []
        // Without a certificate nothing disagrees; that it is missing is remarked upon.
        let entry = try #require(index([key], [record]).entry(record.publicKeyHash))
        #expect(entry.condition == .served)
        #expect(entry.warnings.contains { $0.contains("no certificate") })
    }

    @Test("A certificate of another key, an unreadable one, and a Merchant Identity one make the key inconsistent")
    func strangeCertificates() throws {
        let (key, record) = try pair()
        let authority = try SharedForge.authority
        let otherKey = try ForgeKey(generating: .p256)
        let profile = MerchantCertificateProfile(merchantIdentifier: record.merchantIdentifier)
        let identity = MerchantCertificateProfile(
            merchantIdentifier: record.merchantIdentifier, kind: .merchantIdentity)
        let strangers: [([UInt8], String)] = [
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
        for (other, sentence) in strangers {
            var spoilt = key
            spoilt.certificates.append(other)
            try expectInconsistent(index([spoilt], [record]), record, saying: sentence)
        }
    }

    @Test("An algorithm other than the ledger's makes the key inconsistent")
    func anotherAlgorithm() throws {
        var (key, record) = try pair()
        record.algorithm = .rsa
        try expectInconsistent(index([key], [record]), record, saying: "algorithm")
        key.certificates = []
    }

    @Test("Of several certificates the newest valid one is shown; when none is valid, the one that ended last")
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

    @Test("A key that no token shows is missing and keeps its certificate; when it comes back it is served")
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

    @Test("A recorded key is missing while its token was never seen")
    func neverSeen() throws {
        let (_, record) = try pair()
        #expect(index([], [record]).entry(record.publicKeyHash)?.condition == .missing)
    }

    @Test("A token that could not be asked keeps what it showed last")
    func tokenNotAsked() throws {
        let (key, record) = try pair()
        let index = index([key], [record])
        index.rebuild(hsmTokens: [], keyRecords: [record], now: now)
        #expect(index.entry(record.publicKeyHash)?.condition == .served)
    }

    @Test("An external key that vanished stays listed as missing")
    func externalGone() throws {
        let (key, record) = try pair()
        let index = index([key], [])
        index.rebuild(hsmTokens: [("primary", [])], keyRecords: [], now: now)
        #expect(index.entry(record.publicKeyHash)?.condition == .missing)
    }

    @Test("A key in two tokens is served by those where it is in order, and the other is remarked upon")
    func twoTokens() throws {
        let (key, record) = try pair()
        var broken = key
        broken.inconsistency = "The pair failed its test."
        let index = KeyIndex()
        index.rebuild(hsmTokens: [("a", [broken]), ("b", [key]), ("c", [key])], keyRecords: [record], now: now)
        let entry = try #require(index.entry(record.publicKeyHash))
        #expect(entry.condition == .served)
        #expect(entry.hsmTokens == ["b", "c"])
        #expect(entry.warnings == ["Token a: The pair failed its test."])
    }

    @Test("A key that could be taken out of its token is not served")
    func unprotected() throws {
        var (key, record) = try pair()
        key.isProtected = false
        let entry = try #require(index([key], [record]).entry(record.publicKeyHash))
        #expect(entry.condition.name == "inconsistent")
        #expect(!entry.isServed(at: now))
    }

    @Test("A key that only one of several tokens shows is named, unless no payment comes for it any more")
    func soleHolder() throws {
        var (key, record) = try pair()
        let index = KeyIndex()
        index.rebuild(hsmTokens: [("a", []), ("b", [key])], keyRecords: [record], now: now)
        #expect(index.warnings.count == 1)
        let remark = try #require(index.warnings.first)
        #expect(remark.contains("Only token b"))
        #expect(remark.contains(record.publicKeyHash.hex.prefix(16)))
        record.state = .destroyed
        index.rebuild(hsmTokens: [], keyRecords: [record], now: now)
        #expect(index.warnings.isEmpty)
        record.state = .active
        index.rebuild(hsmTokens: [("a", [key])], keyRecords: [record], now: now)
        #expect(index.warnings.isEmpty)
        // A token that has not been opened yet may hold it: nothing is said before.
        let alone = KeyIndex()
        alone.rebuild(hsmTokens: [("b", [key])], keyRecords: [record], now: now)
        #expect(alone.warnings.isEmpty)
        key.certificates = []
    }

    // Fixtures.

    private func pair() throws -> (KeyDescription, KeyRecord) {
        let forged = try SharedForge.ecMerchant
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
    /// A payment would be decrypted with it.
    fileprivate func isServed(at now: Date) -> Bool { condition == .served && decrypts(at: now) }
}

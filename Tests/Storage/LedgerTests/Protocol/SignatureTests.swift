import AuditChain
import Foundation
import KeyTypes
import MerchantKeys
import PaymentToken
import Refusals
import TestSupport
import Testing
import WorkerProtocol

@testable import Ledger

/// Signatures with identity keys. The check of the key's state and the record of the signature share a transaction, and
/// a key never changes its use.
@Suite("Signatures of identity keys", .everyEngine)
struct SignatureTests {
    private static let identity = LedgerFixture.hash(40)

    private static func record(_ key: PublicKeyHash, at time: Date = LedgerFixture.noon) -> AuditRecord {
        AuditRecord(
            time: AuditTime(time), event: .tlsSignature(TLSSignatureDetails(input: AuditDigest.of([1, 2, 3]))),
            publicKeyHash: AuditDigest(bytes: key.bytes))
    }

    /// A fixture with one identity key in addition to its processing key.
    private func fixture(_ state: KeyState = .active) async throws -> LedgerFixture {
        let fixture = try await LedgerFixture()
        try await fixture.ledger.store(
            LedgerFixture.record(Self.identity, state: state, algorithm: .rsa, use: .identity))
        return fixture
    }

    private func sign(
        _ fixture: LedgerFixture, _ key: PublicKeyHash = identity, at time: Date = LedgerFixture.noon
    ) async throws -> RecordedSignature {
        try await fixture.ledger.record(
            SignatureUse(publicKeyHash: key, use: .identity, at: time), recording: Self.record(key, at: time))
    }

    private func lines(_ fixture: LedgerFixture) async throws -> [String] {
        let head = try await fixture.ledger.head().sequence
        guard head > 0 else { return [] }
        return try await fixture.ledger.lines(1...head, limit: 100).map { String(decoding: $0.bytes, as: UTF8.self) }
    }

    @Test("grants and records a signature of an active identity key")
    func granted() async throws {
        let fixture = try await fixture()
        #expect(try await sign(fixture) == RecordedSignature(.granted, sequence: 1))
        let line = try #require(try await lines(fixture).first)
        #expect(line.contains(#""event":"tls_signature","outcome":"ok""#))
        #expect(line.contains(#""inputSha256":"\#(AuditDigest.of([1, 2, 3]).hex)""#))
    }

    @Test(
        "refuses a signature in every other state, records the refusal, and ignores a cut-off",
        arguments: [KeyState.preActivation, .suspended, .deactivated, .compromised, .destroyed])
    func notActive(state: KeyState) async throws {
        let fixture = try await LedgerFixture()
        try await fixture.ledger.store(
            LedgerFixture.record(
                Self.identity, state: state, cutOff: state == .deactivated ? LedgerFixture.noon + 3600 : nil,
                algorithm: .rsa, use: .identity))
        #expect(try await sign(fixture) == RecordedSignature(.keyNotActive, sequence: 1))
        #expect(try await lines(fixture).first?.contains(#""outcome":"key_not_active""#) == true)
    }

    @Test("never signs with a processing key, releases with an identity key, or does either with an unknown key")
    func uses() async throws {
        let fixture = try await fixture()
        #expect(try await sign(fixture, fixture.key).verdict == .keyNotActive)
        #expect(try await sign(fixture, LedgerFixture.hash(99)).verdict == .keyNotActive)
        #expect(try await fixture.ledger.release(fixture.request(1, key: Self.identity)) == .keyNotActive)
        #expect(try await fixture.ledger.release(fixture.request(1)) == .released)
    }

    @Test("grants a service key's signature for its use only, and keeps one active service key for a key id")
    func serviceKeys() async throws {
        let fixture = try await fixture()
        let service = LedgerFixture.hash(50)
        func key(_ hash: PublicKeyHash, _ state: KeyState = .active) -> KeyRecord {
            LedgerFixture.record(hash, state: state, merchant: "2X9R4HXF34", algorithm: .ec, use: .service)
        }
        func sign(_ hash: PublicKeyHash, as use: KeyUse) async throws -> SignatureVerdict {
            try await fixture.ledger.record(
                SignatureUse(publicKeyHash: hash, use: use, at: LedgerFixture.noon), recording: Self.record(hash)
            ).verdict
        }
        try await fixture.ledger.store(key(service))
        #expect(try await fixture.ledger.keyRecord(service)?.use == .service)
        #expect(try await sign(service, as: .service) == .granted)
        #expect(try await sign(service, as: .identity) == .keyNotActive)
        #expect(try await sign(Self.identity, as: .service) == .keyNotActive)
        #expect(try await sign(fixture.key, as: .processing) == .keyNotActive)
        #expect(try await fixture.ledger.release(fixture.request(1, key: service)) == .keyNotActive)

        let second = LedgerFixture.hash(51)
        await #expect(throws: LedgerFailure.conflict(.tooManyActive(.service))) {
            try await fixture.ledger.store(key(second))
        }
        try await fixture.ledger.store(key(service, .suspended))
        #expect(try await sign(service, as: .service) == .keyNotActive)
        try await fixture.ledger.store(key(second))
    }

    @Test("counts a retired Google Pay key among the merchant's four until its cut-off, since it still opens messages")
    func googlePayKeys() async throws {
        let fixture = try await fixture()
        let noon = LedgerFixture.noon
        func key(_ number: UInt8, _ state: KeyState, until cutOff: Date? = nil) -> KeyRecord {
            var record = LedgerFixture.record(
                LedgerFixture.hash(number), state: state, merchant: "BCR2", algorithm: .ec, use: .googlePay)
            record.cutOff = cutOff
            return record
        }
        func store(_ key: KeyRecord, after seconds: TimeInterval = 0) async throws {
            try await fixture.ledger.apply(AdministrativeChange(at: noon + seconds, key: key, records: []))
        }
        for number in UInt8(60)...63 { try await store(key(number, .active)) }
        try await store(key(60, .deactivated, until: noon + 60))
        await #expect(throws: LedgerFailure.conflict(.tooManyActive(.googlePay))) {
            try await store(key(64, .active), after: 59)
        }
        try await store(key(64, .active), after: 60)
        #expect(try await fixture.ledger.keyRecord(LedgerFixture.hash(64))?.state == .active)
    }

    @Test("never changes a key's use")
    func useIsForEver() async throws {
        let fixture = try await fixture()
        for wrong in [
            LedgerFixture.record(Self.identity, algorithm: .rsa, use: .processing),
            LedgerFixture.record(fixture.key, use: .identity),
        ] {
            await #expect(throws: LedgerFailure.conflict(.anotherUse)) { try await fixture.ledger.store(wrong) }
        }
        let records = try await fixture.ledger.keyRecords()
        #expect(
            Set(records.map { [$0.publicKeyHash.hex, $0.use.name] }) == [
                [fixture.key.hex, "processing"], [Self.identity.hex, "identity"],
            ])
        #expect(try await fixture.ledger.keyRecord(Self.identity)?.use == .identity)
    }

    @Test("refuses signatures after a suspension in an earlier batch, and grants those requested before")
    func suspendedInBetween() async throws {
        let fixture = try await fixture()
        let suspended = LedgerFixture.record(Self.identity, state: .suspended, algorithm: .rsa, use: .identity)
        let use = SignatureUse(publicKeyHash: Self.identity, use: .identity, at: LedgerFixture.noon)
        let answers: [Result<SignatureVerdict, any Error>] = try await fixture.inOneBatch([
            { try await $0.record(use, recording: Self.record(Self.identity)).verdict },
            { ledger in
                try await ledger.store(suspended)
                return SignatureVerdict.granted
            },
            { try await $0.record(use, recording: Self.record(Self.identity)).verdict },
        ])
        #expect(try answers.map { try $0.get() } == [.granted, .granted, .keyNotActive])
    }

    @Test("decides releases and signatures in one batch, each by its own key")
    func mixed() async throws {
        let fixture = try await fixture()
        let (release, use) = (
            try fixture.request(1), SignatureUse(publicKeyHash: Self.identity, use: .identity, at: LedgerFixture.noon)
        )
        let answers: [Result<Bool, any Error>] = try await fixture.inOneBatch([
            { try await $0.release(release) == .released },
            { try await $0.record(use, recording: Self.record(Self.identity)).verdict == .granted },
            { try await $0.release(release) == .repeated },
        ])
        #expect(try answers.map { try $0.get() } == [true, true, true])
    }

    @Test(
        "allows three active identity keys a merchant, not counting other merchants' and processing keys"
    )
    func three() async throws {
        let fixture = try await fixture()
        func key(_ number: UInt8, _ state: KeyState = .active, merchant: String = "merchant.com.example") -> KeyRecord {
            LedgerFixture.record(
                LedgerFixture.hash(number), state: state, merchant: merchant, algorithm: .rsa, use: .identity)
        }
        try await fixture.ledger.store(key(41))
        try await fixture.ledger.store(key(42))
        try await fixture.ledger.store(key(43, .preActivation))
        await #expect(throws: LedgerFailure.conflict(.tooManyActive(.identity))) {
            try await fixture.ledger.store(key(43))
        }
        try await fixture.ledger.store(key(44, merchant: "merchant.com.example.other"))
        // An active key may be stored again. A deactivated key does not count towards the limit, so another key can be
        // stored.
        try await fixture.ledger.store(key(42))
        try await fixture.ledger.store(key(41, .deactivated))
        try await fixture.ledger.store(key(43))
    }

    @Test("counts signatures as uses by key and time, without refused ones")
    func usage() async throws {
        let fixture = try await fixture()
        let noon = LedgerFixture.noon
        _ = try await sign(fixture, at: noon)
        _ = try await sign(fixture, at: noon + 10)
        _ = try await sign(fixture, LedgerFixture.hash(99), at: noon + 10)
        _ = try await fixture.ledger.release(fixture.request(1, at: noon + 5))
        let usage = try await fixture.ledger.usage(since: noon + 1)
        #expect(
            usage == [
                Self.identity: KeyUses(count: 1, last: noon + 10), fixture.key: KeyUses(count: 1, last: noon + 5),
            ])
        func lastUse(of key: PublicKeyHash, since: Date, before: Date? = nil) async throws -> Date? {
            try await fixture.ledger.lastUse(of: key, since: since, before: before)
        }
        #expect(try await lastUse(of: Self.identity, since: noon) == noon + 10)
        #expect(try await lastUse(of: Self.identity, since: noon + 11) == nil)
        #expect(try await lastUse(of: Self.identity, since: noon - 1, before: noon + 10) == noon)
        #expect(try await lastUse(of: Self.identity, since: noon - 1, before: noon) == nil)
        #expect(try await lastUse(of: fixture.key, since: noon) == noon + 5)
        #expect(try await lastUse(of: fixture.key, since: noon + 5, before: noon + 6) == noon + 5)
        #expect(try await lastUse(of: fixture.key, since: noon, before: noon + 5) == nil)
        #expect(try await lastUse(of: LedgerFixture.hash(99), since: noon) == nil)
    }

    @Test(
        "refuses an invalid signature with its code, and grants none, while nothing can be written"
    )
    func unwritable() async throws {
        let fixture = try await fixture()
        await fixture.ledger.close()
        await #expect(throws: LedgerFailure.self) { _ = try await sign(fixture) }
    }
}

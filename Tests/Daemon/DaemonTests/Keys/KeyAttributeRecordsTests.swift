import AuditChain
import Foundation
import KeyTypes
import Ledger
import Locks
import MerchantKeys
import PaymentToken
import TestSupport
import Testing
import WorkerProtocol

@testable import Daemon
@testable import UsageRecording

/// The audit records of what an HSM token reports about itself and its keys.
@Suite struct KeyAttributeRecordsTests {
    /// An HSM token with one key, whose answers the test changes.
    private final class Source: KeyAttributeSource {
        let name = "primary"
        private let state = Mutex(
            (
                serving: true, model: "SoftHSM v2", reads: 0,
                answer: Result<[PrivateKeyAttributes], WorkerFailure>.success([])
            ))

        var isServing: Bool {
            get { state.withLock { $0.serving } }
            set { state.withLock { $0.serving = newValue } }
        }
        var reads: Int { state.withLock { $0.reads } }

        func change(
            model: String? = nil, _ answer: Result<[PrivateKeyAttributes], WorkerFailure>? = nil
        ) {
            state.withLock {
                if let model { $0.model = model }
                if let answer { $0.answer = answer }
            }
        }

        var openDescription: HSMTokenDescription? {
            HSMTokenDescription(
                label: "paytokend", serialNumber: "1", manufacturer: "SoftHSM project",
                model: state.withLock { $0.model }, library: "lib", sessions: 1, tierECv1: .c, tierRSAv1: nil,
                shortcomings: [], importKey: [])
        }

        func attributes(of hash: PublicKeyHash) async throws(WorkerFailure) -> [PrivateKeyAttributes] {
            let answer = state.withLock { state in
                state.reads += 1
                return state.answer
            }
            return try answer.get()
        }
    }

    private static let information: [UInt8] = [1, 2, 3]
    private static let hash = PublicKeyHash.of(subjectPublicKeyInfo: information)
    private static let made = PrivateKeyAttributes(
        sensitive: true, extractable: false, alwaysSensitive: true, neverExtractable: true, local: true, token: true,
        private: true, modifiable: true, derive: true, decrypt: false, unwrap: false, sign: false, algorithm: .ec,
        bits: 256)

    private let directory: FreshDirectory
    private let source = Source()
    private let index = KeyIndex()

    init() throws {
        directory = try FreshDirectory()
        source.change(.success([Self.made]))
        rebuildIndex(keyState: .active)
    }

    private func rebuildIndex(keyState: KeyState?, use: KeyUse = .processing, merchant: String = "merchant.test") {
        let key = KeyDescription(
            identifier: Self.hash.bytes, label: "merchant.test", algorithm: .ec, subjectPublicKeyInfo: Self.information,
            certificates: [], isProtected: true, inconsistency: nil)
        let keyRecord = keyState.map {
            KeyRecord(
                publicKeyHash: Self.hash, merchantIdentifier: merchant, algorithm: .ec, use: use,
                state: $0, createdAt: RecordFixture.noon, origin: .generated)
        }
        index.rebuild(hsmTokens: [("primary", [key])], keyRecords: [keyRecord].compactMap(\.self))
    }

    private func fixture() async throws -> RecordFixture {
        try await RecordFixture(ledger: directory.path("ledger"), hsmToken: SoftwareAuditToken())
    }

    private func records(_ fixture: RecordFixture, isOpen: Bool = true) -> KeyAttributeRecords {
        KeyAttributeRecords(
            ledger: fixture.ledger, index: index, reading: KeyAttributeReading([source]),
            clock: WallClock { RecordFixture.noon }, isOpen: { isOpen })
    }

    @Test("records HSM token and key once, with the key, its merchant and what the HSM token reports")
    func first() async throws {
        let fixture = try await fixture()
        let records = records(fixture)
        await records.check()
        await records.check(now: .now + .seconds(90_000))
        let entries = try await fixture.entries
        #expect(entries.map(\.event) == ["token_attributes", "key_attributes"])
        #expect(source.reads == 2)
        let key = try #require(entries.last)
        #expect(key.hsmToken == "primary" && key.merchant == "merchant.test" && key.caller == nil)
        #expect(key.publicKeyHash?.bytes == Self.hash.bytes)
        let values = try #require(key.details["keys"]?.arrayValue?.first?.objectValue)
        #expect(values["neverExtractable"]?.boolValue == true && values["extractable"]?.boolValue == false)
        #expect(values["uses"]?.arrayValue?.compactMap(\.stringValue) == ["derive"])
        #expect(entries.first?.details["model"]?.stringValue == "SoftHSM v2" && entries.first?.publicKeyHash == nil)
    }

    @Test("names the merchant of a Google Pay key in full, although an identifier of twenty digits is a long number")
    func merchantAtGoogle() async throws {
        rebuildIndex(keyState: .active, use: .googlePay, merchant: "12345678901234567890")
        let fixture = try await fixture()
        await records(fixture).check()
        #expect(try await fixture.entries.last?.merchant == "12345678901234567890")
    }

    @Test("records nothing again after a restart, however many records lie between, and each change once")
    func restart() async throws {
        var fixture = try await fixture()
        await records(fixture).check()
        try await fixture.append(2100)
        await fixture.ledger.close()

        fixture = try await self.fixture()
        await records(fixture).check()
        #expect(try await fixture.ledger.head().sequence == 2102)

        var weakened = Self.made
        weakened.extractable = true
        source.change(model: "Other", .success([weakened]))
        let records = records(fixture)
        for _ in 0..<2 { await records.check() }
        let added = try await fixture.ledger.lines(2103...2200, limit: 100)
        #expect(try added.map { try AuditEntry(line: $0.bytes).event } == ["token_attributes", "key_attributes"])
    }

    @Test("reads a key again a day later, and ten minutes after a failure")
    func intervals() async throws {
        let fixture = try await fixture()
        let records = records(fixture)
        let start = ContinuousClock.now
        source.change(.failure(WorkerFailure(.hsmTokenUnavailable, "C_FindObjects: CKR_DEVICE_REMOVED.")))
        await records.check(now: start)
        await records.check(now: start + .seconds(500))
        #expect(source.reads == 1)
        #expect(try await fixture.entries.map(\.event) == ["token_attributes"])
        source.change(.success([Self.made]))
        await records.check(now: start + .seconds(700))
        #expect(try await fixture.entries.count == 2)
        await records.check(now: start + .seconds(86_000))
        #expect(source.reads == 2)
        source.change(.success([Self.made, Self.made]))
        await records.check(now: start + .seconds(88_000))
        #expect(source.reads == 3)
        #expect(try await fixture.entries.last?.details["keys"]?.arrayValue?.count == 2)
    }

    @Test(
        "reads no key that is unknown to the ledger or destroyed, and nothing before ledger and HSM token were compared",
        arguments: [nil, KeyState.destroyed])
    func unread(state: KeyState?) async throws {
        let fixture = try await fixture()
        await records(fixture, isOpen: false).check()
        #expect(try await fixture.entries.isEmpty)
        rebuildIndex(keyState: state)
        let records = records(fixture)
        await records.check()
        #expect(source.reads == 0)
        #expect(try await fixture.entries.map(\.event) == ["token_attributes"])
        // A key is read as soon as the index knows it.
        rebuildIndex(keyState: .active)
        await records.check()
        #expect(try await fixture.entries.map(\.event) == ["token_attributes", "key_attributes"])
    }

    @Test("waits for an HSM token that is not open")
    func away() async throws {
        let fixture = try await fixture()
        let records = records(fixture)
        source.isServing = false
        await records.check()
        #expect(try await fixture.entries.isEmpty)
        source.isServing = true
        await records.check()
        #expect(try await fixture.entries.count == 2)
    }
}

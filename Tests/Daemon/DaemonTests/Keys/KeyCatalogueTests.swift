import AuditChain
import Foundation
import Ledger
import Logging
import MerchantKeys
import PaymentToken
import SQLiteLedger
import TestSupport
import Testing
import TokenForge
import WorkerProtocol

@testable import Daemon
@testable import UsageRecording

@Suite("Key catalogue")
struct KeyCatalogueTests {
    private let directory: FreshDirectory
    private let ledger: SQLiteLedger
    private let catalogue: KeyCatalogue
    private var index: KeyIndex { catalogue.index }

    init() async throws {
        directory = try FreshDirectory()
        ledger = try await SQLiteLedger.open(SQLiteLedger.Settings(path: directory.path("ledger"), node: "node-1"))
        catalogue = KeyCatalogue(
            index: KeyIndex(), ledger: ledger, hsmTokens: ["primary", "second"],
            clock: WallClock { RecordFixture.noon },
            logger: RecordFixture.quiet)
    }

    private func pair(_ number: UInt8) -> (key: KeyDescription, hash: PublicKeyHash) {
        let information = [UInt8](repeating: number, count: 91)
        let hash = PublicKeyHash.of(subjectPublicKeyInfo: information)
        return (
            KeyDescription(
                identifier: hash.bytes, label: "m", algorithm: .ec, subjectPublicKeyInfo: information,
                certificates: [], isProtected: true, inconsistency: nil), hash
        )
    }

    private func record(_ hash: PublicKeyHash, state: KeyState = .active) async throws {
        let key = KeyRecord(
            publicKeyHash: hash, merchantIdentifier: "merchant.com.example", algorithm: .ec, state: state,
            createdAt: RecordFixture.noon, origin: .imported)
        try await ledger.apply(AdministrativeChange(at: Date(), key: key, records: []))
    }

    @Test("applies a change of one key, and leaves the others unchanged")
    func changeOfOneKey() async throws {
        let (first, second) = (pair(1), pair(2))
        for hash in [first.hash, second.hash] { try await record(hash) }
        await catalogue.hsmTokenHasOpened("primary", showing: [first.key, second.key], asOf: .now)
        #expect(index.entries.map(\.condition) == [.served, .served])
        for hash in [first.hash, second.hash] { try await record(hash, state: .suspended) }
        try await catalogue.keyChanged(first.hash)
        #expect(index.entry(first.hash)?.state == .suspended)
        #expect(index.entry(second.hash)?.state == .active)
        try await catalogue.keyChanged(second.hash, shown: [("primary", [])])
        #expect(index.entry(second.hash)?.condition == .missing)
        #expect(index.entry(first.hash)?.condition == .served)
        await ledger.close()
    }

    @Test("prefers a change during a listing to that listing, and the next listing to the change")
    func listingUnderWay() async throws {
        let (first, second) = (pair(1), pair(2))
        for hash in [first.hash, second.hash] { try await record(hash) }
        await catalogue.hsmTokenHasOpened("primary", showing: [first.key], asOf: .now)
        let began = ContinuousClock.now
        // During this listing, the second key is imported and the first one destroyed.
        try await catalogue.keyChanged(second.hash, shown: [("primary", [second.key])])
        try await catalogue.keyChanged(first.hash, shown: [("primary", [])])
        await catalogue.hsmTokenHasOpened("primary", showing: [first.key], asOf: began)
        #expect(index.entry(second.hash)?.condition == .served)
        #expect(index.entry(first.hash)?.condition == .missing)
        await catalogue.hsmTokenHasOpened("primary", showing: [first.key], asOf: .now)
        #expect(index.entry(second.hash)?.condition == .missing)
        #expect(index.entry(first.hash)?.condition == .served)
        await ledger.close()
    }

    @Test("keeps what HSM tokens show until the ledger can be read, and never replaces newer data with older")
    func ledgerUnreadable() async throws {
        let (first, second) = (pair(1), pair(2))
        await ledger.close()
        await catalogue.hsmTokenHasOpened("primary", showing: [first.key], asOf: .now)
        #expect(catalogue.isBehind)
        await #expect(throws: LedgerFailure.self) {
            try await catalogue.keyChanged(second.hash, shown: [("primary", [second.key])])
        }
        #expect(index.entries.isEmpty)
        #expect(catalogue.isBehind)
    }

    @Test("ends many simultaneous changes with the ledger's latest state")
    func simultaneousChanges() async throws {
        let (key, hash) = pair(1)
        try await record(hash)
        await catalogue.hsmTokenHasOpened("primary", showing: [key], asOf: .now)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<40 {
                group.addTask {
                    try await record(hash, state: number % 2 == 0 ? .suspended : .active)
                    try await catalogue.keyChanged(hash)
                }
            }
            try await group.waitForAll()
        }
        #expect(index.entry(hash)?.state == (try await ledger.keyRecord(hash)?.state))
        await ledger.close()
    }

    @Test("warns of keys that no HSM token shows only after all HSM tokens have been opened since the start")
    func openingTokens() async throws {
        let lines = Shared<[String]>([])
        let catalogue = KeyCatalogue(
            index: KeyIndex(), ledger: ledger, hsmTokens: ["primary", "second"],
            clock: WallClock { RecordFixture.noon }, logger: Logger(label: "test") { _ in CapturedLog(lines: lines) })
        let (first, second) = (pair(1), pair(2))
        for hash in [first.hash, second.hash] { try await record(hash) }
        await catalogue.hsmTokenHasOpened("primary", showing: [first.key], asOf: .now)
        #expect(catalogue.index.entry(second.hash)?.condition == .missing)
        #expect(lines.current.isEmpty)
        await catalogue.hsmTokenHasOpened("second", showing: [], asOf: .now)
        #expect(lines.current.count == 1)
        #expect(
            lines.current.allSatisfy { $0.contains("not served") && $0.contains(second.hash.hex) }, "\(lines.current)")
        await ledger.close()
    }

    private func recordedKeys() async throws -> Set<PublicKeyHash> { Set(try await ledger.keyHolders().keys) }

    @Test(
        "records for other nodes which keys this node has, and keeps those of HSM tokens that are not opened yet")
    func heldKeys() async throws {
        let (first, second, foreign) = (pair(1), pair(2), pair(3))
        for hash in [first.hash, second.hash] { try await record(hash) }
        // An earlier process recorded that this node has the second key.
        try await ledger.update(heldKeys: [second.hash])
        await catalogue.hsmTokenHasOpened("primary", showing: [first.key, foreign.key], asOf: .now)
        try await catalogue.publishHeldKeys()
        #expect(try await recordedKeys() == [first.hash, second.hash], "a key that is not in the ledger is not noted")
        await catalogue.hsmTokenHasOpened("second", showing: [], asOf: .now)
        try await catalogue.publishHeldKeys()
        #expect(try await recordedKeys() == [first.hash])
        try await catalogue.keyChanged(first.hash, shown: [("primary", [])])
        try await catalogue.publishHeldKeys()
        #expect(try await recordedKeys().isEmpty)
        await ledger.close()
    }
}

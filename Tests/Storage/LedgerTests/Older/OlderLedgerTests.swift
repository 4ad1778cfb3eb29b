import AccessControl
import AuditChain
import Crypto
import DatabaseKit
import Foundation
import KeyTypes
import MerchantKeys
import PaymentToken
import TestSupport
import Testing

@testable import Ledger
@testable import PostgreSQLLedger
@testable import SQLiteLedger

/// Ledgers of older versions, which this version opens without losing data.
@Suite("Ledgers of older versions")
struct OlderLedgerTests {
    /// The states of each merchant's keys in the ledgers that `make` wrote.
    private static let states = [
        "active imported active", "compromised imported compromised", "generated generated pre-activation",
        "rotated generated active", "rotated imported deactivated", "suspended imported suspended",
    ]
    /// The references of the releases in `make`, in order.
    private static let references: [String?] = [
        "order-1", "order-2", "order-3", nil, "order-5", "order-7", "order-8", "order-9",
    ]

    private static func digest(_ reference: String) -> [UInt8] { Array(SHA256.hash(data: Data(reference.utf8))) }

    private func release(
        _ claim: PlacedLedger.StoredClaim, key: PublicKeyHash? = nil, reference: [UInt8]?, content: [UInt8]? = nil
    ) -> Release {
        Release(
            transactionId: claim.transaction, publicKeyHash: key ?? claim.key, caller: claim.caller,
            referenceDigest: reference, contentDigest: content ?? claim.content, at: claim.at + 60)
    }

    @Test("keeps and enforces keys, claims, record and checkpoints after the upgrade", arguments: OlderLedgerFile.all)
    func opened(_ file: OlderLedgerFile) async throws {
        let place = try await file.placed()
        let (claims, lines) = (try await place.claims(), try await place.lines())
        let hasGooglePay = file.version >= (file.engine == .sqlite ? 11 : 12)
        let references = Self.references + (hasGooglePay ? ["order-10"] : [])
        #expect(claims.map(\.reference) == references.map { $0.map(Self.digest) })
        try await place.upgraded()
        let ledger = try await place.open()

        let keys = try await ledger.keyRecords()
        let kept = keys.map { key in
            "\(key.merchantIdentifier.split(separator: ".").last ?? "") \(key.origin.rawValue) \(key.state.rawValue)"
        }
        let hasServiceKey = file.version >= (file.engine == .sqlite ? 8 : 9)
        let added =
            (hasServiceKey ? ["2X9R4HXF34 imported active"] : [])
            + (hasGooglePay ? ["BCR2DN4TEXAMPLE generated active"] : [])
        #expect(kept.sorted() == added + Self.states)
        // In the first versions, `processing` was the only use of a key.
        var uses: Set<KeyUse> = [.processing]
        if hasServiceKey { uses.insert(.service) }
        if hasGooglePay { uses.insert(.googlePay) }
        #expect(Set(keys.map(\.use)) == uses)
        #expect(keys.filter { $0.cutOff != nil }.map(\.state) == [.deactivated])

        let hasRenewal = file.version >= (file.engine == .sqlite ? 10 : 11)
        let renewals = try await ledger.openRenewals()
        #expect(renewals.map(\.renewal.merchantIdentifier) == (hasRenewal ? ["merchant.com.example.generated"] : []))
        #expect(renewals.allSatisfy { $0.request != nil && $0.attempts.isEmpty })

        let auditKeys = try await ledger.auditKeys()
        #expect(auditKeys.count == 1)
        let storesHSMToken = file.version >= (file.engine == .sqlite ? 7 : 8)
        #expect((auditKeys.first?.hsmToken != nil) == storesHSMToken)
        let point = try #require(auditKeys.first?.publicKey)
        let publicKey = try #require(CheckpointKey(point: point))
        let checkpoint = try await ledger.latestCheckpoint()
        let last = try #require(checkpoint)
        var verifier = ChainVerifier(keys: CheckpointKeys([publicKey]), heads: [last], beginning: .afterArchive)
        for try await page in ledger.export(from: 1) { verifier.consume(page.bytes[...]) }
        let verdict = verifier.verdict()
        let head = try await ledger.head()
        #expect(verdict.intactRecords == head.sequence, "\(verdict)")
        #expect(try await place.lines() == lines)

        // The database is now on another server than when the older version last compared its record.
        #expect(try await ledger.confirm(remembered: last.checkpoint) == .continues)
        let active = try #require(keys.first { $0.merchantIdentifier.hasSuffix(".active") }).publicKeyHash
        for claim in claims {
            // A repeat needs the right reference and the right content. These requests have no reference, a different
            // reference, and different content.
            #expect(try await ledger.release(release(claim, key: active, reference: nil)) == .replayed)
            let other = Self.digest("another")
            #expect(try await ledger.release(release(claim, key: active, reference: other)) == .replayed)
            let content = release(claim, key: active, reference: claim.reference, content: other)
            #expect(try await ledger.release(content) == .replayed)
        }
        let first = claims[0]
        #expect(try await ledger.release(release(first, reference: first.reference)) == .repeated)
        for record in keys where record.state != .active && record.state != .deactivated {
            let new = Release(
                transactionId: try #require(TransactionIdentifier(bytes: record.publicKeyHash.bytes)),
                publicKeyHash: record.publicKeyHash, caller: "0", referenceDigest: nil,
                contentDigest: [UInt8](repeating: 0, count: 32), at: first.at + 60)
            #expect(try await ledger.release(new) == .keyNotActive, "\(record.state)")
        }
        let number = try await LedgerFixture(engine: .sqlite).request(1, key: active, at: first.at + 60)
        let new = try await ledger.release(number, recording: LedgerFixture.record(of: number))
        #expect(new == RecordedVerdict(.released, sequence: last.checkpoint.sequence + 1))
        await ledger.close()
    }

    @Test(
        "decides a request from before the upgrade on its own host, and says elsewhere what to do")
    func openRequests() async throws {
        let file = OlderLedgerFile(engine: .postgresql, version: 6)
        let place = try await file.placed()
        guard case .database(let database) = place else { return }
        let now = Date()
        let expires = StoredTime.milliseconds(now) + 3_600_000
        for digits in ["0a1b2c3d4e5f6071", "0a1b2c3d4e5f6072"] {
            try await database.sql(
                """
                INSERT INTO approval VALUES ('\\x\(digits)', 'key_import', sha256('p'), NULL, NULL, 1001, 'security-a', 1001,
                    100, '', 'r', 0, \(expires), 'pending', NULL, NULL, 'node-1')
                """)
        }
        try await place.upgraded()
        let settings = PostgreSQLLedger.Settings(url: try database.url(), node: "node-1", timeout: .seconds(60))
        let here = try await PostgreSQLLedger.open(settings)
        var others = settings
        others.node = "node-2"
        let there = try await PostgreSQLLedger.open(others)
        let open = try await here.approvals(limit: 10)
        #expect(open.count == 2)
        let bob = PersonIdentities(uid: 1002, account: "bob")
        let approve = { (approval: Approval) in
            AdministrativeChange(
                at: now, approval: .approve(approval.identifier, by: bob, executes: false), records: [])
        }
        try await here.apply(approve(open[0]))
        let conflict = ApprovalConflict.requestersAccountUnknown(node: "node-1")
        await #expect(throws: LedgerFailure.approval(conflict)) { try await there.apply(approve(open[1])) }
        #expect("\(conflict)".contains("withdraw it and request it again"))
        let alice = PersonIdentities(uid: 1001, account: "alice")
        try await here.apply(
            AdministrativeChange(at: now, approval: .withdraw(open[1].identifier, by: alice), records: []))
        await there.close()
        await here.close()
    }

    @Test(
        "finds a table that was changed without a new version, by the schema in this version's file",
        arguments: StorageEngine.allCases)
    func frozen(_ engine: StorageEngine) async throws {
        let version = engine == .sqlite ? SQLiteTables.version : PostgreSQLTables.version
        // A new version needs its own file: Tests/Storage/OlderLedgers/make, and a line in OlderLedgerFile.all. UpgradeTests
        // compare the schema of each upgraded version with it.
        let published = try #require(
            OlderLedgerFile.all.first { $0.engine == engine && $0.version == version }, "no file of version \(version)")
        let new: PlacedLedger
        switch engine {
        case .sqlite:
            let directory = try FreshDirectory()
            let path = directory.path("ledger.sqlite")
            let ledger = try await SQLiteLedger.open(SQLiteLedger.Settings(path: path, node: "node-1"))
            await ledger.close()
            new = .file(directory, path)
        case .postgresql:
            let server = try await LedgerDatabases.shared.server
            let name = "f\(UInt64.random(in: .min ... .max))"
            try await server.sql("CREATE DATABASE \(name) OWNER \(LedgerDatabases.owner)")
            new = .database(LedgerDatabase(server: server, name: name))
            _ = try await PostgreSQLSchema.create(
                LedgerDatabase(server: server, name: name).url(as: LedgerDatabases.owner))
        }
        let expected = try await published.placed().schema()
        #expect(!expected.isEmpty)
        #expect(try await new.schema() == expected)
    }
}

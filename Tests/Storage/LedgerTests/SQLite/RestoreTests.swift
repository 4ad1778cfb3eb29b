import AccessControl
import AuditChain
import Foundation
import GRDB
import MerchantKeys
import PaymentToken
import TestSupport
import Testing

@testable import Ledger
@testable import OfflineLedger
@testable import SQLiteLedger

/// The files that an interrupted restore and a complete restore leave.
@Suite("Restoring a ledger's file")
struct LedgerFileRestoreTests {
    /// The ledger of a killed daemon, whose newest commits are only in the write-ahead log, and a copy that contains
    /// only the first release.
    private struct Killed {
        let fixture: LedgerFixture
        let directory: FreshDirectory
        let path: String
        let copy: String

        /// - Parameter before: changes the ledger before the copy is made.
        init(_ before: (LedgerFixture) async throws -> Void = { _ in }) async throws {
            fixture = try await LedgerFixture(engine: .sqlite)
            #expect(try await fixture.ledger.release(fixture.request(1)) == .released)
            try await before(fixture)
            copy = try await fixture.sqlite.backup(to: fixture.directory.path("copy.sqlite")).path
            #expect(try await fixture.ledger.release(fixture.request(2)) == .released)
            directory = try FreshDirectory()
            path = directory.path("ledger.sqlite")
            for suffix in ["", "-wal"] {
                try FileManager.default.copyItem(atPath: fixture.settings.path + suffix, toPath: path + suffix)
            }
            #expect(try Data(contentsOf: URL(filePath: path + "-wal")).count > 0)
        }

        /// Closes the ledger, so that its file is complete.
        func close() async { await fixture.ledger.close() }

        func settings(_ path: String? = nil) -> SQLiteLedger.Settings {
            var settings = fixture.settings
            settings.path = path ?? self.path
            return settings
        }

        func restore(
            _ copy: String? = nil, log: String? = nil, expected: AuditDigest? = nil, changes: Bool = true
        ) throws -> LedgerFileRestore.Report {
            let file = try FileHandle(forReadingFrom: URL(filePath: copy ?? self.copy))
            let log = try log.map { try FileHandle(forReadingFrom: URL(filePath: $0)) }
            return try LedgerFileRestore(
                copy: file, log: log, named: "copy.sqlite", expected: expected, to: path, now: LedgerFixture.noon
            ).carryOut(changes: changes)
        }

        /// Changes the copy without the ledger's code.
        func changeCopy(_ statement: String) throws {
            let queue = try DatabaseQueue(path: copy)
            try queue.write { try $0.execute(sql: statement) }
            try queue.close()
        }

        /// Returns true if the ledger at this path has claims of both releases.
        func knowsBoth(_ path: String) async throws -> Bool {
            let ledger = try await SQLiteLedger.open(settings(path))
            var verdicts: [ReleaseVerdict] = []
            for number in 1...2 {
                verdicts.append(try await ledger.release(fixture.request(number, reference: nil)))
            }
            await ledger.close()
            return verdicts == [.replayed, .replayed]
        }
    }

    private static func version(_ path: String) throws -> String? {
        let queue = try DatabaseQueue(path: path)
        defer { try? queue.close() }
        return try queue.read {
            try String.fetchOne($0, sql: "SELECT value FROM ledger_meta WHERE name = 'schema_version'")
        }
    }

    private static let steps = 8

    @Test(
        "starts nothing that has forgotten a release after a power cut at any step, and restores at the next try",
        arguments: 0...steps)
    func brokenOff(after count: Int) async throws {
        let killed = try await Killed()
        defer { withExtendedLifetime(killed) {} }
        let restored = killed.path + ".restoring"
        try FileManager.default.copyItem(atPath: killed.copy, toPath: restored)
        let aside = killed.path + ".before-restore-first"
        let exchange = try LedgerFileExchange(path: killed.path, restored: restored, aside: aside)
        #expect(exchange.steps.count == Self.steps)
        for step in exchange.steps.prefix(count) { try step() }

        let place = LedgerPlace(of: killed.path)
        if place == .interruptedRestore(aside: aside) {
            await #expect(throws: LedgerOpeningError.restoreBrokenOff(path: killed.path, aside: aside)) {
                try await SQLiteLedger.open(killed.settings())
            }
            #expect(FileManager.default.fileExists(atPath: aside))
        } else if FileManager.default.fileExists(atPath: restored) {
            // The previous ledger is still in place, with its write-ahead log.
            #expect(try await killed.knowsBoth(killed.path))
        } else {
            #expect(try Data(contentsOf: URL(filePath: killed.path)) == Data(contentsOf: URL(filePath: killed.copy)))
            #expect(!FileManager.default.fileExists(atPath: killed.path + "-wal"))
        }

        let report = try killed.restore()
        #expect(try Self.version(killed.path) == "restored-\(SQLiteTables.version)")
        let left = try FileManager.default.contentsOfDirectory(atPath: killed.directory.path)
        #expect(!left.contains { $0.contains(".restoring") }, "\(left)")
        // The previous ledger has every release, whether it was set aside now or by the interrupted restore.
        let former = FileManager.default.fileExists(atPath: aside) ? aside : try #require(report.setAside)
        #expect(try await killed.knowsBoth(former))
        await killed.close()
    }

    @Test("moves aside a log or journal without a ledger, which SQLite would apply to the restored one")
    func strayLog() async throws {
        let killed = try await Killed()
        try FileManager.default.removeItem(atPath: killed.path)
        let stray = try Data(contentsOf: URL(filePath: killed.path + "-wal"))
        #expect(try killed.restore().setAside == nil)
        #expect(!FileManager.default.fileExists(atPath: killed.path + "-wal"))
        let names = try FileManager.default.contentsOfDirectory(atPath: killed.directory.path)
        let aside = try #require(names.first { $0.contains("before-restore") && $0.hasSuffix("-wal") }, "\(names)")
        #expect(try Data(contentsOf: URL(filePath: killed.directory.path(aside))) == stray)
        await killed.close()
    }

    @Test("refuses and keeps anything but a file in the ledger's place")
    func notAFile() async throws {
        let killed = try await Killed()
        for suffix in ["", "-wal"] { try FileManager.default.removeItem(atPath: killed.path + suffix) }
        for target in ["elsewhere", "../elsewhere.restoring", "/elsewhere.restoring"] {
            try FileManager.default.createSymbolicLink(atPath: killed.path, withDestinationPath: target)
            #expect(
                throws: LedgerFileRestoreError.file(.notPrivate(path: killed.path, why: "is not a regular file"))
            ) { try killed.restore() }
            #expect(try FileManager.default.destinationOfSymbolicLink(atPath: killed.path) == target)
            try FileManager.default.removeItem(atPath: killed.path)
        }
        try FileManager.default.createDirectory(atPath: killed.path, withIntermediateDirectories: false)
        #expect(throws: LedgerFileRestoreError.file(.notPrivate(path: killed.path, why: "is not a regular file"))) {
            try killed.restore()
        }
        await killed.close()
    }

    @Test("marks the file with a schema that is no number until acceptance, so that older programs refuse it")
    func refusedByOlderPrograms() async throws {
        let killed = try await Killed()
        _ = try killed.restore()
        #expect(try Self.version(killed.path).flatMap { Int($0) } == nil)
        let ledger = try await SQLiteLedger.open(killed.settings())
        let status = try await ledger.releaseStatus()
        #expect(status.holds.map(\.finding.kind) == [.restored])
        await ledger.close()
        // A file whose mark of a restore is incomplete still counts as restored.
        let queue = try DatabaseQueue(path: killed.path)
        try await queue.write { try $0.execute(sql: "DELETE FROM ledger_meta WHERE name = 'restored_at'") }
        try queue.close()
        let half = try await SQLiteLedger.open(killed.settings())
        await #expect(throws: LedgerFailure.self) { try await half.releaseStatus() }
        await half.close()
        await killed.close()
    }

    @Test("verifies, upgrades and marks a copy of an older version's ledger, and keeps the copy as it is")
    func olderCopy() async throws {
        let killed = try await Killed()
        guard case .file(let directory, let older) = try await OlderLedgerFile(engine: .sqlite, version: 3).placed()
        else { return }
        defer { withExtendedLifetime(directory) {} }
        let claims = try await PlacedLedger.file(directory, older).claims()
        let before = try Data(contentsOf: URL(filePath: older))
        let report = try killed.restore(older)
        #expect(report.copySchema == 3 && report.claims == claims.count && report.node == "node-1")
        #expect(try Self.version(killed.path) == "restored-\(SQLiteTables.version)")
        #expect(try await PlacedLedger.file(killed.directory, killed.path).claims() == claims)
        #expect(try Data(contentsOf: URL(filePath: older)) == before)
        await killed.close()
    }

    @Test("restores a copy in which SQLite keeps statistics")
    func statistics() async throws {
        let killed = try await Killed()
        try killed.changeCopy("ANALYZE")
        #expect(try killed.restore().claims == 1)
        await killed.close()
    }

    @Test(
        "refuses a copy with a foreign or missing table, column, index or trigger",
        arguments: [
            "CREATE TRIGGER forget AFTER INSERT ON claim BEGIN DELETE FROM claim; END",
            "CREATE TABLE another (value TEXT) STRICT",
            "CREATE VIEW another AS SELECT 1",
            "ALTER TABLE claim ADD COLUMN another TEXT",
            "DROP INDEX audit_record_by_sequence",
            """
            DROP INDEX audit_record_by_sequence;
            CREATE INDEX audit_record_by_sequence ON audit_record (node, sequence)
            """,
        ])
    func foreignTables(_ statement: String) async throws {
        let killed = try await Killed()
        try killed.changeCopy(statement)
        let before = try Data(contentsOf: URL(filePath: killed.path))
        #expect(
            throws: LedgerFileRestoreError.broken(
                copy: "copy.sqlite", fault: "Its tables, indexes or triggers are not those of a ledger.")
        ) { try killed.restore() }
        #expect(try Data(contentsOf: URL(filePath: killed.path)) == before)
        #expect(try await killed.knowsBoth(killed.path))
        await killed.close()
    }

    // MARK: A changed copy

    /// Suspends one key and marks another one as compromised, and records both changes.
    private static func changeStates(_ fixture: LedgerFixture) async throws {
        for (number, state) in [(UInt8(2), KeyState.suspended), (3, .compromised)] {
            let key = LedgerFixture.hash(number)
            try await fixture.ledger.store(LedgerFixture.record(key))
            try await fixture.ledger.apply(
                AdministrativeChange(
                    at: LedgerFixture.noon, key: LedgerFixture.record(key, state: state),
                    records: [
                        AuditRecord(
                            time: AuditTime(LedgerFixture.noon),
                            event: .keyStateChange(
                                KeyStateChange(from: nil, to: AuditKeyState(rawValue: state.rawValue))),
                            publicKeyHash: AuditDigest(bytes: key.bytes))
                    ]))
        }
    }

    @Test(
        "refuses a copy in which a key may do more than after its last recorded change",
        arguments: [
            ("suspended", "active"), ("suspended", "deactivated"), ("compromised", "active"),
            ("compromised", "suspended"), ("compromised", "pre-activation"),
        ])
    func freerKey(state: String, becomes: String) async throws {
        let killed = try await Killed(Self.changeStates)
        #expect(try killed.restore(changes: false).records == 2)
        try killed.changeCopy("UPDATE merchant_key SET state = '\(becomes)' WHERE state = '\(state)'")
        let key = LedgerFixture.hash(state == "suspended" ? 2 : 3).base64
        #expect(
            throws: LedgerFileRestoreError.broken(
                copy: "copy.sqlite", fault: "Its key \(key) may do more than its records allow: the copy was changed.")
        ) { try killed.restore() }
        // A copy whose records hide the state changes is refused too.
        try killed.changeCopy("UPDATE audit_record SET event = 'verify' WHERE event = 'key_state_change'")
        #expect(throws: LedgerFileRestoreError.self) { try killed.restore() }
        await killed.close()
    }

    @Test("restores a copy in which a key may do less, and releases nothing with it")
    func stricterKey() async throws {
        let killed = try await Killed(Self.changeStates)
        try killed.changeCopy("UPDATE merchant_key SET state = 'destroyed'")
        #expect(try killed.restore().records == 2)
        await killed.close()
    }

    @Test("refuses a release at an impossible time, which would move the fence out of reach")
    func impossibleTime() async throws {
        for time in [Int64.max, .min, -1, 253_402_300_800_000] {
            let killed = try await Killed()
            try killed.changeCopy("UPDATE claim SET claimed_at = \(time)")
            #expect(
                throws: LedgerFileRestoreError.broken(
                    copy: "copy.sqlite", fault: "A claim has an invalid time.")
            ) { try killed.restore() }
            await killed.close()
        }
    }

    @Test("expires open requests for a second person in the restored ledger")
    func openRequests() async throws {
        let identifiers = [ApprovalIdentifier.random(), .random()]
        let person = PersonIdentities(uid: 1000)
        let killed = try await Killed { fixture in
            for identifier in identifiers {
                let approval = Approval(
                    identifier: identifier, operation: .keyDestroy, parameters: .zero, key: nil, keyState: nil,
                    requester: ApprovalRequester(person: person, name: "alice", gid: 100, groups: []),
                    reason: AuditReason("old"), requestedAt: LedgerFixture.noon - 60,
                    expires: LedgerFixture.noon + 3600)
                try await fixture.ledger.apply(
                    AdministrativeChange(at: LedgerFixture.noon - 60, approval: .request(approval), records: []))
            }
            try await fixture.ledger.apply(
                AdministrativeChange(
                    at: LedgerFixture.noon - 30,
                    approval: .approve(identifiers[1], by: PersonIdentities(uid: 1001), executes: false), records: []))
        }
        _ = try killed.restore()
        let ledger = try await SQLiteLedger.open(killed.settings())
        let overdue = try await ledger.approvals(limit: 10)
        #expect(Set(overdue.map(\.identifier)) == Set(identifiers))
        #expect(overdue.allSatisfy { $0.status(at: LedgerFixture.noon) == .expired })
        await ledger.close()
        await killed.close()
    }

    @Test("compares a copy with the SHA-256 of its backup, and with nothing else")
    func digest() async throws {
        let killed = try await Killed()
        let before = try AuditDigest.of(Data(contentsOf: URL(filePath: killed.copy)))
        #expect(try killed.restore(expected: before, changes: false).digest == before)
        // Audit records do not list claims, so only the digest of the copy shows that claims are missing.
        try killed.changeCopy("DELETE FROM claim")
        let after = try AuditDigest.of(Data(contentsOf: URL(filePath: killed.copy)))
        #expect(
            throws: LedgerFileRestoreError.broken(
                copy: "copy.sqlite", fault: "Its SHA-256 is \(after.hex), not the expected one.")
        ) { try killed.restore(expected: before) }
        #expect(try killed.restore().claims == 0)
        await killed.close()
    }

    @Test("reports how many records follow the last checkpoint, since an owner of the copy can forge them")
    func unsealed() async throws {
        let signer = CheckpointSigner()
        let killed = try await Killed { fixture in
            for number in 11...13 { _ = try await fixture.releasing(number)(fixture.ledger) }
            let identifier = [UInt8](repeating: 1, count: 16)
            try await fixture.ledger.planAuditKey(identifier: identifier, in: "primary")
            try await fixture.ledger.confirmAuditKey(
                identifier: identifier, publicKey: Array(signer.key.publicKey.x963Representation), recording: nil)
            try await signer.seal(fixture.ledger)
            for number in 14...15 { _ = try await fixture.releasing(number)(fixture.ledger) }
        }
        let report = try killed.restore()
        #expect(report.records == 5 && report.unsealed == 2, "\(report)")
        await killed.close()
    }

    // MARK: A former ledger

    @Test(
        "restores with its log a ledger that was set aside in use, so that its newest releases are not forgotten"
    )
    func withLog() async throws {
        let killed = try await Killed()
        let (former, log) = (killed.directory.path("former"), killed.directory.path("former-wal"))
        try FileManager.default.copyItem(atPath: killed.path, toPath: former)
        try FileManager.default.copyItem(atPath: killed.path + "-wal", toPath: log)
        #expect(try killed.restore(former, log: log).claims == 2)
        #expect(!FileManager.default.fileExists(atPath: killed.path + "-wal"))
        #expect(try await killed.knowsBoth(killed.path))
        await killed.close()
    }

    @Test("refuses a log next to a copy whose SHA-256 is given, since it could change what the digest covers")
    func logWithDigest() async throws {
        let killed = try await Killed()
        let before = try Data(contentsOf: URL(filePath: killed.path))
        let log = killed.directory.path("former-wal")
        try FileManager.default.copyItem(atPath: killed.path + "-wal", toPath: log)
        let error = #expect(throws: LedgerFileRestoreError.self) {
            try killed.restore(killed.path, log: log, expected: .of(before))
        }
        guard case .broken(_, let fault) = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(fault.contains("does not cover"))
        #expect(try Data(contentsOf: URL(filePath: killed.path)) == before)
        await killed.close()
    }

    @Test(
        "removes the second name that an interrupted restore gave the ledger, and keeps other copies")
    func secondName() async throws {
        let killed = try await Killed()
        let second = killed.path + ".before-restore-first"
        let other = try killed.directory.write("another", to: "ledger.sqlite.before-restore-older")
        try FileManager.default.linkItem(atPath: killed.path, toPath: second)
        let aside = try #require(try killed.restore().setAside)
        #expect(!FileManager.default.fileExists(atPath: second))
        #expect(try String(contentsOfFile: other, encoding: .utf8) == "another")
        #expect(try await killed.knowsBoth(aside))
        await killed.close()
    }
}

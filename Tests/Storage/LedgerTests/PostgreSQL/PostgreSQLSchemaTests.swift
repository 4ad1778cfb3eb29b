import AuditChain
import DatabaseKit
import Foundation
import PostgreSQLClient
import TestSupport
import Testing

@testable import Ledger
@testable import PostgreSQLLedger

@Suite("A PostgreSQL ledger's schema")
struct PostgreSQLSchemaTests {
    /// A database without a ledger.
    private func empty() async throws -> LedgerDatabase {
        let server = try await LedgerDatabases.shared.server
        let name = "e\(UInt64.random(in: .min ... .max))"
        try await server.sql("CREATE DATABASE \(name) OWNER \(LedgerDatabases.owner)")
        return LedgerDatabase(server: server, name: name)
    }

    private func open(_ database: LedgerDatabase) async throws -> PostgreSQLLedger {
        try await PostgreSQLLedger.open(PostgreSQLLedger.Settings(url: try database.url(), node: "node-1"))
    }

    @Test("creates the schema once, reads it without a change, and can be run again")
    func create() async throws {
        let database = try await empty()
        let url = try database.url(as: LedgerDatabases.owner)
        await #expect(throws: LedgerOpeningError.noSchema(server: try database.url().server)) {
            try await open(database)
        }
        let planned = try await PostgreSQLSchema.create(url, grantTo: LedgerDatabases.daemon, dryRun: true)
        #expect(
            planned.found == nil && planned.version == PostgreSQLSchema.version
                && planned.owner == LedgerDatabases.owner)
        await #expect(throws: LedgerOpeningError.self) { try await open(database) }
        #expect(try await PostgreSQLSchema.create(url, grantTo: LedgerDatabases.daemon) == planned)
        let ledger = try await open(database)
        try await ledger.store(LedgerFixture.record(LedgerFixture.hash(1)))
        let again = try await PostgreSQLSchema.create(url, grantTo: LedgerDatabases.daemon)
        #expect(again.found == PostgreSQLSchema.version)
        #expect(try await ledger.keyRecords().count == 1)
        await ledger.close()
    }

    @Test("refuses a role without rights, one that does not exist, and a foreign schema")
    func refused() async throws {
        let database = try await empty()
        await #expect(throws: LedgerOpeningError.self) { try await PostgreSQLSchema.create(database.url()) }
        await #expect(throws: LedgerOpeningError.self) {
            try await PostgreSQLSchema.create(database.url(as: LedgerDatabases.owner), grantTo: "nobody; DROP TABLE x")
        }
        try await database.server.sql("CREATE SCHEMA paytokend; CREATE TABLE paytokend.theirs ()", in: database.name)
        await #expect(throws: LedgerOpeningError.self) {
            try await PostgreSQLSchema.create(database.url(as: PostgreSQLServer.superuser))
        }
    }

    @Test("refuses a newer schema in daemon and create, and asks for create with an older one")
    func versions() async throws {
        let fixture = try await PostgreSQLFixture()
        let (database, known) = (fixture.database, PostgreSQLSchema.version)
        let server = try database.url().server
        try await database.sql("UPDATE ledger_state SET schema_version = 99")
        // A running daemon notices the changed schema version with its next batch.
        #expect(try await fixture.begin(1).value().isUnavailable)
        await #expect(throws: LedgerOpeningError.newerSchema(path: server, found: 99, known: known)) {
            try await fixture.node("node-2")
        }
        await #expect(throws: LedgerOpeningError.self) {
            try await PostgreSQLSchema.create(database.url(as: LedgerDatabases.owner))
        }
        try await database.sql("UPDATE ledger_state SET schema_version = 0")
        await #expect(throws: LedgerOpeningError.olderSchema(server: server, found: 0, known: known)) {
            try await fixture.node("node-2")
        }
    }

    @Test("upgrades no older schema while a daemon serves with it, which could release nothing more")
    func servingNodes() async throws {
        let fixture = try await PostgreSQLFixture()
        let (database, known) = (fixture.database, PostgreSQLSchema.version)
        let second = try await fixture.node("node-2")
        // The nodes' rows now look as if daemons of an older version served them.
        let older = "UPDATE ledger_state SET schema_version = \(known - 1)"
        let owner = try database.url(as: LedgerDatabases.owner)
        let nodes = { (names: [String]) in LedgerOpeningError.nodesServe(server: owner.server, nodes: names) }
        try await database.sql(older)
        for isDryRun in [true, false] {
            await #expect(throws: nodes(["node-1", "node-2"])) {
                try await PostgreSQLSchema.create(owner, dryRun: isDryRun)
            }
        }
        #expect(try await database.sql("SELECT schema_version FROM ledger_state") == "\(known - 1)")
        // If there is nothing to upgrade, the running daemons continue.
        try await database.sql("UPDATE ledger_state SET schema_version = \(known)")
        _ = try await PostgreSQLSchema.create(owner)
        await second.close()
        try await database.sql(older)
        await #expect(throws: nodes(["node-1"])) { try await PostgreSQLSchema.create(owner) }
        await fixture.ledger.close()
    }

    @Test(
        "refuses a database of version 1 until create has upgraded it, then continues with all its contents"
    )
    func upgraded() async throws {
        let database = try await empty()
        // The database has the state in which version 1 left it.
        let owner = try await database.session(as: LedgerDatabases.owner)
        try await owner.run("CREATE SCHEMA paytokend")
        for statement in PostgreSQLTables.steps[0] { try await owner.run(statement) }
        try await owner.run("INSERT INTO ledger_state (schema_version, forgotten_before) VALUES (1, 4711)")
        try await owner.run(
            "INSERT INTO node VALUES ('node-9', 3, '-infinity', clock_timestamp(), '1.0', NULL, 0, 0)")
        try await owner.run(
            """
            INSERT INTO merchant_key
            VALUES (sha256('k'), 'merchant.com.example', 'EC', 'active', NULL, 'imported', 0, 'node-9')
            """)
        let server = try database.url().server
        try await owner.run("GRANT USAGE ON SCHEMA paytokend TO \(LedgerDatabases.daemon)")
        try await owner.run("GRANT SELECT ON ledger_state TO \(LedgerDatabases.daemon)")
        await #expect(throws: LedgerOpeningError.olderSchema(server: server, found: 1, known: PostgreSQLSchema.version))
        {
            try await open(database)
        }
        let outcome = try await PostgreSQLSchema.create(
            database.url(as: LedgerDatabases.owner), grantTo: LedgerDatabases.daemon)
        #expect(outcome.found == 1 && outcome.version == PostgreSQLSchema.version)
        let ledger = try await open(database)
        #expect(try await ledger.times().forgottenBefore == Date(timeIntervalSince1970: 4.711))
        #expect(try await ledger.keyRecords().count == 1)
        let key = LedgerFixture.hash(1)
        try await ledger.store(LedgerFixture.record(key))
        let release = try await LedgerFixture(engine: .sqlite).request(1, key: key)
        #expect(try await ledger.release(release) == .released)
        #expect(try await ledger.confirm(remembered: nil) == .continues)
        try await ledger.update(heldKeys: [key])
        // Only a node that has started since the upgrade has reported its window.
        try await ledger.update(widestWindow: .seconds(300))
        var change = AdministrativeChange(at: LedgerFixture.noon, records: [])
        change.restore = .accept([], newestRelease: nil, approval: nil)
        await #expect(throws: LedgerFailure.windowOff(nodes: ["node-9"])) { try await ledger.apply(change) }
        await ledger.close()
    }

    @Test(
        "lets the daemon's role neither delete nor change records, checkpoints, claims or the schema",
        arguments: [
            "DELETE FROM audit_record", "UPDATE audit_record SET line = '\\x00'", "TRUNCATE audit_record",
            "DELETE FROM checkpoint", "UPDATE checkpoint SET line = '\\x00'", "DELETE FROM claim",
            "UPDATE claim SET claimed_at = 0", "UPDATE claim SET attempt = '\\x00'", "TRUNCATE claim",
            "DELETE FROM merchant_key", "UPDATE merchant_key SET merchant_identifier = 'x'", "DELETE FROM audit_key",
            "UPDATE audit_key SET identifier = '\\x00'", "DELETE FROM approval",
            "UPDATE approval SET requester_uid = 1", "DELETE FROM renewal",
            "UPDATE renewal SET public_key_hash = '\\x00'",
            "DELETE FROM renewal_attempt", "UPDATE renewal_attempt SET target = 'x'",
            "DELETE FROM node", "UPDATE node SET name = 'x'", "DELETE FROM ledger_state",
            "UPDATE ledger_state SET forgotten_before = 0", "UPDATE ledger_state SET schema_version = 0",
            "DROP TABLE claim", "ALTER TABLE claim ADD COLUMN x int", "CREATE TABLE paytokend.x ()",
            "CREATE OR REPLACE FUNCTION present() RETURNS bigint LANGUAGE sql AS 'SELECT 0'",
            "ALTER TABLE audit_record DISABLE TRIGGER ALL",
        ])
    func leastRights(statement: String) async throws {
        let fixture = try await PostgreSQLFixture()
        _ = try await fixture.release(1)
        let daemon = try await fixture.database.session(as: LedgerDatabases.daemon)
        let failure = await #expect(throws: PostgreSQLFailure.self) { try await daemon.run(statement) }
        #expect(failure == .refused(.insufficientPrivilege, statement: 0))
    }

    @Test(
        "prunes for the daemon's role no claims that are too young, or whose payment tokens would not be forgotten"
    )
    func pruning() async throws {
        let fixture = try await PostgreSQLFixture()
        _ = try await fixture.release(1)
        try await fixture.database.sql(
            "CREATE OR REPLACE FUNCTION present() RETURNS bigint LANGUAGE sql AS 'SELECT 1800000000000'",
            as: LedgerDatabases.owner)
        let daemon = try await fixture.database.session(as: LedgerDatabases.daemon)
        // The server's clock, whose time the claim has, is a year slow. The node reports that payment tokens may be
        // signed up to a day later.
        try await daemon.run("UPDATE node SET signed_ahead = 86400000, widest_window = 300000")
        // The role cannot reduce `signed_ahead`. If it reports no window or a very narrow one, half a minute is used
        // instead.
        let smaller = await #expect(throws: PostgreSQLFailure.self) {
            try await daemon.run("UPDATE node SET signed_ahead = 0")
        }
        #expect("\(try #require(smaller))".contains("P0001"))
        for statement in [
            "prune_claims(present(), present(), 500)", "prune_claims(present() + 1, present() + 86400001, 500)",
            "prune_claims(present(), present() + 86400000, 500)", "prune_claims(present(), 9000000000000, 500)",
            "prune_claims(NULL, present() - 86400000, 500)", "prune_claims(0, NULL, 500)",
            "prune_claims(present() - 86400000 - 300000, present() - 300001, 500)",
            "prune_claims(present() - 86400000 - 299999, present() - 299999, 500)",
        ] {
            let failure = await #expect(throws: PostgreSQLFailure.self, "\(statement)") {
                try await daemon.run("SELECT \(statement)")
            }
            #expect("\(try #require(failure))".contains("P0001"), "\(statement)")
        }
        #expect(try await fixture.count("claim") == 1)
        #expect(try await fixture.ledger.times().forgottenBefore == nil)
        #expect(
            try await daemon.run("SELECT prune_claims(present() - 86700000, present() - 300000, 500)").first?.integer(0)
                == 0)
        try await daemon.run("UPDATE node SET widest_window = NULL")
        try await daemon.run("SELECT prune_claims(present() - 86430000, present() - 30000, 500)")
    }

    @Test(
        "serves no payment token of a pruned claim again for the daemon's role, with a slow clock or a long transaction"
    )
    func repeatable() async throws {
        let fixture = try await PostgreSQLFixture()
        let (ledger, database) = (fixture.ledger, fixture.database)
        try await ledger.update(widestWindow: .seconds(300))
        var release = try fixture.request(1)
        // The server's clock is half a minute slow. The signing time comes from a correct clock.
        let present = StoredTime.milliseconds(release.at) - 30_000
        try await database.sql(
            "CREATE OR REPLACE FUNCTION present() RETURNS bigint LANGUAGE sql AS 'SELECT \(present)'",
            as: LedgerDatabases.owner)
        release.signedAt = release.at
        #expect(try await ledger.release(release) == .released)
        let thief = try await database.session(as: LedgerDatabases.daemon)
        try await thief.run("UPDATE node SET widest_window = 0")
        // An attacker with the daemon's role would choose the lowest fence and the newest claims that the function
        // permits.
        for times in ["present() + 30001, present()", "present(), present()"] {
            await #expect(throws: PostgreSQLFailure.self) { try await thief.run("SELECT prune_claims(\(times), 500)") }
        }
        #expect(try await ledger.release(try fixture.request(1, reference: nil)) == .replayed)
        let later = present + 120_000
        try await database.sql(
            "CREATE OR REPLACE FUNCTION present() RETURNS bigint LANGUAGE sql AS 'SELECT \(later)'",
            as: LedgerDatabases.owner)
        try await thief.run("SELECT prune_claims(present() - 60000, present() - 30000, 500)")
        #expect(try await fixture.count("claim") == 0)
        let fence = StoredTime.date(later - 30_000)
        var again = try fixture.request(1, reference: nil)
        again.signedAt = release.signedAt
        #expect(try await ledger.release(again) == .forgotten(before: fence))
    }

    @Test(
        "takes nothing forgotten back up to a time before now and the widest window, by the present clock"
    )
    func limited() async throws {
        let fixture = try await PostgreSQLFixture()
        try await fixture.ledger.update(widestWindow: .seconds(300))
        let daemon = try await fixture.database.session(as: LedgerDatabases.daemon)
        let forgotten: Int64 = 4_000_000_000_000
        try await fixture.database.sql("UPDATE ledger_state SET forgotten_before = \(forgotten)")
        let opened = "floor(extract(epoch FROM transaction_timestamp()) * 1000)::bigint"
        // The transaction's start time would permit these fences, but by the present clock they are too early.
        try await daemon.run("BEGIN")
        try await fixture.database.sql("SELECT pg_sleep(0.05)")
        for served in ["\(opened) + 300000", "\(opened) + 1000", "0"] {
            try await daemon.run("SAVEPOINT before")
            let failure = await #expect(throws: PostgreSQLFailure.self, "\(served)") {
                try await daemon.run("SELECT limit_forgotten(\(forgotten), \(served))")
            }
            #expect("\(try #require(failure))".contains("P0001"), "\(served)")
            try await daemon.run("ROLLBACK TO before")
        }
        try await daemon.run("ROLLBACK")
        // The daemon waits as long as the server requires, and records the time until which it waits.
        var change = AdministrativeChange(
            at: Date(),
            records: [
                AuditRecord(
                    time: AuditTime(Date()), event: .ledgerAcceptClock(LedgerClockAcceptance(reason: AuditReason("r"))))
            ])
        change.clock = AdministrativeChange.ClockChange(
            forgottenBefore: StoredTime.date(forgotten), servedFrom: Date())
        let sequence = try #require(try await fixture.ledger.apply(change).last)
        let served = try #require(try await fixture.ledger.times().forgottenBefore)
        #expect(served > Date() + 300 && served < StoredTime.date(forgotten))
        let line = try await fixture.database.sql(
            "SELECT convert_from(line, 'UTF8') FROM audit_record WHERE sequence = \(sequence)")
        #expect(line.contains("\"servedFrom\":\"\(AuditTime(served).text)\""), "\(line)")
        // The function never raises the time.
        try await daemon.run("SELECT limit_forgotten(forgotten_before, forgotten_before + 1000) FROM ledger_state")
        #expect(try await fixture.ledger.times().forgottenBefore == served)
    }

    @Test(
        "keeps ended keys ended, repeats counted, and pruned payment tokens refused for the daemon's role"
    )
    func guards() async throws {
        let fixture = try await PostgreSQLFixture()
        _ = try await fixture.release(1)
        _ = try await fixture.release(1)
        let daemon = try await fixture.database.session(as: LedgerDatabases.daemon)
        try await daemon.run("SELECT prune_claims(present() - 60000, present() - 30000, 1000)")
        #expect(try await fixture.count("claim") == 0)
        let before = Int64(Date().timeIntervalSince1970 * 1000) - 1000
        var statements = ["SELECT limit_forgotten(forgotten_before, \(before)) FROM ledger_state"]
        _ = try await fixture.ledger.probe()
        try await daemon.run(
            """
            INSERT INTO claim VALUES (sha256('t'), sha256('k'), 'c', NULL, sha256('x'), '\\x00', 0, 5, NULL, NULL, 'node-1')
            """)
        statements.append("UPDATE claim SET repeats = 4")
        for state in ["compromised", "destroyed"] {
            try await daemon.run("UPDATE merchant_key SET state = '\(state)'")
            statements.append("UPDATE merchant_key SET state = 'active'")
            for statement in statements {
                let failure = await #expect(throws: PostgreSQLFailure.self) { try await daemon.run(statement) }
                #expect("\(try #require(failure))".contains("P0001"), "\(statement): \(String(describing: failure))")
            }
        }
        await #expect(throws: PostgreSQLFailure.self) {
            try await daemon.run("UPDATE merchant_key SET state = 'compromised'")
        }
    }

    @Test(
        "gives rights to no role that they would not limit: PUBLIC, a superuser, the owner, or a member of it")
    func grantedTo() async throws {
        let database = try await empty()
        let owner = try database.url(as: LedgerDatabases.owner)
        let member = "member\(UInt32.random(in: 0 ... .max))"
        try await database.server.sql("CREATE ROLE \(member) LOGIN IN ROLE \(LedgerDatabases.owner)")
        for role in ["public", PostgreSQLServer.superuser, LedgerDatabases.owner, member] {
            let error = await #expect(throws: LedgerOpeningError.self, "\(role)") {
                try await PostgreSQLSchema.create(owner, grantTo: role)
            }
            #expect("\(try #require(error))".contains("its rights do not restrict it"))
        }
        #expect(try await PostgreSQLSchema.create(owner, dryRun: true).found == nil, "nothing was made")
    }

    @Test("refuses a schema that belongs to another role than the account")
    func foreignSchema() async throws {
        let database = try await empty()
        try await database.server.sql(
            "CREATE SCHEMA paytokend AUTHORIZATION \(LedgerDatabases.daemon)", in: database.name)
        let error = await #expect(throws: LedgerOpeningError.self) {
            try await PostgreSQLSchema.create(
                database.url(as: PostgreSQLServer.superuser), grantTo: LedgerDatabases.daemon)
        }
        #expect("\(try #require(error))".contains("belongs to another role"))
    }

    @Test("makes simultaneous creations wait for each other")
    func atOnce() async throws {
        let database = try await empty()
        let owner = try database.url(as: LedgerDatabases.owner)
        let found = try await withThrowingTaskGroup(of: Int?.self) { group in
            for _ in 0..<4 {
                group.addTask { try await PostgreSQLSchema.create(owner, grantTo: LedgerDatabases.daemon).found }
            }
            return try await group.reduce(into: [Int?]()) { $0.append($1) }
        }
        #expect(found.count { $0 == nil } == 1 && found.count { $0 == PostgreSQLSchema.version } == 3)
    }

    @Test("gives another role no rights at all, not to the functions either")
    func others() async throws {
        let fixture = try await PostgreSQLFixture()
        let role = "other\(UInt32.random(in: 0 ... .max))"
        try await fixture.database.server.sql("CREATE ROLE \(role) LOGIN")
        let other = try await fixture.database.session(as: role)
        for statement in ["SELECT * FROM paytokend.claim", "SELECT paytokend.exclude_releases()"] {
            let failure = await #expect(throws: PostgreSQLFailure.self) { try await other.run(statement) }
            #expect(failure == .refused(.insufficientPrivilege, statement: 0))
        }
    }
}

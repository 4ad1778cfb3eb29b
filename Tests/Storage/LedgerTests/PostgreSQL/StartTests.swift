import Foundation
import TestSupport
import Testing

@testable import Ledger
@testable import PostgreSQLLedger

@Suite("The start of a PostgreSQL ledger")
struct StartTests {
    @Test(
        "names a missing right, and the remedy, before anything is written",
        arguments: [
            ("INSERT ON claim", "INSERT on claim"),
            ("UPDATE (public_key) ON audit_key", "UPDATE of public_key, hsm_token on audit_key"),
            ("UPDATE (guard) ON ledger_state", "UPDATE of guard on ledger_state"),
            ("EXECUTE ON FUNCTION prune_claims(bigint, bigint, bigint)", "EXECUTE on prune_claims"),
            ("SELECT ON checkpoint", "SELECT on all tables"),
        ])
    func rights(right: String, named: String) async throws {
        let database = try await LedgerDatabases.shared.make()
        try await database.sql("REVOKE \(right) FROM \(LedgerDatabases.daemon)")
        let settings = PostgreSQLLedger.Settings(url: try database.url(), node: "node-1")
        let error = await #expect(throws: LedgerOpeningError.self) { try await PostgreSQLLedger.open(settings) }
        let said = "\(try #require(error))"
        #expect(said.contains(named) && error?.remedy == .create, "\(said)")
        #expect(try await database.sql("SELECT count(*) FROM node") == "0")
        _ = try await PostgreSQLSchema.create(
            database.url(as: LedgerDatabases.owner), grantTo: LedgerDatabases.daemon)
        await (try await PostgreSQLLedger.open(settings)).close()
    }

    @Test("checks all tables of the schema, and ignores another program's")
    func tables() async throws {
        let database = try await LedgerDatabases.shared.make()
        let known = try await database.sql(
            "SELECT relname FROM pg_class WHERE relnamespace = 'paytokend'::regnamespace AND relkind = 'r' ORDER BY 1")
        #expect(known == PostgreSQLSchema.tables.sorted().joined(separator: "\n"))
        try await database.sql("CREATE TABLE somebody_else (number int)")
        let settings = PostgreSQLLedger.Settings(url: try database.url(), node: "node-1")
        await (try await PostgreSQLLedger.open(settings)).close()
    }

    @Test("warns of a role that no right limits: a superuser, the owner, or a member of it")
    func unbound() async throws {
        let database = try await LedgerDatabases.shared.make()
        let member = "member\(UInt32.random(in: 0 ... .max))"
        try await database.server.sql("CREATE ROLE \(member) LOGIN IN ROLE \(LedgerDatabases.owner)")
        for (user, isWarnedOf) in [
            (LedgerDatabases.daemon, false), (LedgerDatabases.owner, true), (PostgreSQLServer.superuser, true),
            (member, true),
        ] {
            let ledger = try await PostgreSQLLedger.open(
                PostgreSQLLedger.Settings(url: try database.url(as: user), node: "node-1"))
            #expect(ledger.insecureSettings.contains(.databaseOwner) == isWarnedOf, "\(user)")
            await ledger.close()
        }
    }

    @Test("reports whose lease it waits for and until when, and nothing without a wait")
    func awaited() async throws {
        let database = try await LedgerDatabases.shared.make()
        let events = LedgerEvents()
        var settings = PostgreSQLLedger.Settings(url: try database.url(), node: "node-1", timeout: .seconds(60))
        settings.lease = .seconds(1)
        func holders() -> [NodeNameHolder] {
            events.all.compactMap { event in if case .waitsForNodeName(let holder) = event { holder } else { nil } }
        }
        /// Stores another daemon's lease for an hour, and opens the ledger. Ends the lease once the ledger reports that
        /// it waits.
        func open() async throws {
            let known = holders().count
            try await database.sql(
                """
                INSERT INTO node (name, fence, lease_until, seen_at, version)
                VALUES ('node-1', 7, clock_timestamp() + interval '1 hour', clock_timestamp(), '9.8')
                ON CONFLICT (name) DO UPDATE SET lease_until = excluded.lease_until, version = excluded.version
                """)
            let settings = settings
            let begun = Begun { try? await PostgreSQLLedger.open(settings) { events.add($0) } }
            try await wait(for: "what it says") { holders().count > known }
            try await database.sql("UPDATE node SET lease_until = '-infinity'")
            await (try #require(try await begun.value())).close()
        }
        let daemon = try await database.session(as: LedgerDatabases.daemon)
        try await daemon.run("SET application_name = 'paytokend node-1'")
        try await open()
        #expect(holders().map(\.isConnected) == [true] && holders().map(\.version) == ["9.8"], "\(holders())")
        let left = try #require(holders().first).until.timeIntervalSinceNow
        #expect((60...3600).contains(left), "\(left) s")
        try await daemon.run("SET application_name = 'another program'")
        // The sessions of a closed ledger end shortly after it.
        try await wait(for: "the end of its sessions") {
            let count = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'paytokend node-1'"
            return try await database.sql(count + " AND datname = '\(database.name)'") == "0"
        }
        try await open()
        #expect(holders().map(\.isConnected) == [true, false], "\(holders())")
        await (try await PostgreSQLLedger.open(settings) { events.add($0) }).close()
        #expect(holders().count == 2, "a name that was given back is free")
    }
}

import Foundation
import PostgreSQLClient
import TestSupport
import Testing

@testable import Payments

@Suite("Creating and opening the tables of payments in PostgreSQL")
struct PostgreSQLPaymentSchemaTests {
    private func create(
        _ database: PaymentDatabase, as user: String = PaymentDatabases.owner, grantTo role: String? = nil
    ) async throws -> SchemaOutcome {
        try await PostgreSQLPaymentSchema.create(database.url(as: user), grantTo: role)
    }

    /// Opens a store and returns the error; nil if it opens.
    private func failure(_ url: PostgreSQLURL) async -> PaymentStoreOpeningError? {
        do {
            _ = try await PaymentDatabase.opened(url, timeout: .seconds(20))
            return nil
        } catch { return error as? PaymentStoreOpeningError }
    }

    @Test("creates the tables in an empty database; a second run only grants rights to another role")
    func twice() async throws {
        let database = try await PaymentDatabases.shared.make(empty: true)
        let first = try await create(database)
        #expect(first.found == nil && first.version == 2 && first.granted == nil)
        #expect(first.owner == PaymentDatabases.owner)
        let withoutRights = await failure(try database.url())
        guard case .cannotOpen(_, let reason) = withoutRights else {
            Issue.record("\(String(describing: withoutRights))")
            return
        }
        #expect(reason.contains("store create URL --grant ROLE"))
        let second = try await create(database, grantTo: PaymentDatabases.gateway)
        #expect(second.found == 2 && second.granted == PaymentDatabases.gateway)
        #expect(await failure(try database.url()) == nil)
    }

    @Test("runs nothing from the schema public with the owner's rights")
    func planted() async throws {
        let database = try await PaymentDatabases.shared.make(empty: true)
        try await database.server.sql(
            """
            CREATE FUNCTION public.pg_advisory_xact_lock(integer) RETURNS void LANGUAGE plpgsql AS
            $$ BEGIN RAISE EXCEPTION 'planted'; END $$
            """, in: database.name)
        #expect(try await create(database, grantTo: PaymentDatabases.gateway).found == nil)
    }

    @Test("requires every right that a gateway needs")
    func missingRight() async throws {
        for statement in [
            "REVOKE INSERT ON payment_change FROM paytoken_gateway",
            "REVOKE UPDATE (state) ON payment FROM paytoken_gateway",
            "REVOKE EXECUTE ON FUNCTION prune_payments(bigint) FROM paytoken_gateway",
        ] {
            let database = try await PaymentDatabases.shared.make()
            try await database.sql(statement)
            guard case .cannotOpen(_, let reason) = await failure(try database.url()) else {
                Issue.record("opened without \(statement)")
                continue
            }
            #expect(reason.contains("lacks a right"))
        }
    }

    @Test("grants no rights to public, a superuser, the tables' owner, or an unknown role")
    func unboundRoles() async throws {
        let database = try await PaymentDatabases.shared.make(empty: true)
        for role in ["public", PostgreSQLServer.superuser, PaymentDatabases.owner] {
            await #expect(throws: PaymentStoreOpeningError.self, "\(role)") {
                try await create(database, grantTo: role)
            }
        }
        await #expect(throws: PaymentStoreOpeningError.self) { try await create(database, grantTo: "nobody at all") }
        // A refused grant creates no tables either.
        #expect(try await database.server.sql("SELECT to_regnamespace('paytoken_gateway')", in: database.name) == "")
    }

    @Test("neither opens nor changes a database that is not a store, or whose store is newer")
    func others() async throws {
        let empty = try await PaymentDatabases.shared.make(empty: true)
        guard case .cannotOpen(_, let reason) = await failure(try empty.url()) else {
            Issue.record("opened an empty database")
            return
        }
        #expect(reason.contains("store create"))
        try await empty.server.sql(
            "CREATE SCHEMA paytoken_gateway AUTHORIZATION payments_owner; CREATE TABLE paytoken_gateway.other (a int)",
            in: empty.name)
        await #expect(throws: PaymentStoreOpeningError.self) { try await create(empty) }

        let newer = try await PaymentDatabases.shared.make()
        try await newer.sql("UPDATE payment_store SET schema_version = 99")
        let url = try newer.url()
        #expect(await failure(url) == .newerSchema(place: url.server, found: 99, known: 2))
        await #expect(throws: PaymentStoreOpeningError.newerSchema(place: url.server, found: 99, known: 2)) {
            try await create(newer)
        }
    }

    @Test("reports an absent server as temporary, and a missing database or role as permanent")
    func away() async throws {
        let database = try await PaymentDatabases.shared.make()
        let directory = try FreshDirectory()
        let nobody = try PostgreSQLURL("postgresql://a@/b?host=\(directory.path)")
        guard case .notNow = await failure(nobody) else {
            Issue.record("not taken for passing")
            return
        }
        for url in [
            try PostgreSQLURL(database.server.url("no_such_database", user: PaymentDatabases.gateway)),
            try database.url(as: "no_such_role"),
        ] {
            guard case .cannotOpen = await failure(url) else {
                Issue.record("taken for passing")
                return
            }
        }
    }

    @Test("refuses a store with the previous schema until store create has run")
    func olderSchema() async throws {
        let database = try await PaymentDatabases.shared.make(empty: true)
        try await database.server.sql(
            OlderLedgers.sql("payments-postgresql-1"), in: database.name, as: PaymentDatabases.owner)
        try await database.server.sql("GRANT USAGE ON SCHEMA paytoken_gateway TO paytoken_gateway", in: database.name)
        try await database.sql("GRANT SELECT ON payment_store TO paytoken_gateway")
        guard case .cannotOpen(_, let reason) = await failure(try database.url()) else {
            Issue.record("opened a store of the former schema")
            return
        }
        #expect(reason.contains("its schema is older: run paytoken-gateway store create URL"))
        #expect(try await create(database, grantTo: PaymentDatabases.gateway).found == 1)
        #expect(await failure(try database.url()) == nil)
    }

    @Test("refuses to connect through a connection pooler")
    func pooler() async throws {
        let database = try await PaymentDatabases.shared.make()
        let proxy = try await PostgreSQLProxy(to: database.server)
        proxy.fault = .pool
        let url = try PostgreSQLURL(proxy.url(database.name, user: PaymentDatabases.gateway))
        guard case .cannotOpen(_, let reason) = await failure(url) else {
            Issue.record("opened through a pooler")
            return
        }
        #expect(reason.contains("pooler"))
    }

    @Test("warns about a login that rights do not limit, and about a server without a standby")
    func insecure() async throws {
        let database = try await PaymentDatabases.shared.make()
        #expect(try await database.store().insecureSettings.map(\.rawValue) == ["database_standby"])
        #expect(
            try await database.store(as: PaymentDatabases.owner).insecureSettings.map(\.rawValue).sorted() == [
                "database_owner", "database_standby",
            ])
    }
}

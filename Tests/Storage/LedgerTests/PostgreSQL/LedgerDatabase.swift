import Dispatch
import Foundation
import PostgreSQLClient
import TestSupport
import Testing

@testable import Ledger
@testable import PostgreSQLLedger

/// The PostgreSQL server that all tests share, with a template database that `ledger create` has prepared. Each test
/// receives a copy of the template.
struct LedgerDatabases: Sendable {
    let server: PostgreSQLServer

    static let owner = "ledger_owner"
    static let daemon = "paytokend"
    private static let template = "ledger_template"

    static var shared: LedgerDatabases { get async throws { try await starting.value } }

    private static let starting = Task { try await LedgerDatabases(server: PostgreSQLServer()) }

    /// Creates the roles and the template database on a new server.
    init(server: PostgreSQLServer) async throws {
        self.server = server
        try await server.sql("CREATE ROLE \(Self.owner) LOGIN")
        try await server.sql("CREATE ROLE \(Self.daemon) LOGIN")
        try await server.sql("CREATE DATABASE \(Self.template) OWNER \(Self.owner)")
        _ = try await PostgreSQLSchema.create(
            PostgreSQLURL(server.url(Self.template, user: Self.owner)), grantTo: Self.daemon)
        // The tests' times are in the future, so the server's clock would prune no claim. This replacement prunes by
        // the times that the claims contain.
        try await server.sql(
            """
            CREATE OR REPLACE FUNCTION paytokend.present() RETURNS bigint LANGUAGE sql VOLATILE AS 'SELECT 9000000000000'
            """, in: Self.template)
    }

    /// Makes a database for one test.
    func make() async throws -> LedgerDatabase {
        let name = "t\(UInt64.random(in: .min ... .max))"
        // PostgreSQL makes one copy at a time, and none while a session uses the template: repeat until it succeeds.
        try await wait(for: "a copy of the template") {
            (try? await server.sql("CREATE DATABASE \(name) TEMPLATE \(Self.template) OWNER \(Self.owner)")) != nil
        }
        return LedgerDatabase(server: server, name: name)
    }
}

/// The database of one test.
struct LedgerDatabase: Sendable {
    let server: PostgreSQLServer
    let name: String

    func url(as user: String = LedgerDatabases.daemon) throws -> PostgreSQLURL {
        try PostgreSQLURL(server.url(name, user: user))
    }

    /// Runs SQL as the server's superuser, in the ledger's schema.
    @discardableResult
    func sql(_ sql: String, as user: String = PostgreSQLServer.superuser) async throws -> String {
        try await server.sql("SET search_path = paytokend; " + sql, in: name, as: user)
    }

    /// Opens a session of another program, by default as the server's superuser.
    func session(as user: String = PostgreSQLServer.superuser) async throws -> ForeignSession {
        try await ForeignSession(url(as: user))
    }
}

/// A session of another program, which a test keeps open.
final class ForeignSession: Sendable {
    private let queue = DispatchQueue(label: "tests.session")
    private let connection: PostgreSQLConnection

    init(_ url: PostgreSQLURL) async throws {
        let parameters = PostgreSQLSessionRules.parameters(url, timeout: .seconds(60), application: "tests")
        connection = try await Self.on(queue) {
            try PostgreSQLConnection(parameters, passwordFile: nil, until: .now + .seconds(60))
        }
        try await run("SET search_path = paytokend")
    }

    @discardableResult
    func run(_ sql: String) async throws -> [PostgreSQLRow] {
        try await Self.on(queue) { [connection] in
            try connection.exchange([PostgreSQLStatement(sql)], until: .now + .seconds(180))[0].rows
        }
    }

    private static func on<T: Sendable>(
        _ queue: DispatchQueue, _ body: @escaping @Sendable () throws -> T
    ) async throws -> T {
        try await withCheckedThrowingContinuation { (waiting: CheckedContinuation<T, any Error>) in
            queue.async { waiting.resume(with: Result { try body() }) }
        }
    }
}

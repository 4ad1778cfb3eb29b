import Foundation
import PostgreSQLClient
import TestSupport
import Testing

@testable import Payments

/// The PostgreSQL server that all tests share. Each test receives a copy of a template database that `store create`
/// prepared.
struct PaymentDatabases: Sendable {
    let server: PostgreSQLServer

    static let owner = "payments_owner"
    static let gateway = "paytoken_gateway"
    private static let template = "payments_template"

    static var shared: PaymentDatabases { get async throws { try await starting.value } }

    private static let starting = Task { try await PaymentDatabases(server: PostgreSQLServer()) }

    /// Creates the roles and the template database on a new server.
    init(server: PostgreSQLServer) async throws {
        self.server = server
        try await server.sql("CREATE ROLE \(Self.owner) LOGIN")
        try await server.sql("CREATE ROLE \(Self.gateway) LOGIN")
        try await server.sql("CREATE DATABASE \(Self.template) OWNER \(Self.owner)")
        _ = try await PostgreSQLPaymentSchema.create(
            PostgreSQLURL(server.url(Self.template, user: Self.owner)), grantTo: Self.gateway)
    }

    /// Makes a database for one test; with `empty`, it has no tables.
    func make(empty: Bool = false) async throws -> PaymentDatabase {
        let name = "t\(UInt64.random(in: .min ... .max))"
        let template = empty ? "template0" : Self.template
        // PostgreSQL makes one copy at a time, and none while a session uses the template: repeat until it succeeds.
        try await wait(for: "a copy of the template") {
            (try? await server.sql("CREATE DATABASE \(name) TEMPLATE \(template) OWNER \(Self.owner)")) != nil
        }
        return PaymentDatabase(server: server, name: name)
    }
}

/// The database of one test.
struct PaymentDatabase: Sendable {
    let server: PostgreSQLServer
    let name: String

    func url(as user: String = PaymentDatabases.gateway) throws -> PostgreSQLURL {
        try PostgreSQLURL(server.url(name, user: user))
    }

    /// The database's server for sessions without a store.
    func hosts() throws -> PostgreSQLHosts {
        PostgreSQLHosts(try url(), passwordFile: nil, timeout: .seconds(60), application: "tests")
    }

    /// Opens a gateway's store with a direct connection to the server.
    func store(as user: String = PaymentDatabases.gateway) async throws -> PostgreSQLPaymentStore {
        try await Self.opened(url(as: user))
    }

    /// Opens a store. No operation of these tests takes 60 seconds unless it hangs.
    static func opened(
        _ url: PostgreSQLURL, passwordFile: String? = nil, timeout: Duration = .seconds(60)
    ) async throws -> PostgreSQLPaymentStore {
        try await withCheckedThrowingContinuation { (waiting: CheckedContinuation<PostgreSQLPaymentStore, any Error>) in
            Thread.detachNewThread {
                waiting.resume(
                    with: Result { try PostgreSQLPaymentStore(url, passwordFile: passwordFile, timeout: timeout) })
            }
        }
    }

    /// Runs SQL in the schema of payments.
    @discardableResult
    func sql(_ sql: String, as user: String = PostgreSQLServer.superuser) async throws -> String {
        try await server.sql("SET search_path = paytoken_gateway; " + sql, in: name, as: user)
    }
}

import Foundation
import Locks

extension StorageEngine {
    /// Makes a database for a daemon; returns nil if the engine stores the ledger in a file.
    func database() async throws -> DaemonDatabase? {
        self == .postgresql ? try await DaemonDatabase() : nil
    }
}

/// A value that tests share. It is made once for each storage engine, at its first use.
public final class OncePerLedger<Value: Sendable>: Sendable {
    private let make: @Sendable () async throws -> Value
    private let made = Mutex<[StorageEngine: Task<Value, any Error>]>([:])

    /// Stores the closure that makes the value. The value itself is made at its first use.
    ///
    /// - Parameter make: makes the value for the storage engine of the requesting test.
    public init(_ make: @escaping @Sendable () async throws -> Value) {
        self.make = make
    }

    public var value: Value {
        get async throws {
            let ledger = StorageEngine.current
            let task = made.withLock { made in
                if let known = made[ledger] { return known }
                // An unstructured task inherits the task-local ``StorageEngine/current``.
                let task = Task { try await make() }
                made[ledger] = task
                return task
            }
            return try await task.value
        }
    }
}

/// A ledger database that `paytokenctl ledger create` has prepared.
public struct DaemonDatabase: Sendable {
    public let server: PostgreSQLServer
    public let name: String

    /// The role that owns the tables.
    public static let owner = "ledger_owner"
    public static let daemon = "paytokend"
    private static let template = "ledger_template"

    /// The URL with which the daemon connects: through the server's socket, unless a test changes it.
    public var url: String

    private static let shared = Task { try await prepared(PostgreSQLServer()) }

    /// Makes a database on a server that all tests share.
    public init() async throws {
        try await self.init(on: Self.shared.value)
    }

    /// Makes a database on a server that ``prepared(_:)`` has set up.
    public init(on server: PostgreSQLServer) async throws {
        self.server = server
        let name = "d\(UInt64.random(in: .min ... .max))"
        self.name = name
        url = server.url(name, user: Self.daemon)
        // PostgreSQL makes one copy at a time, and none while a session uses the template: repeat until it succeeds.
        try await wait(for: "a copy of the template") {
            (try? await server.sql("CREATE DATABASE \(name) TEMPLATE \(Self.template) OWNER \(Self.owner)")) != nil
        }
    }

    /// Creates the roles, and a template database with the tables, which ``init(on:)`` copies.
    public static func prepared(_ server: PostgreSQLServer) async throws -> PostgreSQLServer {
        for role in [owner, daemon] { try await server.sql("CREATE ROLE \(role) LOGIN") }
        try await server.sql("CREATE DATABASE \(template) OWNER \(owner)")
        let made = try await Program.run(
            Program.built("paytokenctl"),
            ["ledger", "create", server.url(template, user: owner), "--grant", daemon], waitsForTurn: false)
        guard made.status == 0 else { throw HarnessFailure(description: "ledger create: \(made)") }
        return server
    }

    /// Runs SQL in the ledger's schema, as the server's superuser or another role, and returns its output, a row a
    /// line.
    @discardableResult
    public func sql(_ sql: String, as user: String = PostgreSQLServer.superuser) async throws -> String {
        try await server.sql("SET search_path = paytokend; " + sql, in: name, as: user)
    }
}

import Foundation
import Synchronization

extension StorageEngine {
    /// A new database for a daemon; nil for a file.
    func database() async throws -> DaemonDatabase? {
        self == .postgresql ? try await DaemonDatabase() : nil
    }
}

/// A value shared by tests, made at its first use, once for each kind of ledger.
public final class OncePerLedger<Value: Sendable>: Sendable {
    private let make: @Sendable () async throws -> Value
    private let made = Mutex<[StorageEngine: Task<Value, any Error>]>([:])

    /// - Parameter make: makes daemons with the ledger of the test that requests it.
    public init(_ make: @escaping @Sendable () async throws -> Value) {
        self.make = make
    }

    public var value: Value {
        get async throws {
            let ledger = StorageEngine.current
            let task = made.withLock { made in
                if let known = made[ledger] { return known }
                // With the tests' task-local values, including the kind of ledger.
                let task = Task { try await make() }
                made[ledger] = task
                return task
            }
            return try await task.value
        }
    }
}

/// A database set up by `paytokenctl ledger create`.
public struct DaemonDatabase: Sendable {
    public let server: PostgreSQLServer
    public let name: String

    /// The role that owns the tables.
    public static let owner = "ledger_owner"
    public static let daemon = "paytokend"
    private static let template = "ledger_template"

    /// The daemon's URL of it: the server's socket, unless a test chooses another way.
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
        // One at a time, and none while a session is in the template.
        try await wait(for: "a copy of the template") {
            (try? await server.sql("CREATE DATABASE \(name) TEMPLATE \(Self.template) OWNER \(Self.owner)")) != nil
        }
    }

    /// Creates the roles, and a database with the tables, of which the others are copies.
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

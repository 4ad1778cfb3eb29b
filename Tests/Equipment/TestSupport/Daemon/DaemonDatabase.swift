import Foundation
import Synchronization

extension StorageEngine {
    /// A database of a daemon's own; nil for a file.
    func database() async throws -> DaemonDatabase? {
        self == .postgresql ? try await DaemonDatabase() : nil
    }
}

/// What tests share, made when the first of them wants it, once for each kind of ledger.
public final class OncePerLedger<Value: Sendable>: Sendable {
    private let make: @Sendable () async throws -> Value
    private let made = Mutex<[StorageEngine: Task<Value, any Error>]>([:])

    /// - Parameter make: daemons that are made in it have the ledger of the test that wants it.
    public init(_ make: @escaping @Sendable () async throws -> Value) {
        self.make = make
    }

    public var value: Value {
        get async throws {
            let ledger = StorageEngine.current
            let task = made.withLock { made in
                if let known = made[ledger] { return known }
                // With the tests' own local values, the kind of ledger among them.
                let task = Task { try await make() }
                made[ledger] = task
                return task
            }
            return try await task.value
        }
    }
}

/// A database in which `paytokenctl ledger create` has been at work.
public struct DaemonDatabase: Sendable {
    public let server: PostgreSQLServer
    public let name: String

    /// The role that owns the tables.
    public static let owner = "ledger_owner"
    /// The daemon's role.
    public static let daemon = "paytokend"
    private static let template = "ledger_template"

    /// Where the daemon finds it: the server's socket, unless a test chooses another way.
    public var url: String

    private static let shared = Task { try await prepared(PostgreSQLServer()) }

    /// On a server that all tests share.
    public init() async throws {
        try await self.init(on: Self.shared.value)
    }

    /// On a server that ``prepared(_:)`` has been given.
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

    /// Roles, and a database with the tables, of which the others are copies.
    public static func prepared(_ server: PostgreSQLServer) async throws -> PostgreSQLServer {
        for role in [owner, daemon] { try await server.sql("CREATE ROLE \(role) LOGIN") }
        try await server.sql("CREATE DATABASE \(template) OWNER \(owner)")
        let made = try await Program.run(
            Program.built("paytokenctl"),
            ["ledger", "create", server.url(template, user: owner), "--grant", daemon], waitsForTurn: false)
        guard made.status == 0 else { throw HarnessFailure(description: "ledger create: \(made)") }
        return server
    }

    /// Runs SQL in the ledger's schema, as the server's superuser or somebody else, and gives what it writes, a row a line.
    @discardableResult
    public func sql(_ sql: String, as user: String = PostgreSQLServer.superuser) async throws -> String {
        try await server.sql("SET search_path = paytokend; " + sql, in: name, as: user)
    }
}

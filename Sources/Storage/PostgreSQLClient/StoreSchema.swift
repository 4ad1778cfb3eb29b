package import DatabaseKit

/// The error of a store that cannot be opened or created.
package protocol StoreOpeningError: Error, CustomStringConvertible {
    /// Converts any error that occurs while the store on a server is opened or created.
    init(of error: any Error, server: String)
}

/// The schema of one kind of store in a PostgreSQL database: its versions, and the rights of the programs that use it.
package protocol StoreSchema: SendableMetatype {
    associatedtype OpeningError: StoreOpeningError
    associatedtype Failure: StoreFailure

    /// The schema's name. It contains all tables of the store.
    static var name: String { get }
    /// The table whose only row contains the schema version.
    static var versionTable: String { get }
    /// The statements that lead from each version to the next; the first list creates version 1.
    static var steps: [[String]] { get }
    /// The statements that run at the end of every creation or upgrade.
    static var finishing: [String] { get }
    /// The `application_name` of the program that creates the schema.
    static var creator: String { get }
    /// The time limit for creating or upgrading the schema.
    static var creationLimit: Duration { get }
    /// The name that messages give to the programs that use the store, such as "the daemons".
    static var users: String { get }

    static var tables: [String] { get }
    /// The complete set of rights that the programs need to use the store.
    static var rights: [PostgreSQLRight] { get }

    /// Runs before the tables of an older version are upgraded. Throws an error if they must not be upgraded now.
    ///
    /// - Parameter run: runs a statement in the transaction of the upgrade.
    static func prepareUpgrade(server: String, _ run: (String) throws -> [PostgreSQLRow]) throws
}

extension StoreSchema {
    package static var finishing: [String] { [] }
    package static func prepareUpgrade(server: String, _ run: (String) throws -> [PostgreSQLRow]) throws {}

    /// The version that this program creates and supports.
    package static var version: Int { steps.count }

    /// An SQL expression that is true if the session's role owns the schema, or if the schema does not exist. A
    /// schema's owner can drop its tables, so the owner must be the role that creates and upgrades them.
    package static var isOwner: String {
        """
        coalesce((SELECT nspowner = (SELECT oid FROM pg_roles WHERE rolname = current_user) FROM pg_namespace
            WHERE nspname = '\(name)'), true)
        """
    }

    package static var anotherOwner: String {
        "its schema \(name) belongs to another role: log in as that one, or give it to this one."
    }

    /// Creates a missing schema, upgrades an older one, and grants a role the minimal rights that the programs need,
    /// all in one transaction.
    ///
    /// - Parameters:
    ///   - url: the server, with an account that may create a schema in the database or owns the existing one.
    ///   - role: an existing role; nil to grant nothing.
    ///   - connections: the role's CONNECTION LIMIT; nil to leave it unchanged.
    ///   - dryRun: true to check only.
    package static func create(
        _ url: PostgreSQLURL, passwordFile: String? = nil, grantTo role: String? = nil, connections: Int? = nil,
        dryRun: Bool = false
    ) async throws(OpeningError) -> SchemaOutcome {
        try await onThread { () throws(OpeningError) in
            do {
                let deadline = ContinuousClock.now + creationLimit
                let hosts = PostgreSQLHosts(
                    url, passwordFile: passwordFile, timeout: .seconds(30), application: creator)
                let change = PostgreSQLSchemaChange<Self>(on: try hosts.connect(until: deadline), until: deadline)
                return try change.perform(isDryRun: dryRun, url.server, grantTo: role, connections: connections)
            } catch {
                throw OpeningError(of: error, server: url.server)
            }
        }
    }
}

/// The result of creating or upgrading a store's schema.
package struct SchemaOutcome: Sendable, Equatable {
    /// The server's name, such as `db1:5432/paytokend`.
    package let server: String
    /// The owner's role.
    package let owner: String
    /// The previous version; nil if there was no schema.
    package let found: Int?
    /// The version after the call; after a dry run, the version to which the call would have created or upgraded the
    /// schema.
    package let version: Int
    /// The role that received the programs' rights; nil if the caller named no role.
    package let granted: String?
    /// True if the connection did not authenticate the server.
    package let isUnverified: Bool
}

import DatabaseKit
public import PostgreSQLClient

/// Creates the tables of payments in PostgreSQL, with an owner's account, for `paytoken-gateway store create`. A
/// gateway's role cannot do this.
public enum PostgreSQLPaymentSchema {
    /// The version that this program creates and supports.
    public static let version = PostgreSQLPaymentTables.version

    /// The result of ``create(_:passwordFile:grantTo:connections:timeout:)``.
    public struct Outcome: Sendable, Equatable {
        /// The server and the database for display, such as `db1:5432/payments`.
        public let server: String
        /// The owner's role.
        public let owner: String
        /// The schema's version before the call; nil if there was no schema.
        public let found: Int?
        /// The schema's version after the call.
        public let version: Int
        /// The role that received a gateway's rights; nil if none was named.
        public let granted: String?
        /// True if the connection did not authenticate the server.
        public let isUnverified: Bool
    }

    /// Creates the schema if there is none, and grants a role the minimal rights that a gateway needs, all in one
    /// transaction.
    ///
    /// - Parameters:
    ///   - url: the server, with an account that may create a schema in the database or owns the existing one.
    ///   - role: an existing role; nil to grant nothing.
    ///   - connections: the role's CONNECTION LIMIT; nil to leave it unchanged.
    ///   - timeout: the limit for the whole operation.
    public static func create(
        _ url: PostgreSQLURL, passwordFile: String? = nil, grantTo role: String? = nil, connections: Int? = nil,
        timeout: Duration = .seconds(60)
    ) async throws(PaymentStoreOpeningError) -> Outcome {
        try await onThread { () throws(PaymentStoreOpeningError) in
            try blocking(url, passwordFile, role, connections, until: .now + timeout)
        }
    }

    private static func blocking(
        _ url: PostgreSQLURL, _ passwordFile: String?, _ role: String?, _ connections: Int?,
        until deadline: ContinuousClock.Instant
    ) throws(PaymentStoreOpeningError) -> Outcome {
        let hosts = PostgreSQLHosts(
            url, passwordFile: passwordFile, timeout: .seconds(30), application: "paytoken-gateway")
        let connection = try PostgreSQLPaymentSession.connection(to: hosts, until: deadline)
        let change = PostgreSQLSchemaChange(of: PostgreSQLPaymentTables.schema, on: connection, until: deadline)
        do {
            return try change.perform { try perform($0, connection, url, role, connections) }
        } catch let refusal as PostgreSQLSchemaChange.Refusal {
            throw switch refusal {
            case .warned:
                .notNow(
                    place: url.server,
                    reason: "The server warned at the commit, which may therefore not be durable; repeat it.")
            case .notOurs: .notAStore(place: url.server)
            case .newer(let found): .newerSchema(place: url.server, found: found, known: version)
            case .cannot(let reason): .cannotOpen(place: url.server, reason: reason)
            }
        } catch let error as PostgreSQLFailure {
            throw PaymentStoreOpeningError(error, place: url.server)
        } catch {
            throw .cannotOpen(place: url.server, reason: "this version does not know its tables.")
        }
    }

    private static func perform(
        _ change: PostgreSQLSchemaChange, _ connection: PostgreSQLConnection, _ url: PostgreSQLURL, _ role: String?,
        _ connections: Int?
    ) throws -> Outcome {
        let (owner, found) = try change.make(versionIn: "payment_store", PostgreSQLPaymentTables.steps)
        if let role {
            try change.grant(to: role, connections: connections, for: "the gateways", PostgreSQLPaymentTables.grants)
        }
        return Outcome(
            server: url.server, owner: owner, found: found, version: version, granted: role,
            isUnverified: PostgreSQLSessionRules.hasUnverifiedServer(connection.parameters))
    }
}

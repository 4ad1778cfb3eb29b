import Foundation
public import PostgreSQLClient

/// Makes the tables of payments in PostgreSQL, with an owner's account: what `paytoken-gateway store create` does. A gateway's own
/// role cannot.
public enum PostgreSQLPaymentSchema {
    /// The version that this program makes and knows.
    public static let version = PostgreSQLPaymentTables.version

    /// The result of ``create(_:passwordFile:grantTo:connections:timeout:)``.
    public struct Outcome: Sendable, Equatable {
        /// `db1:5432/payments`.
        public let server: String
        /// The owner's role.
        public let owner: String
        /// The version that was there; nil when there was none.
        public let found: Int?
        /// The version that is there now.
        public let version: Int
        /// The role that has a gateway's rights; nil when none was asked for.
        public let granted: String?
        /// Whether the server is not told from an impostor.
        public let isUnverified: Bool
    }

    /// Makes the schema where there is none, and grants a role the least that a gateway needs. All in one transaction: done, or
    /// nothing of it.
    ///
    /// - Parameters:
    ///   - url: with an account that may create a schema in the database, or owns the one there.
    ///   - role: an existing role; nil grants nothing.
    ///   - connections: the role's CONNECTION LIMIT; nil leaves it as it is.
    ///   - timeout: of all of it.
    public static func create(
        _ url: PostgreSQLURL, passwordFile: String? = nil, grantTo role: String? = nil, connections: Int? = nil,
        timeout: Duration = .seconds(60)
    ) async throws(PaymentStoreOpeningError) -> Outcome {
        let result = await withCheckedContinuation {
            (waiting: CheckedContinuation<Result<Outcome, PaymentStoreOpeningError>, Never>) in
            Thread.detachNewThread {
                waiting.resume(
                    returning: Result { () throws(PaymentStoreOpeningError) in
                        try blocking(url, passwordFile, role, connections, until: .now + timeout)
                    })
            }
        }
        return try result.get()
    }

    private static func blocking(
        _ url: PostgreSQLURL, _ passwordFile: String?, _ role: String?, _ connections: Int?,
        until deadline: ContinuousClock.Instant
    ) throws(PaymentStoreOpeningError) -> Outcome {
        let parameters = PostgreSQLSessionRules.parameters(url, timeout: .seconds(30), application: "paytoken-gateway")
        let connection = try PostgreSQLPaymentSession.connection(
            url, parameters, passwordFile: passwordFile, until: deadline)
        let change = PostgreSQLSchemaChange(of: PostgreSQLPaymentTables.schema, on: connection, until: deadline)
        do {
            return try change.perform { try perform($0, connection, url, role, connections) }
        } catch is PostgreSQLSchemaChange.Warned {
            throw .notNow(
                place: url.server,
                reason: "The server warned at the commit, so that it is not known to be safe; repeat it.")
        } catch let error as PaymentStoreOpeningError {
            throw error
        } catch let error as PostgreSQLSchemaChange.LimitNotPermitted {
            throw cannot(url, error.reason)
        } catch PostgreSQLFailure.refused(.insufficientPrivilege, _) {
            throw cannot(
                url,
                "the account may not make a schema in this database, or does not own the one there: log in as the owner."
            )
        } catch PostgreSQLFailure.refused(.undefinedObject, _) where role != nil {
            throw cannot(url, "there is no role of the name that is to be granted: make it first (createuser).")
        } catch let error as PostgreSQLFailure {
            throw PaymentStoreOpeningError(error, place: url.server)
        } catch {
            throw cannot(url, "its tables are not those that this version knows.")
        }
    }

    private static func cannot(_ url: PostgreSQLURL, _ reason: String) -> PaymentStoreOpeningError {
        .cannotOpen(place: url.server, reason: reason)
    }

    private static func perform(
        _ change: PostgreSQLSchemaChange, _ connection: PostgreSQLConnection, _ url: PostgreSQLURL, _ role: String?,
        _ connections: Int?
    ) throws -> Outcome {
        let schema = change.schema
        let notAStore = PaymentStoreOpeningError.notAStore(place: url.server)
        let facts = try change.run(
            """
            SELECT current_user::text, to_regnamespace('\(schema)') IS NOT NULL,
                to_regclass('\(schema).payment_store') IS NOT NULL,
                (SELECT count(*) FROM pg_class WHERE relnamespace = to_regnamespace('\(schema)')),
                coalesce((SELECT nspowner = (SELECT oid FROM pg_roles WHERE rolname = current_user) FROM pg_namespace
                    WHERE nspname = '\(schema)'), true)
            """)
        guard let facts = facts.first else { throw notAStore }
        // Whoever owns the schema can drop its tables, so that must be nobody but the account that looks after it.
        guard try facts.boolean(4) else {
            throw cannot(
                url, "its schema \(schema) belongs to another role: log in as that one, or give it to this one.")
        }
        var found: Int?
        if try facts.boolean(2) {
            found = try change.run("SELECT schema_version FROM \(schema).payment_store FOR UPDATE").first.map {
                Int(try $0.integer(0))
            }
            guard let found, found > 0 else { throw notAStore }
            guard found <= version else {
                throw PaymentStoreOpeningError.newerSchema(place: url.server, found: found, known: version)
            }
        } else {
            // A schema of this name that is not ours is not written into.
            guard try facts.integer(3) == 0 else { throw notAStore }
            if try !facts.boolean(1) { _ = try change.run("CREATE SCHEMA \(schema)") }
        }
        try change.take(PostgreSQLPaymentTables.steps.dropFirst(found ?? 0))
        _ = try change.run(
            """
            INSERT INTO payment_store (schema_version) VALUES ($1)
            ON CONFLICT (only_row) DO UPDATE SET schema_version = excluded.schema_version
            """, [.integer(Int64(version))])
        if let role {
            guard try change.binds(role) else {
                throw cannot(
                    url,
                    "the role to be granted is everybody, a superuser, or can act as the owner, so that its rights bind nothing: "
                        + "make one for the gateways alone (createuser).")
            }
            try change.grant(to: role, connections: connections, PostgreSQLPaymentTables.grants)
        }
        return Outcome(
            server: url.server, owner: try facts.text(0), found: found, version: version, granted: role,
            isUnverified: PostgreSQLSessionRules.hasUnverifiedServer(connection.parameters))
    }
}

import DatabaseKit

/// A transaction in which the owner of a schema creates or upgrades a program's tables, and grants rights to them.
package struct PostgreSQLSchemaChange {
    /// The reason why a program's tables were not created or upgraded.
    package enum Refusal: Error {
        /// The server committed with a warning, so the change may not be durable.
        case warned
        /// A schema with this name belongs to another program.
        case notOurs
        case newer(found: Int)
        /// The account, the schema's owner or the role is unsuitable. `reason` says what to do.
        case cannot(reason: String)
    }

    /// The program's schema, which contains all its tables.
    package let schema: String
    private let connection: PostgreSQLConnection
    private let deadline: ContinuousClock.Instant

    package init(of schema: String, on connection: PostgreSQLConnection, until deadline: ContinuousClock.Instant) {
        self.schema = schema
        self.connection = connection
        self.deadline = deadline
    }

    package func run(_ sql: String, _ values: [PostgreSQLValue] = []) throws(PostgreSQLFailure) -> [PostgreSQLRow] {
        try connection.exchange([PostgreSQLStatement(sql, values)], until: deadline).first?.rows ?? []
    }

    /// Runs `body` in a transaction and commits it. A dry run rolls it back instead. If `body` throws, nothing is
    /// committed: the transaction remains open until the session ends.
    package func perform<Value>(isDryRun: Bool = false, _ body: (Self) throws -> Value) throws -> Value {
        // This statement precedes every function call. Otherwise the server might run an attacker's function of the
        // same name, for example from the schema public, with the owner's rights.
        _ = try run("SET search_path = pg_catalog, pg_temp")
        _ = try run("SET lock_timeout = '30s'")
        _ = try run("BEGIN")
        // Wait until no other session changes this schema.
        _ = try run("SELECT pg_advisory_xact_lock(hashtext('\(schema)'))")
        let value = try explaining(
            .insufficientPrivilege,
            "the account may not make a schema in this database, or does not own the one there: log in as the owner."
        ) { try body(self) }
        _ = try run(isDryRun ? "ROLLBACK" : "COMMIT")
        guard isDryRun || !connection.hasWarned else { throw Refusal.warned }
        return value
    }

    /// Runs `body`. If the server refuses a statement with the SQLSTATE `refused`, throws ``Refusal/cannot(reason:)``
    /// with `reason`.
    private func explaining<Value>(
        _ refused: SQLState, _ reason: String, _ body: () throws -> Value
    ) throws -> Value {
        do {
            return try body()
        } catch let error as PostgreSQLFailure {
            guard case .refused(let state, _) = error, state == refused else { throw error }
            throw Refusal.cannot(reason: reason)
        }
    }

    /// Creates the tables, or upgrades the tables of an older version.
    ///
    /// - Parameters:
    ///   - table: the table whose only row contains the schema version.
    ///   - steps: the statements for each version, in order. The first element creates version 1, and each later one
    ///     upgrades the tables from the previous version.
    ///   - beforeUpgrade: a function that is called before tables of an older version are upgraded.
    /// - Returns: the owner's role, and the previous version, or nil if there were no tables.
    package func make(
        versionIn table: String, _ steps: [[String]], beforeUpgrade: () throws -> Void = {}
    ) throws -> (owner: String, found: Int?) {
        let facts = try run(
            """
            SELECT current_user::text, to_regnamespace('\(schema)') IS NOT NULL,
                to_regclass('\(schema).\(table)') IS NOT NULL,
                (SELECT count(*) FROM pg_class WHERE relnamespace = to_regnamespace('\(schema)')),
                \(Self.isOwner(of: schema))
            """
        ).first
        guard let facts else { throw Refusal.notOurs }
        let isThere = try facts.boolean(2)
        // A schema that has objects but not the version table belongs to another program.
        guard try isThere || facts.integer(3) == 0 else { throw Refusal.notOurs }
        guard try facts.boolean(4) else { throw Refusal.cannot(reason: Self.anotherOwner(of: schema)) }
        var found: Int?
        if isThere {
            found = try run("SELECT schema_version FROM \(schema).\(table) FOR UPDATE").first.map {
                Int(try $0.integer(0))
            }
            guard let found, found > 0 else { throw Refusal.notOurs }
            guard found <= steps.count else { throw Refusal.newer(found: found) }
            if found < steps.count { try beforeUpgrade() }
        } else if try !facts.boolean(1) {
            _ = try run("CREATE SCHEMA \(schema)")
        }
        try take(steps.dropFirst(found ?? 0))
        _ = try run(
            """
            INSERT INTO \(table) (schema_version) VALUES ($1)
            ON CONFLICT (only_row) DO UPDATE SET schema_version = excluded.schema_version
            """, [.integer(Int64(steps.count))])
        return (try facts.text(0), found)
    }

    /// Returns an SQL expression that is true if the session's role owns the schema, or if the schema does not exist. A
    /// schema's owner can drop its tables, so the owner must be the role that maintains them.
    package static func isOwner(of schema: String) -> String {
        """
        coalesce((SELECT nspowner = (SELECT oid FROM pg_roles WHERE rolname = current_user) FROM pg_namespace
            WHERE nspname = '\(schema)'), true)
        """
    }

    package static func anotherOwner(of schema: String) -> String {
        "its schema \(schema) belongs to another role: log in as that one, or give it to this one."
    }

    /// Runs the steps with the schema as the search path.
    ///
    /// - Parameter steps: the statements of each version after the existing one.
    private func take(_ steps: some Sequence<[String]>) throws(PostgreSQLFailure) {
        _ = try run("SET LOCAL search_path = \(schema), pg_temp")
        for statement in steps.joined() { _ = try run(statement) }
        // By default, PostgreSQL allows every role to execute a new function.
        _ = try run("REVOKE ALL ON ALL FUNCTIONS IN SCHEMA \(schema) FROM PUBLIC")
    }

    /// Grants rights to a role. Throws ``Refusal/cannot(reason:)`` if the role has wider rights already
    /// (``binds(_:)``).
    ///
    /// - Parameters:
    ///   - connections: the role's new CONNECTION LIMIT; nil leaves it unchanged.
    ///   - users: the name that messages give to the programs that log in with the role, such as "the daemons".
    ///   - statements: a function that receives the role's name, quoted as an identifier, and returns the statements
    ///     that grant the rights.
    package func grant(
        to role: String, connections: Int?, for users: String, _ statements: (String) -> [String]
    ) throws {
        guard try binds(role) else {
            throw Refusal.cannot(
                reason:
                    "the role of --grant is PUBLIC, a superuser, or can act as the owner, so its rights do not restrict it: "
                    + "make one for \(users) alone (createuser).")
        }
        guard let quoted = try run("SELECT quote_ident($1)", [.text(role)]).first?.text(0) else {
            throw UnreadableColumn(column: 0)
        }
        try explaining(
            .undefinedObject, "the role of --grant does not exist: make it first (createuser)."
        ) {
            for statement in statements(quoted) { _ = try run(statement) }
        }
        guard let connections else { return }
        let limit = "ALTER ROLE \(quoted) CONNECTION LIMIT \(connections)"
        try explaining(
            .insufficientPrivilege,
            "the account may not change the role's connection limit, and nothing was done: leave out --connections, and have a "
                + "superuser run \(limit);"
        ) { _ = try run(limit) }
    }

    /// Returns true if the role has no other rights than those granted to it. Returns false for PUBLIC, for a
    /// superuser, and for a role that can act as the owner. Returns true if the role does not exist, because the server
    /// then refuses the first grant.
    private func binds(_ role: String) throws -> Bool {
        // PostgreSQL treats this name as PUBLIC, even in quotation marks.
        guard role != "public" else { return false }
        return try run(
            "SELECT NOT rolsuper AND NOT pg_has_role(oid, current_user, 'MEMBER') FROM pg_roles WHERE rolname = $1",
            [.text(role)]
        ).first?.boolean(0) ?? true
    }
}

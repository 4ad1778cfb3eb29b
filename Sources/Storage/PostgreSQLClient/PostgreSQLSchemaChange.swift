import DatabaseKit

/// The one transaction in which a program's tables are made or upgraded, and rights to them given, as their owner.
package struct PostgreSQLSchemaChange {
    /// Why a program's tables were not made.
    package enum Refusal: Error {
        /// The server warned at the commit: it took place, and is not known to be safe.
        case warned
        /// There is a schema of this name, and it is not the program's.
        case notOurs
        case newer(found: Int)
        /// The account, the schema's owner or the role is not the right one; with what to do.
        case cannot(reason: String)
    }

    /// The program's own, to which all of it belongs.
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

    /// Done, or nothing of it; nothing in a dry run. What throws leaves the transaction to the session's end.
    package func perform<Value>(isDryRun: Bool = false, _ body: (Self) throws -> Value) throws -> Value {
        // Before any function is called: a schema in which others may create, such as public, could hold one of that name,
        // and it would run with the owner's rights.
        _ = try run("SET search_path = pg_catalog, pg_temp")
        _ = try run("SET lock_timeout = '30s'")
        _ = try run("BEGIN")
        // Somebody else's is waited for.
        _ = try run("SELECT pg_advisory_xact_lock(hashtext('\(schema)'))")
        let value = try explaining(
            .insufficientPrivilege,
            "the account may not make a schema in this database, or does not own the one there: log in as the owner."
        ) { try body(self) }
        _ = try run(isDryRun ? "ROLLBACK" : "COMMIT")
        guard isDryRun || !connection.hasWarned else { throw Refusal.warned }
        return value
    }

    /// - Parameter reason: what to do about a statement that the server refuses with this state.
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

    /// Makes the tables where there are none, or upgrades older ones.
    ///
    /// - Parameters:
    ///   - table: has one row, with the version.
    ///   - steps: the statements that lead from each version to the next; the first make version 1 from nothing.
    ///   - beforeUpgrade: called when older tables are about to be changed.
    /// - Returns: the owner's role, and the version that was there; nil when there was none.
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
        // A schema of this name that is not ours is not written into.
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

    /// An expression that is true where the session's role owns the schema, or there is none. The owner can drop the tables, so that
    /// must be no role but the one that looks after them.
    package static func isOwner(of schema: String) -> String {
        """
        coalesce((SELECT nspowner = (SELECT oid FROM pg_roles WHERE rolname = current_user) FROM pg_namespace
            WHERE nspname = '\(schema)'), true)
        """
    }

    package static func anotherOwner(of schema: String) -> String {
        "its schema \(schema) belongs to another role: log in as that one, or give it to this one."
    }

    /// Makes the tables, or upgrades them. From here on names are looked for in the schema.
    ///
    /// - Parameter steps: the statements of each version, from the one that is there on.
    private func take(_ steps: some Sequence<[String]>) throws(PostgreSQLFailure) {
        _ = try run("SET LOCAL search_path = \(schema), pg_temp")
        for statement in steps.joined() { _ = try run(statement) }
        // PostgreSQL lets everybody run a new function.
        _ = try run("REVOKE ALL ON ALL FUNCTIONS IN SCHEMA \(schema) FROM PUBLIC")
    }

    /// Grants rights to a role that they bind.
    ///
    /// - Parameters:
    ///   - connections: the role's CONNECTION LIMIT; nil leaves it as it is.
    ///   - users: the programs that log in as the role, for people.
    ///   - statements: for the role's name, quoted as an identifier.
    package func grant(
        to role: String, connections: Int?, for users: String, _ statements: (String) -> [String]
    ) throws {
        guard try binds(role) else {
            throw Refusal.cannot(
                reason:
                    "the role to be granted is everybody, a superuser, or can act as the owner, so that its rights bind nothing: "
                    + "make one for \(users) alone (createuser).")
        }
        guard let quoted = try run("SELECT quote_ident($1)", [.text(role)]).first?.text(0) else {
            throw UnreadableColumn(column: 0)
        }
        try explaining(
            .undefinedObject, "there is no role of the name that is to be granted: make it first (createuser)."
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

    /// Whether rights bind a role: not everybody, no superuser, and none that can act as the owner. A role that does not exist
    /// is refused when it is granted something.
    private func binds(_ role: String) throws -> Bool {
        // PostgreSQL takes this name for everybody, quoted or not.
        guard role != "public" else { return false }
        return try run(
            "SELECT NOT rolsuper AND NOT pg_has_role(oid, current_user, 'MEMBER') FROM pg_roles WHERE rolname = $1",
            [.text(role)]
        ).first?.boolean(0) ?? true
    }
}

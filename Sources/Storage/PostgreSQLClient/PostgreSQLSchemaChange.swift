import DatabaseKit

/// A transaction in which the owner of a schema creates or upgrades a store's tables, and grants rights to them.
struct PostgreSQLSchemaChange<Schema: StoreSchema> {
    private let connection: PostgreSQLConnection
    private let deadline: ContinuousClock.Instant

    init(on connection: PostgreSQLConnection, until deadline: ContinuousClock.Instant) {
        self.connection = connection
        self.deadline = deadline
    }

    private func run(_ sql: String, _ values: [PostgreSQLValue] = []) throws(PostgreSQLFailure) -> [PostgreSQLRow] {
        try connection.exchange([PostgreSQLStatement(sql, values)], until: deadline).first?.rows ?? []
    }

    /// Makes the change in a transaction and commits it. A dry run rolls it back instead. After an error nothing is
    /// committed: the transaction remains open until the session ends.
    func perform(
        isDryRun: Bool, _ server: String, grantTo role: String?, connections: Int?
    ) throws -> SchemaOutcome {
        // This statement precedes every function call. Otherwise the server might run an attacker's function of the
        // same name, for example from the schema public, with the owner's rights.
        _ = try run("SET search_path = pg_catalog, pg_temp")
        _ = try run("SET lock_timeout = '30s'")
        _ = try run("BEGIN")
        // Only one session at a time may change this schema. Other sessions wait for this lock.
        _ = try run("SELECT pg_advisory_xact_lock(hashtext('\(Schema.name)'))")
        let (owner, found) = try explainingRefusal(
            .insufficientPrivilege,
            "the account may not make a schema in this database, or does not own the one there: log in as the owner."
        ) {
            let made = try createOrUpgrade(server)
            if let role { try grant(to: role, connections: connections) }
            return made
        }
        _ = try run(isDryRun ? "ROLLBACK" : "COMMIT")
        guard isDryRun || !connection.hasWarned else {
            throw PostgreSQLRefusal.temporary(
                reason: "the server sent a warning at the commit, so it may not be safe. Repeat the command.")
        }
        return SchemaOutcome(
            server: server, owner: owner, found: found, version: Schema.version, granted: role,
            isUnverified: PostgreSQLSessionRules.hasUnverifiedServer(connection.parameters))
    }

    /// Runs `body`. If the server refuses a statement with the SQLSTATE `refused`, throws
    /// ``PostgreSQLRefusal/permanent(reason:)`` with `reason`.
    private func explainingRefusal<Value>(
        _ refused: SQLState, _ reason: String, _ body: () throws -> Value
    ) throws -> Value {
        do {
            return try body()
        } catch let error as PostgreSQLFailure {
            guard case .refused(let state, _) = error, state == refused else { throw error }
            throw PostgreSQLRefusal.permanent(reason: reason)
        }
    }

    /// Creates the tables, or upgrades the tables of an older version.
    ///
    /// - Returns: the owner's role, and the previous version, or nil if there were no tables.
    private func createOrUpgrade(_ server: String) throws -> (owner: String, found: Int?) {
        let schema = Schema.name
        let table = Schema.versionTable
        let facts = try run(
            """
            SELECT current_user::text, to_regnamespace('\(schema)') IS NOT NULL,
                to_regclass('\(schema).\(table)') IS NOT NULL,
                (SELECT count(*) FROM pg_class WHERE relnamespace = to_regnamespace('\(schema)')),
                \(Schema.isOwner)
            """
        ).first
        guard let facts else { throw PostgreSQLRefusal.notOurs }
        let isThere = try facts.boolean(2)
        // A schema that has objects but not the version table belongs to another program.
        guard try isThere || facts.integer(3) == 0 else { throw PostgreSQLRefusal.notOurs }
        guard try facts.boolean(4) else { throw PostgreSQLRefusal.permanent(reason: Schema.anotherOwner) }
        var found: Int?
        if isThere {
            found = try run("SELECT schema_version FROM \(schema).\(table) FOR UPDATE").first.map {
                Int(try $0.integer(0))
            }
            guard let found, found > 0 else { throw PostgreSQLRefusal.notOurs }
            guard found <= Schema.version else { throw PostgreSQLRefusal.newer(found: found) }
            if found < Schema.version { try Schema.prepareUpgrade(server: server) { try run($0) } }
        } else if try !facts.boolean(1) {
            _ = try run("CREATE SCHEMA \(schema)")
        }
        _ = try run("SET LOCAL search_path = \(schema), pg_temp")
        for statement in Schema.steps.dropFirst(found ?? 0).joined() { _ = try run(statement) }
        // By default, PostgreSQL allows every role to execute a new function.
        _ = try run("REVOKE ALL ON ALL FUNCTIONS IN SCHEMA \(schema) FROM PUBLIC")
        _ = try run(
            """
            INSERT INTO \(table) (schema_version) VALUES ($1)
            ON CONFLICT (only_row) DO UPDATE SET schema_version = excluded.schema_version
            """, [.integer(Int64(Schema.version))])
        for statement in Schema.finishing { _ = try run(statement) }
        return (try facts.text(0), found)
    }

    /// Grants rights to a role. Throws ``PostgreSQLRefusal/permanent(reason:)`` if the role has wider rights already
    /// (``isRestricted(_:)``).
    ///
    /// - Parameter connections: the role's new CONNECTION LIMIT; nil leaves it unchanged.
    private func grant(to role: String, connections: Int?) throws {
        guard try isRestricted(role) else {
            throw PostgreSQLRefusal.permanent(
                reason:
                    "the role of --grant is PUBLIC, a superuser, or can act as the owner, so its rights do not restrict it: "
                    + "make one for \(Schema.users) alone (createuser).")
        }
        guard let quoted = try run("SELECT quote_ident($1)", [.text(role)]).first?.text(0) else {
            throw UnreadableColumn(column: 0)
        }
        try explainingRefusal(
            .undefinedObject, "the role of --grant does not exist: make it first (createuser)."
        ) {
            for statement in Schema.grants(to: quoted) { _ = try run(statement) }
        }
        guard let connections else { return }
        let limit = "ALTER ROLE \(quoted) CONNECTION LIMIT \(connections)"
        try explainingRefusal(
            .insufficientPrivilege,
            "the account may not change the role's connection limit, and nothing was done: leave out --connections, and have a "
                + "superuser run \(limit);"
        ) { _ = try run(limit) }
    }

    /// Returns true if the role has no other rights than those granted to it. Returns false for PUBLIC, for a
    /// superuser, and for a role that can act as the owner. Returns true if the role does not exist, because the server
    /// then refuses the first grant.
    private func isRestricted(_ role: String) throws -> Bool {
        // PostgreSQL treats this name as PUBLIC, even in quotation marks.
        guard role != "public" else { return false }
        return try run(
            "SELECT NOT rolsuper AND NOT pg_has_role(oid, current_user, 'MEMBER') FROM pg_roles WHERE rolname = $1",
            [.text(role)]
        ).first?.boolean(0) ?? true
    }
}

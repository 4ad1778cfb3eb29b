/// The one transaction in which a program's tables are made or upgraded, and rights to them given, as their owner.
package struct PostgreSQLSchemaChange {
    /// The server warned at the commit: it took place, and is not known to be safe.
    package struct Warned: Error {}

    /// The account may not change roles, so that the connection limit cannot be set.
    package struct LimitNotPermitted: Error {
        let statement: String

        package var reason: String {
            "the account may not change the role's connection limit, and nothing was done: leave out --connections, and have a "
                + "superuser run \(statement);"
        }
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
        let value = try body(self)
        _ = try run(isDryRun ? "ROLLBACK" : "COMMIT")
        guard isDryRun || !connection.hasWarned else { throw Warned() }
        return value
    }

    /// Makes the tables, or upgrades them. From here on names are looked for in the schema.
    ///
    /// - Parameter steps: the statements of each version, from the one that is there on.
    package func take(_ steps: some Sequence<[String]>) throws(PostgreSQLFailure) {
        _ = try run("SET LOCAL search_path = \(schema), pg_temp")
        for statement in steps.joined() { _ = try run(statement) }
        // PostgreSQL lets everybody run a new function.
        _ = try run("REVOKE ALL ON ALL FUNCTIONS IN SCHEMA \(schema) FROM PUBLIC")
    }

    /// Whether rights bind a role: not everybody, no superuser, and none that can act as the owner. A role that does not exist
    /// is refused by ``grant(to:_:)``.
    package func binds(_ role: String) throws -> Bool {
        // PostgreSQL takes this name for everybody, quoted or not.
        guard role != "public" else { return false }
        return try run(
            "SELECT NOT rolsuper AND NOT pg_has_role(oid, current_user, 'MEMBER') FROM pg_roles WHERE rolname = $1",
            [.text(role)]
        ).first?.boolean(0) ?? true
    }

    /// - Parameters:
    ///   - connections: the role's CONNECTION LIMIT; nil leaves it as it is.
    ///   - statements: for the role's name, quoted as an identifier.
    package func grant(to role: String, connections: Int?, _ statements: (String) -> [String]) throws {
        guard let quoted = try run("SELECT quote_ident($1)", [.text(role)]).first?.text(0) else {
            throw PostgreSQLRowError(column: 0)
        }
        for statement in statements(quoted) { _ = try run(statement) }
        if let connections { try limit("ALTER ROLE \(quoted) CONNECTION LIMIT \(connections)") }
    }

    private func limit(_ statement: String) throws {
        do throws(PostgreSQLFailure) {
            _ = try run(statement)
        } catch {
            if case .refused(.insufficientPrivilege, _) = error { throw LimitNotPermitted(statement: statement) }
            throw error
        }
    }
}

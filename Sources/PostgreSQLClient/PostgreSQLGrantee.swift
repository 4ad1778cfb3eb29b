/// Who may be given rights to a program's tables: what all of this project's schemas ask for.
package enum PostgreSQLGrantee {
    /// Whether rights bind a role: not everybody, no superuser, and none that can act as the owner. A role that does not exist
    /// is refused by GRANT.
    ///
    /// - Parameter run: asks the server, as the owner.
    package static func isBound(
        _ role: String, _ run: (String, [PostgreSQLValue]) throws -> [PostgreSQLRow]
    ) throws -> Bool {
        // PostgreSQL takes this name for everybody, quoted or not.
        guard role != "public" else { return false }
        return try run(
            "SELECT NOT rolsuper AND NOT pg_has_role(oid, current_user, 'MEMBER') FROM pg_roles WHERE rolname = $1",
            [.text(role)]
        ).first?.boolean(0) ?? true
    }
}

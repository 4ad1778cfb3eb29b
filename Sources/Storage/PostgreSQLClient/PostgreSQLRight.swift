/// A right of the role with which programs use a store. Creating the store grants all rights, and opening it checks
/// them.
package enum PostgreSQLRight {
    /// SELECT on all tables.
    case select
    case insert(table: String)
    case update(table: String, columns: [String])
    /// EXECUTE on a function. The value is the function's name with its parameters' types in parentheses, such as
    /// `prune_payments(bigint)`.
    case execute(String)

    /// The right's name for display.
    fileprivate var name: String {
        switch self {
        case .select: "SELECT on all tables"
        case .insert(let table): "INSERT on \(table)"
        case .update(let table, let columns): "UPDATE of \(columns.joined(separator: ", ")) on \(table)"
        case .execute(let function): "EXECUTE on \(function)"
        }
    }
}

extension StoreSchema {
    /// Returns the statements that give a role the rights in ``rights`` and no others in the schema.
    ///
    /// - Parameter role: the role, quoted as an identifier.
    static func grants(to role: String) -> [String] {
        [
            "GRANT USAGE ON SCHEMA \(name) TO \(role)",
            "REVOKE ALL ON ALL TABLES IN SCHEMA \(name) FROM \(role)",
            "REVOKE ALL ON ALL FUNCTIONS IN SCHEMA \(name) FROM \(role)",
        ]
            + rights.map { right in
                switch right {
                case .select: "GRANT SELECT ON ALL TABLES IN SCHEMA \(name) TO \(role)"
                case .insert(let table): "GRANT INSERT ON \(table) TO \(role)"
                case .update(let table, let columns):
                    "GRANT UPDATE (\(columns.joined(separator: ", "))) ON \(table) TO \(role)"
                case .execute(let function): "GRANT EXECUTE ON FUNCTION \(function) TO \(role)"
                }
            }
    }

    /// Returns an SQL condition that is true if the session's role has the right.
    private static func condition(_ right: PostgreSQLRight) -> String {
        switch right {
        case .select:
            tables.map { "has_table_privilege('\(name).\($0)', 'SELECT')" }.joined(separator: " AND ")
        case .insert(let table): "has_table_privilege('\(name).\(table)', 'INSERT')"
        case .update(let table, let columns):
            columns.map { "has_column_privilege('\(name).\(table)', '\($0)', 'UPDATE')" }.joined(separator: " AND ")
        case .execute(let function): "has_function_privilege('\(name).\(function)', 'EXECUTE')"
        }
    }

    /// Returns the names of the rights that the session's role lacks, separated by semicolons; empty if it has all.
    package static func missingRights(
        _ connection: PostgreSQLConnection, until deadline: ContinuousClock.Instant
    ) throws -> String {
        let statement = PostgreSQLStatement(
            """
            SELECT coalesce(array_to_string(array_agg(name) FILTER (WHERE NOT has), '; '), '') FROM (VALUES
            \(rights.map { "('\($0.name)', \(condition($0)))" }.joined(separator: ",\n"))) AS rights (name, has)
            """)
        guard let row = try connection.exchange([statement], until: deadline)[0].rows.first else {
            throw PostgreSQLRefusal.notOurs
        }
        return try row.text(0)
    }
}

import Ledger
import PostgreSQLClient

/// The complete set of rights of the daemon's role. `ledger create --grant` grants them, and each start checks them.
enum PostgreSQLRight {
    /// SELECT on all tables.
    case select
    case insert(table: String)
    case update(table: String, columns: [String])
    /// EXECUTE on a function, which is named with its parameters' types, as in `present()`.
    case execute(String)

    /// The tables that this version knows. Other tables in the schema are ignored.
    static let tables = [
        "ledger_state", "node", "merchant_key", "claim", "audit_record", "checkpoint", "audit_key", "approval", "hold",
        "key_holder", "moved_ledger", "archive",
    ]

    static let all: [PostgreSQLRight] =
        [.select]
        + ["node", "merchant_key", "claim", "audit_record", "checkpoint", "audit_key", "approval"].map {
            .insert(table: $0)
        }
        + [
            .update(table: "ledger_state", columns: ["guard"]),
            .update(
                table: "node",
                columns: [
                    "fence", "lease_until", "seen_at", "version", "last_batch", "signed_ahead", "clock_accepted_after",
                    "widest_window",
                ]),
            .update(table: "merchant_key", columns: ["state", "cut_off"]),
            .update(table: "claim", columns: ["repeats", "repeat_attempt", "repeated_at"]),
            .update(table: "audit_key", columns: ["public_key"]),
            .update(table: "approval", columns: ["status", "decided_by", "decided_at"]),
        ]
        + [
            "present()", "exclude_releases()", "prune_claims(bigint, bigint, bigint)",
            "limit_forgotten(bigint, bigint)", "forget_approvals(bigint, bigint)", "this_server()", "earliest_fence()",
            "note_key_holder(text, bigint, bytea[])",
            "put_hold(text, text, bigint, bigint, bytea, bigint, bytea)",
            "accept_restore(text, bigint, bigint, bytea, bigint, text[], bigint[])", "end_hold(text, bigint, bigint)",
            "earliest_served()",
            "compare_server(text, bigint)", "archived_through(text)",
            "put_archive(text, bigint, bigint, bigint, bytea, bytea, bigint, bigint)",
            "remove_archived(text, bigint, bigint)",
        ].map { .execute($0) }

    /// - Parameter role: the role, quoted as an identifier.
    func grant(to role: String) -> String {
        switch self {
        case .select: "GRANT SELECT ON ALL TABLES IN SCHEMA paytokend TO \(role)"
        case .insert(let table): "GRANT INSERT ON \(table) TO \(role)"
        case .update(let table, let columns):
            "GRANT UPDATE (\(columns.joined(separator: ", "))) ON \(table) TO \(role)"
        case .execute(let function): "GRANT EXECUTE ON FUNCTION \(function) TO \(role)"
        }
    }

    /// The right's name for display.
    private var name: String {
        switch self {
        case .select: "SELECT on all tables"
        case .insert(let table): "INSERT on \(table)"
        case .update(let table, let columns): "UPDATE of \(columns.joined(separator: ", ")) on \(table)"
        case .execute(let function): "EXECUTE on \(function)"
        }
    }

    /// An SQL condition that is true if the session's role has the right.
    private var condition: String {
        switch self {
        case .select:
            Self.tables.map { "has_table_privilege('paytokend.\($0)', 'SELECT')" }.joined(separator: " AND ")
        case .insert(let table): "has_table_privilege('paytokend.\(table)', 'INSERT')"
        case .update(let table, let columns):
            columns.map { "has_column_privilege('paytokend.\(table)', '\($0)', 'UPDATE')" }.joined(separator: " AND ")
        case .execute(let function): "has_function_privilege('paytokend.\(function)', 'EXECUTE')"
        }
    }

    /// The statement that returns the names of the missing rights in one row.
    static let missing = PostgreSQLStatement(
        """
        SELECT coalesce(array_to_string(array_agg(name) FILTER (WHERE NOT has), '; '), '') FROM (VALUES
        \(all.map { "('\($0.name)', \($0.condition))" }.joined(separator: ",\n"))) AS rights (name, has)
        """)
}

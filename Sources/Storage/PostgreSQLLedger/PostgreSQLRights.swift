package import PostgreSQLClient

/// The rights of the daemon's role. The role can delete no records, audit checkpoints or claims. In a claim, it can
/// change only the columns about repeats.
extension PostgreSQLSchema {
    /// The tables that this version knows. Other tables in the schema are ignored.
    package static let tables = [
        "ledger_state", "node", "merchant_key", "claim", "audit_record", "checkpoint", "audit_key", "approval", "hold",
        "key_holder", "moved_ledger", "archive", "renewal", "renewal_attempt",
    ]

    package static let rights: [PostgreSQLRight] =
        [.select]
        + [
            "node", "merchant_key", "claim", "audit_record", "checkpoint", "audit_key", "approval", "renewal",
            "renewal_attempt",
        ].map {
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
            .update(table: "audit_key", columns: ["public_key", "hsm_token"]),
            .update(table: "approval", columns: ["status", "decided_by", "decided_at"]),
            .update(
                table: "renewal",
                columns: [
                    "state", "certificate_id", "previous_certificate_id", "request", "certificate", "ended_at",
                ]),
            .update(table: "renewal_attempt", columns: ["answered_at", "outcome", "code"]),
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
}

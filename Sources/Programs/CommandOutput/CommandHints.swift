/// The commands that may help after a refusal. The daemon and the gateway describe the fault in the terms of their
/// APIs; only this table knows the corresponding commands.
package enum CommandHints {
    /// The commands for each refusal; the first matching row applies. A row matches if the path of the request, or the
    /// component in a reason of `/readyz`, begins with `pathPrefix`. A row with `details` matches only refusals with
    /// the same details.
    private static let rows: [(code: String, pathPrefix: String, details: String?, commands: String)] = [
        ("key_not_found", "/v1/rotations", nil, "paytokenctl key list, paytokenctl help key generate"),
        ("key_not_found", "/v1/", nil, "paytokenctl key list"),
        ("key_not_active", "/v1/google-pay", nil, "paytokenctl rotate status"),
        ("key_not_active", "/v1/", nil, "paytokenctl key list"),
        ("invalid_state", "/v1/", "POST /v1/keys/{key}/proofs", "paytokenctl help key prove"),
        ("invalid_state", "/v1/", "POST /v1/rotations/added", "paytokenctl help rotate added"),
        ("invalid_state", "/v1/", "POST /v1/rotations/removed", "paytokenctl help rotate removed"),
        ("invalid_state", "/v1/keys", nil, "paytokenctl key show, paytokenctl help key"),
        ("invalid_state", "/v1/rotations/removed", nil, "paytokenctl rotate status, paytokenctl help key retire"),
        ("invalid_state", "/v1/rotations", nil, "paytokenctl rotate status"),
        ("invalid_state", "/v1/renewals", nil, "paytokenctl rotate plan"),
        ("approval_invalid", "/v1/", nil, "paytokenctl approval list"),
        ("hsm_unavailable", "/v1/", nil, "paytokenctl status"),
        ("ledger_unavailable", "/v1/audit", nil, "paytokenctl status, paytokenctl audit verify"),
        ("ledger_unavailable", "/v1/", nil, "paytokenctl status"),
        // Reasons of `/readyz`.
        ("transaction_replayed", "clock", nil, "paytokenctl help ledger accept-clock"),
        ("signing_time_outside_window", "clock", nil, "paytokenctl help ledger accept-clock"),
        // Merchant sessions.
        ("no_active_identity", "/v1/", nil, "paytokenctl key list, paytokenctl help key generate"),
        ("identity_not_valid", "/v1/", "expired", "paytokenctl help rotate start"),
        ("paytokend_unavailable", "/v1/", nil, "paytokenctl status"),
    ]

    /// - Parameter path: the path of the refused request, or the component that a reason of `/readyz` names.
    /// - Returns: nil if no command helps.
    package static func commands(after code: String, details: String? = nil, at path: String) -> String? {
        rows.first { row in
            row.code == code && path.hasPrefix(row.pathPrefix) && (row.details == nil || row.details == details)
        }?.commands
    }
}

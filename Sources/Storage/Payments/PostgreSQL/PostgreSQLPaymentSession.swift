import PostgreSQLClient

/// A session with the server that stores payments.
typealias PostgreSQLPaymentSession = PostgreSQLSession<PostgreSQLPaymentSchema>

extension PostgreSQLSession<PostgreSQLPaymentSchema> {
    /// Opens no connection yet. Each new connection is checked for the rights that a gateway needs.
    convenience init(_ hosts: PostgreSQLHosts) {
        // The server's limits are shorter than the gateway's, so that most waits end with a response from the server.
        let milliseconds = hosts.timeout / .milliseconds(1)
        let settings = [
            ("lock_timeout", "\(Int(milliseconds / 2))"), ("statement_timeout", "\(Int(milliseconds * 0.8))"),
            ("idle_in_transaction_session_timeout", "\(Int(milliseconds * 2))"),
        ]
        self.init(hosts, settings: settings, further: [Self.synchronous]) { connection, _, deadline in
            guard try PostgreSQLPaymentSchema.missingRights(connection, until: deadline).isEmpty else {
                throw PostgreSQLRefusal.missingRight
            }
        }
    }

    /// Sets `synchronous_commit` to `on` unless it is `on` or the stricter `remote_apply` already. The server then
    /// acknowledges a commit only after it has reached the server's disk, and the disk of the synchronous standby if
    /// there is one. Weaker defaults of the role or the database have no effect (`remote_write` waits only for the
    /// standby's memory).
    private static var synchronous: PostgreSQLStatement {
        PostgreSQLStatement(
            """
            SELECT set_config('synchronous_commit', 'on', false)
            WHERE current_setting('synchronous_commit') NOT IN ('on', 'remote_apply')
            """)
    }
}

/// The parameters that this project's programs set in every PostgreSQL session.
package enum PostgreSQLSessionRules {
    /// The oldest supported version, PostgreSQL 13, as libpq encodes versions.
    static let oldestServer = 130_000

    /// Returns libpq's connection parameters: those of the URL, and those that durability and bounded waits require.
    package static func parameters(
        _ url: PostgreSQLURL, timeout: Duration, application: String
    ) -> [String: String] {
        let milliseconds = timeout.components.seconds * 1000 + timeout.components.attoseconds / 1_000_000_000_000_000
        var parameters = [
            // TCP must give up on an unreachable host while there is still time to try another host. The limit is at
            // least two seconds, so that TCP can retransmit lost packets.
            "tcp_user_timeout": String(min(milliseconds, max(2000, milliseconds / 4))),
            "keepalives_idle": "15", "keepalives_interval": "5", "keepalives_count": "3",
        ]
        parameters.merge(url.parameters) { _, chosen in chosen }
        // The session must use neither a replica, whose rows may be outdated, nor GSSAPI, whose calls block.
        parameters["target_session_attrs"] = "read-write"
        parameters["gssencmode"] = "disable"
        parameters["client_encoding"] = "UTF8"
        parameters["fallback_application_name"] = application
        return parameters
    }

    /// Returns a statement that sets parameters of the session. Without it, the defaults of the role, the database or
    /// the server would apply.
    ///
    /// - Parameters:
    ///   - schema: the program's schema, which becomes the search path.
    ///   - others: additional parameters to set.
    package static func setting(
        schema: String, _ others: [(name: String, value: String)] = []
    ) -> PostgreSQLStatement {
        let all =
            [
                ("search_path", "\(schema), pg_temp"), ("client_min_messages", "warning"),
                ("default_transaction_isolation", "read committed"), ("default_transaction_deferrable", "off"),
                ("jit", "off"), ("timezone", "UTC"),
            ] + others
        let calls = all.indices.map { "set_config($\($0 * 2 + 1), $\($0 * 2 + 2), false)" }
        return PostgreSQLStatement(
            "SELECT " + calls.joined(separator: ", "), all.flatMap { [.text($0.0), .text($0.1)] })
    }

    /// Returns true if the session uses TCP without `sslmode=verify-full`. An attacker on the network could then read
    /// and change the traffic.
    ///
    /// - Parameter parameters: libpq's connection parameters by keyword.
    package static func hasUnverifiedServer(_ parameters: [String: String]) -> Bool {
        let hosts = PostgreSQLURL.list(parameters["host"])
        // A host that begins with `/` or `@` is a Unix socket. Without a host, libpq uses a Unix socket too.
        let isLocal =
            hosts.allSatisfy { $0.hasPrefix("/") || $0.hasPrefix("@") }
            && PostgreSQLURL.list(parameters["hostaddr"]).isEmpty
        return !isLocal && parameters["sslmode"] != "verify-full"
    }
}

extension PostgreSQLURL {
    /// The result of ``PostgreSQLSessionRules/hasUnverifiedServer(_:)`` for the URL alone, without its service file.
    package var hasUnverifiedServer: Bool {
        // A service file may set sslmode, and libpq reads that file only when a session is opened.
        if service != nil, parameters["sslmode"] == nil { return false }
        return PostgreSQLSessionRules.hasUnverifiedServer(parameters)
    }
}

extension PostgreSQLOpeningFailure {
    /// Returns the message about this failure for the operator.
    ///
    /// - Parameter setting: the name of the configuration setting that contains the URL, such as `ledger.url`.
    package func reason(_ setting: String) -> String {
        switch self {
        case .unreachable: "no host of \(setting) can be reached."
        case .late: "no host of \(setting) answers in time."
        case .tls: "TLS with the server fails; check its certificate, and sslmode and sslrootcert in \(setting)."
        case .login: "the server refuses the login; check the role, its password file and pg_hba.conf."
        case .noDatabase: "the server has no such database."
        case .readOnly: "no host of \(setting) accepts writes; is there a primary?"
        case .tooManyConnections: "the server has no connection left."
        case .oldServer: "its server is older than PostgreSQL 13."
        case .passwordFile(let error): error.description
        }
    }
}

extension PostgreSQLFailure {
    /// The message about this failure for the operator. It contains no values of rows.
    package var reason: String {
        switch self {
        case .refused(let state, _): "PostgreSQL says \(state)."
        case .lost(let state?): "The session with PostgreSQL ended: \(state)."
        case .lost(nil): "The connection to PostgreSQL broke or cannot be made."
        case .late: "PostgreSQL does not answer."
        }
    }
}

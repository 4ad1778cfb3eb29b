/// The rules of every session of this project's programs, for any kind of database.
package enum PostgreSQLSessionRules {
    /// PostgreSQL 13.
    static let oldestServer = 130_000

    /// libpq's parameters: the URL's, and those that durable answers depend on.
    package static func parameters(
        _ url: PostgreSQLURL, timeout: Duration, application: String
    ) -> [String: String] {
        let milliseconds = timeout.components.seconds * 1000 + timeout.components.attoseconds / 1_000_000_000_000_000
        var parameters = [
            // A machine that leaves the network is noticed while there is time left for another one. Two seconds allow
            // for packets that are lost and sent again.
            "tcp_user_timeout": String(min(milliseconds, max(2000, milliseconds / 4))),
            "keepalives_idle": "15", "keepalives_interval": "5", "keepalives_count": "3",
        ]
        parameters.merge(url.parameters) { _, chosen in chosen }
        // Never a replica, whose rows may be older; and no GSSAPI, whose calls block.
        parameters["target_session_attrs"] = "read-write"
        parameters["gssencmode"] = "disable"
        parameters["client_encoding"] = "UTF8"
        parameters["fallback_application_name"] = application
        return parameters
    }

    /// Sets parameters that a role, a database or a server may have changed.
    ///
    /// - Parameters:
    ///   - schema: the program's own, in which alone names are resolved.
    ///   - others: parameters in addition to those of all sessions.
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

    /// Returns true if an attacker in the network could read and change the traffic: over TCP, with less than
    /// `sslmode=verify-full`.
    ///
    /// - Parameter parameters: libpq's, by their keywords.
    package static func hasUnverifiedServer(_ parameters: [String: String]) -> Bool {
        let hosts = PostgreSQLURL.list(parameters["host"])
        // A host that begins with a slash, or an at sign (an abstract socket), is on this machine; so is none.
        let isLocal =
            hosts.allSatisfy { $0.hasPrefix("/") || $0.hasPrefix("@") }
            && PostgreSQLURL.list(parameters["hostaddr"]).isEmpty
        return !isLocal && parameters["sslmode"] != "verify-full"
    }
}

extension PostgreSQLURL {
    /// ``PostgreSQLSessionRules/hasUnverifiedServer(_:)`` by the URL alone, without reading a service file.
    package var hasUnverifiedServer: Bool {
        // A service file may set everything that the URL leaves open; it is read when there is a connection.
        if service != nil, parameters["sslmode"] == nil { return false }
        return PostgreSQLSessionRules.hasUnverifiedServer(parameters)
    }
}

extension PostgreSQLOpeningFailure {
    /// A sentence.
    ///
    /// - Parameter setting: the configuration's name for the URL, such as `ledger.url`.
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
    /// A sentence, without a value of any row.
    package var reason: String {
        switch self {
        case .refused(let state, _): "PostgreSQL says \(state)."
        case .lost(let state?): "The session with PostgreSQL ended: \(state)."
        case .lost(nil): "The connection to PostgreSQL broke or cannot be made."
        case .late: "PostgreSQL does not answer."
        }
    }
}

import Testing

@testable import Ledger
@testable import PostgreSQLClient

@Suite("A PostgreSQL ledger's URL")
struct PostgreSQLURLTests {
    @Test(
        "refuses secrets, parameters that the daemon sets, and other text, and repeats none of it",
        arguments: [
            ("postgresql://u:hunter2@db/x", PostgreSQLURLError.secret(parameter: "password")),
            ("postgresql://db/x?password=hunter2", .secret(parameter: "password")),
            ("postgresql://db/x?sslpassword=hunter2", .secret(parameter: "sslpassword")),
            ("postgresql://db/x?target_session_attrs=any", .reserved(parameter: "target_session_attrs")),
            ("postgresql://db/x?gssencmode=require", .reserved(parameter: "gssencmode")),
            ("postgresql://db/x?replication=true", .reserved(parameter: "replication")),
            ("postgresql://db/x?hunter2=1", .unreadable), ("postgresql://[hunter2/x", .unreadable),
            ("postgresql://:hunter2/x", .port), ("postgresql://db:0/x", .port), ("postgresql://db:65536/x", .port),
            ("postgresql://db1:5432,db2:hunter2/x", .port),
            (
                "postgresql://db/x?sslmode=hunter2",
                .choice(
                    parameter: "sslmode",
                    values: ["disable", "allow", "prefer", "require", "verify-ca", "verify-full"])
            ),
            (
                "postgresql://db/x?channel_binding=hunter2",
                .choice(parameter: "channel_binding", values: ["disable", "prefer", "require"])
            ),
            ("postgresql://db1:1,db2:2,db3/x?port=1,2", .ports(2, hosts: 3)),
            ("postgresql:///x?host=/run&port=1,2", .ports(2, hosts: 1)),
            ("postgresql:///x?port=1,2", .ports(2, hosts: 1)),
            ("postgresql:///x?host=a,b&hostaddr=10.0.0.1", .addresses(1, hosts: 2)),
            ("host=db password=hunter2", .notAURL), ("mysql://db/x", .notAURL), ("", .notAURL),
        ])
    func refused(text: String, error: PostgreSQLURLError) {
        let thrown = #expect(throws: error) { try PostgreSQLURL(text) }
        #expect(thrown?.description.contains("hunter2") == false)
    }

    @Test(
        "counts only verify-full as secure over TCP, and any socket; a service file is read when connecting",
        arguments: [
            ("postgresql://db/x", true), ("postgresql://db/x?sslmode=require", true),
            ("postgresql://db/x?sslmode=verify-ca", true), ("postgresql://db/x?sslmode=verify-full", false),
            ("postgresql://127.0.0.1/x", true), ("postgresql:///x?host=/run/postgresql", false),
            ("postgresql:///x", false), ("postgresql:///x?host=/run/postgresql,db2", true),
            ("postgresql:///x?hostaddr=10.0.0.1", true), ("postgresql:///x?service=ledger", false),
        ])
    func tls(text: String, isInsecure: Bool) throws {
        #expect(try PostgreSQLURL(text).insecureSettings == (isInsecure ? [.databaseTLS] : []))
    }

    @Test(
        "allows another try after a break within TLS, and none after a disagreement about TLS",
        arguments: [
            ("connection to server at \"db\" (10.0.0.1), port 5432 failed: SSL SYSCALL error: EOF detected", false),
            ("SSL connection has been closed unexpectedly", false),
            ("SSL SYSCALL error: Connection reset by peer", false),
            ("SSL error: certificate verify failed", true),
            ("server certificate for \"other\" does not match host name \"db\"", true),
            ("server does not support SSL, but SSL was required", true),
            ("SSL error: tlsv1 alert protocol version", true),
        ])
    func brokenTLS(text: String, isConfigured: Bool) {
        let isTLS = if case .tls = PostgreSQLConnection.openingFailure(saying: text) { true } else { false }
        #expect(isTLS == isConfigured)
    }

    @Test(
        "recognises a refused login by its SQLSTATE, in any language of the server",
        arguments: [
            ("FATAL:  28P01: Passwort-Authentifizierung für Benutzer »paytokend« fehlgeschlagen", .login),
            ("FATAL:  28000: kein pg_hba.conf-Eintrag für Host »10.0.0.2«, Benutzer »paytokend«", .login),
            ("FATAL:  3D000: Datenbank »paytokend« existiert nicht", .noDatabase),
            ("FATAL:  53300: die verbleibenden Verbindungen sind für Superuser reserviert", .tooManyConnections),
            ("FATAL:  57P03: das Datenbanksystem startet", .unreachable),
        ] as [(String, PostgreSQLOpeningFailure)])
    func states(text: String, failure: PostgreSQLOpeningFailure) {
        #expect(PostgreSQLConnection.openingFailure(saying: text) == failure)
    }

    @Test(
        "reports one reason for several hosts: a refused login only if no host was silent",
        arguments: [
            ([.login, .unreachable], .unreachable), ([.late, .login], .late), ([.readOnly, .login], .login),
            ([.late, .readOnly], .readOnly), ([.unreachable, .late], .late), ([.readOnly, .tls, .late], .tls),
            ([.readOnly, .tooManyConnections], .tooManyConnections), ([.noDatabase], .noDatabase),
        ] as [([PostgreSQLOpeningFailure], PostgreSQLOpeningFailure)])
    func reasons(failures: [PostgreSQLOpeningFailure], reason: PostgreSQLOpeningFailure) {
        #expect(PostgreSQLOpeningFailure.combined(failures) == reason)
    }

    @Test("names each host with its address and port")
    func places() throws {
        func places(_ text: String) throws -> [PostgreSQLHosts.Endpoint] {
            PostgreSQLHosts.places(PostgreSQLConnection.parametersInForce(try PostgreSQLURL(text).parameters))
        }
        #expect(
            try places("postgresql://db1:1,db2/x") == [
                .init(host: "db1", address: nil, port: "1"), .init(host: "db2", address: nil, port: "5432"),
            ])
        #expect(
            try places("postgresql:///x?host=/run/a,db&hostaddr=,10.0.0.2&port=6432") == [
                .init(host: "/run/a", address: nil, port: "6432"),
                .init(host: "db", address: "10.0.0.2", port: "6432"),
            ])
        #expect(
            try places("postgresql:///x?hostaddr=10.0.0.1,10.0.0.2") == [
                .init(host: nil, address: "10.0.0.1", port: "5432"),
                .init(host: nil, address: "10.0.0.2", port: "5432"),
            ])
    }

    @Test(
        "accepts what libpq accepts",
        arguments: [
            "postgresql://db1,db2/x?port=6432", "postgresql://db1:1,db2:2/x", "postgresql://db1:1,db2/x",
            "postgresql:///x?host=a,b&hostaddr=10.0.0.1,10.0.0.2&port=1,2", "postgresql:///x?hostaddr=10.0.0.1&port=1",
            "postgresql:///x", "postgresql://db/x?sslmode=verify-ca&ssl_min_protocol_version=TLSv1.3",
        ])
    func taken(text: String) throws {
        #expect(try PostgreSQLURL(text).text == text)
    }

    @Test("is shown by its hosts and its database")
    func named() throws {
        #expect(
            try PostgreSQLURL("postgresql://paytokend@db1,db2/ledger?sslmode=verify-full").server == "db1,db2/ledger")
        #expect(try PostgreSQLURL("postgresql://paytokend@db1:6432/ledger").server == "db1:6432/ledger")
        #expect(try PostgreSQLURL("postgresql://paytokend@db1:1,db2:2/ledger").server == "db1:1,db2:2/ledger")
        #expect(try PostgreSQLURL("postgresql://paytokend@/").server == "local socket/paytokend")
    }
}

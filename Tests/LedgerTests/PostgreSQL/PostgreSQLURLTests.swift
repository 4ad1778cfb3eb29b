import Testing

@testable import Ledger

@Suite("A PostgreSQL ledger's URL")
struct PostgreSQLURLTests {
    @Test(
        "Secrets, parameters that the daemon sets, and what is no URL are refused, and no message repeats them",
        arguments: [
            ("postgresql://u:hunter2@db/x", PostgreSQLURLError.secret(parameter: "password")),
            ("postgresql://db/x?password=hunter2", .secret(parameter: "password")),
            ("postgresql://db/x?sslpassword=hunter2", .secret(parameter: "sslpassword")),
            ("postgresql://db/x?target_session_attrs=any", .fixed(parameter: "target_session_attrs")),
            ("postgresql://db/x?gssencmode=require", .fixed(parameter: "gssencmode")),
            ("postgresql://db/x?replication=true", .fixed(parameter: "replication")),
            ("postgresql://db/x?hunter2=1", .unreadable), ("postgresql://[hunter2/x", .unreadable),
            ("host=db password=hunter2", .notAURL), ("mysql://db/x", .notAURL), ("", .notAURL),
        ])
    func refused(text: String, error: PostgreSQLURLError) {
        let thrown = #expect(throws: error) { try PostgreSQLURL(text) }
        #expect(thrown?.description.contains("hunter2") == false)
    }

    @Test(
        "Over TCP only verify-full is secure; a socket is, and a service file is looked at when there is a connection",
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

    @Test("It is named for people by its hosts and its database")
    func named() throws {
        #expect(
            try PostgreSQLURL("postgresql://paytokend@db1,db2/ledger?sslmode=verify-full").server == "db1,db2/ledger")
        #expect(try PostgreSQLURL("postgresql://paytokend@db1:6432/ledger").server == "db1:6432/ledger")
        #expect(try PostgreSQLURL("postgresql://paytokend@db1:1,db2:2/ledger").server == "db1:1,db2:2/ledger")
        #expect(try PostgreSQLURL("postgresql://paytokend@/").server == "local socket/paytokend")
    }
}

import AuditChain
import Foundation
import PostgreSQLClient
import TestSupport
import Testing

@testable import Ledger
@testable import PostgreSQLLedger

/// Failures of the server. Every call ends by its deadline, no transaction is released meanwhile, and the ledger
/// continues without a restart.
@Suite("A PostgreSQL server that fails")
struct ServerFaultTests {
    @Test("loses no call to a server that restarted while it was idle")
    func restarted() async throws {
        let server = try await PostgreSQLServer()
        let fixture = try await PostgreSQLFixture(LedgerDatabases(server: server))
        #expect(try await fixture.release(1).verdict == .released)
        try await server.stop()
        try await server.start()
        #expect(try await fixture.release(2) == RecordedVerdict(.released, sequence: 2))
        try await server.stop(.immediate)
        try await server.start()
        #expect(try await fixture.ledger.head().sequence == 2)
        #expect(try await fixture.release(1, reference: nil).verdict == .replayed)
    }

    @Test("fails calls at once while the server is stopped, and continues afterwards")
    func stopped() async throws {
        let server = try await PostgreSQLServer()
        let fixture = try await PostgreSQLFixture(LedgerDatabases(server: server))
        try await server.stop()
        #expect(try await fixture.begin(1).value().isUnavailable)
        await #expect(throws: LedgerFailure.self) { try await fixture.ledger.probe() }
        await #expect(throws: LedgerFailure.self) { try await fixture.ledger.head() }
        fixture.ledger.note(LedgerFixture.record(of: try fixture.request(1)))
        try await wait(for: "the dropped note") { fixture.events.dropped == 1 }
        try await server.start()
        try await fixture.ledger.probe()
        #expect(try await fixture.release(1) == RecordedVerdict(.released, sequence: 2))
        #expect(try await fixture.ledger.everyEntry().map(\.event) == ["records_dropped", "decrypt"])
    }

    @Test("delays no call past the deadline on a server that does not answer, connecting included")
    func standsStill() async throws {
        let server = try await PostgreSQLServer()
        let fixture = try await PostgreSQLFixture(LedgerDatabases(server: server)) { $0.timeout = .seconds(3) }
        try await server.signalAll(SIGSTOP)
        for number in 1...3 { #expect(try await fixture.begin(number).value().isUnavailable) }
        await #expect(throws: LedgerFailure.self) { try await fixture.ledger.head() }
        try await server.signalAll(SIGCONT)
        try await wait(for: "a probe") { (try? await fixture.ledger.probe()) != nil }
        #expect(try await fixture.release(4).verdict == .released)
        // The refused request may have been committed. It must not be released a second time.
        let verdict = try await fixture.release(1).verdict
        #expect([.released, .repeated].contains(verdict))
    }

    @Test("opens by the deadline too, and reports that another try may help")
    func opening() async throws {
        let server = try await PostgreSQLServer()
        let database = try await LedgerDatabases(server: server).make()
        var settings = PostgreSQLLedger.Settings(url: try database.url(), node: "node-1", timeout: .seconds(1))
        try await server.signalAll(SIGSTOP)
        for isStopped in [false, true] {
            if isStopped {
                try await server.signalAll(SIGCONT)
                try await server.stop()
            }
            let asked = settings
            let error = await #expect(throws: LedgerOpeningError.self) { try await PostgreSQLLedger.open(asked) }
            guard case .unreachable? = error else {
                Issue.record("\(String(describing: error))")
                continue
            }
        }
        try await server.start()
        settings.timeout = .seconds(60)
        try await PostgreSQLLedger.open(settings).close()
    }

    @Test("refuses a connection pooler, recognised by its process numbers")
    func pooler() async throws {
        let fixture = try await PostgreSQLFixture()
        fixture.proxy.fault = .pool
        var settings = fixture.ledger.settings
        settings.node = "node-2"
        let asked = settings
        let error = await #expect(throws: LedgerOpeningError.self) { try await PostgreSQLLedger.open(asked) }
        guard case .cannotOpen? = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(error?.description.contains("connection pooler") == true)
        fixture.proxy.fault = .none
        try await PostgreSQLLedger.open(asked).close()
    }

    @Test("sets what its promises depend on in every session where the URL leaves it open")
    func parameters() throws {
        let url = try PostgreSQLURL("postgresql://db/x?connect_timeout=3&tcp_user_timeout=9")
        let parameters = PostgreSQLSessionRules.parameters(url, timeout: .seconds(10), application: "paytokend node-1")
        #expect(parameters["target_session_attrs"] == "read-write" && parameters["gssencmode"] == "disable")
        #expect(parameters["connect_timeout"] == "3" && parameters["tcp_user_timeout"] == "9")
        let plain = PostgreSQLSessionRules.parameters(
            try PostgreSQLURL("postgresql://db/x"), timeout: .seconds(10), application: "paytokend node-1")
        #expect(plain["tcp_user_timeout"] == "2500")
        for (seconds, milliseconds) in [(1, "1000"), (5, "2000"), (60, "15000")] {
            let parameters = PostgreSQLSessionRules.parameters(
                try PostgreSQLURL("postgresql://db/x"), timeout: .seconds(seconds), application: "paytokend node-1")
            #expect(parameters["tcp_user_timeout"] == milliseconds)
        }
    }

    @Test("releases nothing without a free connection, and continues afterwards")
    func connections() async throws {
        let server = try await PostgreSQLServer()
        let fixture = try await PostgreSQLFixture(LedgerDatabases(server: server))
        try await server.sql("ALTER ROLE \(LedgerDatabases.daemon) CONNECTION LIMIT 0")
        try await fixture.endSessions()
        let answer = try await fixture.begin(1).value()
        #expect(answer.isUnavailable)
        #expect("\(answer)".contains("no connection left"), "\(answer)")
        try await server.sql("ALTER ROLE \(LedgerDatabases.daemon) CONNECTION LIMIT -1")
        #expect(try await fixture.release(1).verdict == .released)
    }

    @Test("releases nothing on a server that takes no writes, and continues afterwards")
    func readOnly() async throws {
        let fixture = try await PostgreSQLFixture { $0.timeout = .seconds(5) }
        let name = fixture.database.name
        try await fixture.database.server.sql("ALTER DATABASE \(name) SET default_transaction_read_only = on")
        try await fixture.endSessions()
        let answer = try await fixture.begin(1).value()
        #expect(answer.isUnavailable, "\(answer)")
        try await fixture.database.server.sql("ALTER DATABASE \(name) RESET default_transaction_read_only")
        try await wait(for: "a probe") { (try? await fixture.ledger.probe()) != nil }
        #expect(try await fixture.release(1).verdict == .released)
    }

    @Test(
        "ends calls by the deadline, with refusals' codes, while another program locks the node's row")
    func lockOnTheNode() async throws {
        let fixture = try await PostgreSQLFixture { $0.timeout = .seconds(8) }
        #expect(try await fixture.release(1).verdict == .released)
        let other = try await fixture.database.session()
        try await other.run("BEGIN")
        try await other.run("SELECT 1 FROM node FOR UPDATE")
        let answer = try await fixture.begin(2).value()
        #expect(answer.isUnavailable && "\(answer)".contains("55P03"), "\(answer)")
        #expect(try await fixture.begin(1, reference: nil).value().get() == RecordedVerdict(.replayed, sequence: nil))
        try await other.run("ROLLBACK")
        #expect(try await fixture.release(2).verdict == .released)
    }

    @Test(
        "lets an undecided claim of another session block its own transaction only, until the deadline")
    func undecidedClaim() async throws {
        let fixture = try await PostgreSQLFixture { $0.timeout = .seconds(8) }
        let other = try await fixture.database.session()
        try await other.run("BEGIN")
        let identifier = try fixture.request(1).transactionId.bytes.map { String(format: "%02x", $0) }.joined()
        try await other.run(
            """
            INSERT INTO claim (transaction_id, public_key_hash, caller, content_digest, attempt, claimed_at, node)
            VALUES ('\\x\(identifier)', '\\x00', 'other', '\\x00', '\\x00', 0, 'node-2')
            """)
        let pause = await WriterPause(fixture.ledger)
        let releases = (1...5).map { fixture.begin($0) }
        try await pause.wait(for: 5)
        pause.end()
        for (number, release) in releases.enumerated() {
            let answer = try await release.value()
            if number == 0 {
                #expect(answer.isUnavailable, "\(answer)")
            } else {
                #expect(try answer.get().verdict == .released)
            }
        }
        try await other.run("COMMIT")
        #expect(try await fixture.release(1).verdict == .replayed)
    }

    @Test("gives up a connection that falls silent after a commit at the deadline, and finds its claim")
    func silence() async throws {
        let fixture = try await PostgreSQLFixture { $0.timeout = .seconds(8) }
        #expect(try await fixture.release(1).verdict == .released)
        fixture.proxy.fault = .silence
        #expect(try await fixture.begin(2).value().isUnavailable)
        fixture.proxy.fault = .none
        try await wait(for: "a probe") { (try? await fixture.ledger.probe()) != nil }
        let verdict = try await fixture.release(2).verdict
        #expect([.released, .repeated].contains(verdict))
        #expect(try await fixture.count("claim") == 2)
    }

    @Test("puts nothing but a code from the server into a failure's reason")
    func reasons() async throws {
        let fixture = try await PostgreSQLFixture()
        try await fixture.database.sql("ALTER TABLE claim ADD CHECK (caller <> 'canary-caller')")
        var request = try fixture.request(1)
        request = Release(
            transactionId: request.transactionId, publicKeyHash: request.publicKeyHash, caller: "canary-caller",
            referenceDigest: nil, contentDigest: request.contentDigest, at: request.at)
        let asked = request
        let error = await #expect(throws: LedgerFailure.self) { try await fixture.ledger.release(asked) }
        let text = "\(error?.description ?? "") \(String(reflecting: error)) \(fixture.events.all)"
        #expect(text.contains("23514"))
        #expect(!text.contains("canary") && !text.contains("INSERT"))
    }
}

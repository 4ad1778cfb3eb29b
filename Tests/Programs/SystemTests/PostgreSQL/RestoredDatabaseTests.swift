import Foundation
import TestSupport
import Testing
import TokenForge

/// A database that is restored, or whose server changes, while several daemons use it.
@Suite struct RestoredDatabaseTests {
    private func configuration(
        _ node: String, _ hsmToken: any WorkersToken, _ database: DaemonDatabase, window: String = "5m"
    ) -> DaemonConfiguration {
        var configuration = DaemonConfiguration()
        configuration.hsmTokens = [TokenEntry("primary", hsmToken)]
        configuration.database = database
        configuration.ledger = ["node: \(node)"]
        configuration.signingTimeWindow = window
        return configuration
    }

    private func reasons(_ harness: DaemonHarness) async throws -> String {
        try await Curl.request("/readyz", socket: harness.socket).text
    }

    /// Returns two stopped daemons, their database in an earlier state, and a payment token whose claim is missing
    /// in that state.
    private func restored(
        _ hsmTokens: [TokenDirectory], window: String = "5m"
    ) async throws -> (nodes: [DaemonHarness], database: DaemonDatabase, forgotten: MintedToken) {
        let server = try await DaemonDatabase.prepared(PostgreSQLServer())
        let database = try await DaemonDatabase(on: server)
        let first = try await DaemonHarness(
            configuration("node-1", hsmTokens[0], database, window: window), merchants: [SharedForge.ecMerchant])
        let second = try await DaemonHarness(prepared: configuration("node-2", hsmTokens[1], database))
        try await second.start()
        for node in [first, second] { #expect(try await node.stop().status == 0) }
        try await server.sql("CREATE DATABASE kept TEMPLATE \(database.name) OWNER \(DaemonDatabase.owner)")
        let forgotten = try SharedForge.paymentToken()
        for node in [first, second] { try await node.start() }
        #expect(try await first.decrypt(forgotten).status == 200)
        for node in [first, second] { #expect(try await node.stop().status == 0) }
        try await server.sql("DROP DATABASE \(database.name)")
        try await server.sql("ALTER DATABASE kept RENAME TO \(database.name)")
        return ([first, second], database, forgotten)
    }

    @Test("detects a restored database on both nodes, and releases nothing until one acceptance of both findings")
    func acceptedOnce() async throws {
        let hsmToken = try await TokenDirectory()
        let (nodes, database, forgotten) = try await restored([hsmToken, hsmToken])
        // Without --await-restore the daemon exits, but its finding remains in the database.
        let refused = try await Program.run(Program.built("paytokend"), ["--config", nodes[1].configurationFile])
        #expect(refused.status == 78, "\(refused)")
        // The third node has a new HSM token, which remembers no head, so this node has no finding.
        let ownHSMToken = try await TokenDirectory()
        defer { withExtendedLifetime([hsmToken, ownHSMToken]) {} }
        let third = try await DaemonHarness(prepared: configuration("node-3", ownHSMToken, database))
        try await third.start(untilReady: false)
        try await nodes[0].start(["--await-restore"], untilReady: false)
        try await nodes[1].start(["--await-restore"], untilReady: false)
        for node in nodes + [third] {
            try await wait(for: "both findings") {
                let text = try await reasons(node)
                return text.contains("node-1: ") && text.contains("node-2: ")
            }
        }
        for node in nodes {
            let held = try await node.decrypt(SharedForge.paymentToken())
            #expect(held.status == 503 && held.code == "ledger_unavailable", "\(held)")
        }
        #expect(try await database.sql("SELECT count(*) FROM hold WHERE accepted_at IS NULL") == "2")

        let accepted = try await nodes[0].paytokenctl(["ledger", "accept-restore", "--reason", "server lost"])
        #expect(accepted.status == 0 && accepted.output.contains("Refuses payment tokens signed before"), "\(accepted)")
        let fence = try await nodes[0].restoreFence()
        // The other nodes adopt the acceptance by themselves.
        #expect(try await nodes[1].restoreFence() == fence)
        #expect(try await third.restoreFence() == fence)
        for token in [forgotten, try SharedForge.paymentToken()] {
            #expect(try await nodes[1].decrypt(token).code == "transaction_replayed")
        }
        for node in nodes {
            #expect(try await node.decrypt(node.paymentToken(signedAt: fence)).status == 200)
            #expect(try await node.paytokenctl(["audit", "verify"]).status == 0)
        }
        let records = try await database.sql(
            "SELECT node FROM audit_record WHERE event = 'ledger_accept_restore' ORDER BY node")
        #expect(records == "node-1\nnode-2")
        #expect(try await database.sql("SELECT count(*) FROM hold") == "0")
        for node in nodes + [third] { #expect(try await node.stop().status == 0) }
        for node in nodes {
            try await node.start(untilReady: false)
            #expect(try await node.restoreFence() == fence)
            #expect(try await node.stop().status == 0)
        }
    }

    @Test("refuses the acceptance with separate HSMs while a node's signing-time window is off")
    func windowOff() async throws {
        let hsmTokens = [try await TokenDirectory(), try await TokenDirectory()]
        defer { withExtendedLifetime(hsmTokens) {} }
        let (nodes, database, _) = try await restored(hsmTokens, window: "off")
        try await nodes[1].start(["--await-restore"], untilReady: false)
        try await wait(for: "its finding") { try await reasons(nodes[1]).contains("is an older copy") }
        let refused = try await nodes[1].paytokenctl(["ledger", "accept-restore", "--reason", "server lost"])
        #expect(refused.status == 1 && refused.error.contains("window"), "\(refused)")
        #expect(refused.error.contains("node-1"), "\(refused)")
        #expect(try await database.sql("SELECT restore_fence IS NULL FROM ledger_state") == "t")
        // Node-1 starts again with a signing-time window. It publishes the window and its own finding.
        try nodes[0].configure(configuration("node-1", hsmTokens[0], database))
        try await nodes[0].start(["--await-restore"], untilReady: false)
        try await wait(for: "the other finding") { try await reasons(nodes[1]).contains("node-1: ") }
        let accepted = try await nodes[1].paytokenctl(["ledger", "accept-restore", "--reason", "server lost"])
        #expect(accepted.status == 0, "\(accepted)")
        for node in nodes {
            _ = try await node.restoreFence()
            #expect(try await node.stop().status == 0)
        }
    }

    @Test("continues on another timeline after all nodes have compared their records, and waits for each node")
    func anotherTimeline() async throws {
        let database = try await DaemonDatabase()
        let hsmTokens = [try await TokenDirectory(), try await TokenDirectory()]
        defer { withExtendedLifetime(hsmTokens) {} }
        let first = try await DaemonHarness(
            configuration("node-1", hsmTokens[0], database), merchants: [SharedForge.ecMerchant])
        let second = try await DaemonHarness(configuration("node-2", hsmTokens[1], database))
        // The third node is only a row with a lease, so it never compares its record.
        try await database.sql(
            """
            INSERT INTO node (name, fence, lease_until, seen_at, version)
            VALUES ('node-3', 1, clock_timestamp() + interval '1 hour', clock_timestamp(), '1');
            UPDATE ledger_state SET timeline = 77; UPDATE node SET timeline = 77
            """)
        for node in [first, second] {
            try await wait(for: "both comparisons") {
                try await reasons(node).contains("not yet: node-3.")
            }
        }
        let held = try await first.decrypt(SharedForge.paymentToken())
        #expect(held.status == 503 && held.code == "ledger_unavailable", "\(held)")
        try await database.sql("UPDATE node SET lease_until = '-infinity' WHERE name = 'node-3'")
        for node in [first, second] { try await node.waitUntilReady() }
        #expect(try await first.decrypt(SharedForge.paymentToken()).status == 200)
        #expect(try await database.sql("SELECT timeline FROM ledger_state") == "1")
        for node in [first, second] { #expect(try await node.stop().status == 0) }
    }

    @Test("stops releases on all nodes if the database becomes older at run time, and accepts it without a restart")
    func olderAtRunTime() async throws {
        let database = try await DaemonDatabase()
        let hsmToken = try await TokenDirectory()
        defer { withExtendedLifetime(hsmToken) {} }
        let first = try await DaemonHarness(
            configuration("node-1", hsmToken, database), merchants: [SharedForge.ecMerchant])
        let second = try await DaemonHarness(configuration("node-2", hsmToken, database))
        let forgotten = try SharedForge.paymentToken()
        #expect(try await first.decrypt(forgotten).status == 200)
        // The deleted rows are commits that a server may lack after a failover.
        try await database.sql(
            """
            DELETE FROM audit_record WHERE node = 'node-1' AND sequence > 2;
            DELETE FROM checkpoint WHERE node = 'node-1' AND sequence > 2; DELETE FROM claim
            """)
        for node in [first, second] {
            try await wait(for: "the finding") { try await reasons(node).contains("Found on node-1") }
            let held = try await node.decrypt(forgotten)
            #expect(held.status == 503 && held.code == "ledger_unavailable", "\(held)")
        }
        let accepted = try await first.paytokenctl(["ledger", "accept-restore", "--reason", "standby promoted"])
        #expect(accepted.status == 0, "\(accepted)")
        let fence = try await second.restoreFence()
        #expect(try await second.decrypt(forgotten).code == "transaction_replayed")
        for node in [first, second] {
            #expect(try await node.decrypt(node.paymentToken(signedAt: fence)).status == 200)
            #expect(try await node.paytokenctl(["audit", "verify"]).status == 0)
            #expect(try await node.stop().status == 0)
        }
        try await first.start(untilReady: false)
        #expect(try await first.restoreFence() == fence)
        #expect(try await first.stop().status == 0)
    }

    @Test("adopts a finding that was made and accepted before the daemon read it")
    func acceptedBeforeNextRead() async throws {
        let database = try await DaemonDatabase()
        let hsmToken = try await TokenDirectory()
        defer { withExtendedLifetime(hsmToken) {} }
        let node = try await DaemonHarness(
            configuration("node-1", hsmToken, database), merchants: [SharedForge.ecMerchant])
        #expect(try await node.decrypt(SharedForge.paymentToken()).status == 200)
        // The daemon reads findings once a second. This statement inserts a finding that has already been accepted.
        try await database.sql(
            """
            INSERT INTO hold (node, kind, ledger_sequence, found_at, accepted_at, accepted_on)
            VALUES ('node-1', 'rolled_back', 1, present(), present(), 'node-2')
            """)
        try await wait(for: "its end") { try await database.sql("SELECT count(*) FROM hold") == "0" }
        let accepted = "event = 'ledger_accept_restore' AND outcome = 'ok' AND node = 'node-1'"
        #expect(try await database.sql("SELECT count(*) FROM audit_record WHERE \(accepted)") == "1")
        try await node.waitUntilReady()
        #expect(try await node.decrypt(SharedForge.paymentToken()).status == 200)
        #expect(try await node.paytokenctl(["audit", "verify"]).status == 0)
        #expect(try await node.stop().status == 0)
    }

    @Test("refuses an acceptance without a finding unless --without-finding is given, and then sets all nodes' fence")
    func withoutFinding() async throws {
        let database = try await DaemonDatabase()
        let hsmTokens = [try await TokenDirectory(), try await TokenDirectory()]
        defer { withExtendedLifetime(hsmTokens) {} }
        let first = try await DaemonHarness(
            configuration("node-1", hsmTokens[0], database), merchants: [SharedForge.ecMerchant])
        let second = try await DaemonHarness(
            configuration("node-2", hsmTokens[1], database), merchants: [SharedForge.ecMerchant])
        let accept = ["ledger", "accept-restore", "--reason", "servers lost"]
        let nothing = try await first.paytokenctl(accept)
        #expect(nothing.status == 1 && nothing.error.contains("there is nothing to accept"), "\(nothing)")
        #expect(try await second.decrypt(SharedForge.paymentToken()).status == 200)
        let accepted = try await first.paytokenctl(accept + ["--without-finding"])
        #expect(accepted.status == 0 && accepted.output.contains("Refuses payment tokens signed before"), "\(accepted)")
        let fence = try await first.restoreFence()
        #expect(try await second.restoreFence() == fence)
        for node in [first, second] {
            #expect(try await node.decrypt(SharedForge.paymentToken()).code == "transaction_replayed")
            #expect(try await node.decrypt(node.paymentToken(signedAt: fence)).status == 200)
            #expect(try await node.paytokenctl(["audit", "verify"]).status == 0)
            #expect(try await node.stop().status == 0)
        }
    }
}

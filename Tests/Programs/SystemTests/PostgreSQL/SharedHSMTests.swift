import Foundation
import TestSupport
import Testing
import TokenForge

/// One HSM that several hosts share, such as a network HSM. Each node must find its own audit key and head in it.
@Suite struct SharedHSMTests {
    private func configuration(
        _ node: String, _ hsmToken: any WorkersToken, _ database: DaemonDatabase
    ) -> DaemonConfiguration {
        var configuration = DaemonConfiguration()
        configuration.hsmTokens = [TokenEntry("primary", hsmToken)]
        configuration.database = database
        configuration.ledger = ["node: \(node)"]
        return configuration
    }

    @Test("serves three nodes with one HSM token and one database, even if a node moves to another host")
    func threeNodes() async throws {
        let (hsmToken, database) = (try await TokenDirectory(), try await DaemonDatabase())
        defer { withExtendedLifetime(hsmToken) {} }
        let first = try await DaemonHarness(
            configuration("node-1", hsmToken, database), merchants: [SharedForge.ecMerchant])
        var nodes = [first]
        for name in ["node-2", "node-3"] {
            nodes.append(try await DaemonHarness(configuration(name, hsmToken, database)))
        }
        let paymentToken = try SharedForge.paymentToken()
        #expect(try await nodes[1].decrypt(paymentToken).status == 200)
        for node in nodes {
            #expect(try await node.decrypt(paymentToken).code == "transaction_replayed")
            #expect(try await node.decrypt(SharedForge.paymentToken()).status == 200)
            #expect(try await node.paytokenctl(["audit", "verify"]).status == 0)
        }
        // Each node has a separate audit key in the ledger. The key's identifier contains a hash of the node's name.
        let keys = try await database.sql("SELECT count(DISTINCT identifier), count(*) FROM audit_key")
        #expect(keys == "3|3")
        let marked = try await database.sql(
            """
            SELECT count(*) FROM audit_key WHERE substr(identifier, 1, 4) = 'node'
            AND substr(identifier, 9) = substr(sha256(convert_to('paytokend audit key of ' || node, 'UTF8')), 1, 8)
            """)
        #expect(marked == "3")
        for node in nodes { #expect(try await node.stop().status == 0) }
        // The nodes start again in another order. Node-2 starts on a new host, which keeps only the node's name.
        let again = try await DaemonHarness(configuration("node-2", hsmToken, database))
        try await nodes[2].start()
        try await nodes[0].start()
        for node in [again, nodes[2], nodes[0]] {
            #expect(try await node.decrypt(SharedForge.paymentToken()).status == 200)
            #expect(try await node.paytokenctl(["audit", "verify"]).status == 0)
            #expect(try await node.stop().status == 0)
        }
        #expect(try await database.sql("SELECT count(*) FROM audit_key") == "3", "no other key was made")
    }

    @Test("detects a lost database on each known node, and then holds the ledger for new nodes too")
    func lostDatabase() async throws {
        let (hsmToken, database) = (try await TokenDirectory(), try await DaemonDatabase())
        defer { withExtendedLifetime(hsmToken) {} }
        let first = try await DaemonHarness(
            configuration("node-1", hsmToken, database), merchants: [SharedForge.ecMerchant])
        let second = try await DaemonHarness(configuration("node-2", hsmToken, database))
        for node in [first, second] { #expect(try await node.stop().status == 0) }

        let empty = try await DaemonDatabase()
        let lost = try await DaemonHarness(prepared: configuration("node-1", hsmToken, empty))
        let refused = try await Program.run(Program.built("paytokend"), ["--config", lost.configurationFile])
        #expect(refused.status == 78 && refused.error.contains("a ledger was lost"), "\(refused)")
        #expect(refused.error.contains("of node node-1"), "\(refused)")

        let new = try await DaemonHarness(prepared: configuration("node-9", hsmToken, empty))
        try await new.start(untilReady: false)
        try await wait(for: "the other node's finding") {
            try await Curl.request("/readyz", socket: new.socket).text.contains("Found on node-1")
        }
        let status = try await new.paytokenctl(["status"])
        #expect(status.status == 1 && status.error.contains("accept-restore"), "\(status)")
        #expect(try await new.stop().status == 0)
    }

    @Test("finds the node of an earlier version's audit key by its heads and the ledger")
    func earlierKeys() async throws {
        let (hsmToken, database) = (try await TokenDirectory(), try await DaemonDatabase())
        defer { withExtendedLifetime(hsmToken) {} }
        // Earlier versions planned an identifier of 16 random bytes, with which the daemon makes the key.
        let identifier = (0..<16).map { _ in UInt8.random(in: 0x80...0xff) }
        let hex = identifier.map { String($0, radix: 16) }.joined()
        try await database.sql(
            "INSERT INTO audit_key (node, ordinal, identifier, planned_at) VALUES ('node-1', 1, '\\x\(hex)', 0)")
        let first = try await DaemonHarness(
            configuration("node-1", hsmToken, database), merchants: [SharedForge.ecMerchant])
        let second = try await DaemonHarness(configuration("node-2", hsmToken, database))
        #expect(try await second.decrypt(SharedForge.paymentToken()).status == 200)
        for node in [first, second] { #expect(try await node.stop().status == 0) }
        try await first.start()
        #expect(try await first.paytokenctl(["audit", "verify"]).status == 0)
        #expect(try await first.stop().status == 0)
        #expect(try await database.sql("SELECT count(*) FROM audit_key WHERE identifier = '\\x\(hex)'") == "1")

        // If the ledger does not know an audit key, the head that this key signed names the key's node.
        let other = try await DaemonDatabase()
        let outsider = try await DaemonHarness(configuration("node-5", hsmToken, other))
        #expect(try await outsider.stop().status == 0)
        let lost = try await DaemonHarness(prepared: configuration("node-1", hsmToken, other))
        let refused = try await Program.run(Program.built("paytokend"), ["--config", lost.configurationFile])
        #expect(refused.status == 78 && refused.error.contains("a ledger was lost"), "\(refused)")
    }
}

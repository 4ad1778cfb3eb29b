import Foundation
import StrictJSON
import TestSupport
import Testing
import TokenForge

/// The status, rotations and certificate expiry of all hosts, which every host must show.
@Suite struct OneViewTests {
    private func merchant(_ name: String, days: Double, on nodes: TwoNodes) async throws -> ForgedMerchant {
        var profile = MerchantCertificateProfile(merchantIdentifier: "merchant.com.example.\(name)")
        profile.notAfter = Date(timeIntervalSinceNow: (days + 0.5) * 86_400)
        let merchant = try ForgedMerchant(authority: SharedForge.authority, type: .p256, profile: profile)
        for daemon in [nodes.first, nodes.second] {
            let imported = try await daemon.importMerchant(merchant)
            try #require(imported.status == 0, "\(imported)")
        }
        return merchant
    }

    private func json(_ daemon: DaemonHarness, _ arguments: String...) async throws -> JSONValue {
        try JSONValue(parsing: try await daemon.paytokenctl(arguments + ["--output", "json"]).outputBytes)
    }

    @Test("shows the server, and each node's version and last activity in the status of both hosts")
    func status() async throws {
        let nodes = try await TwoNodes()
        for daemon in [nodes.first, nodes.second] {
            let status = try await json(daemon, "status")
            let ledger = try #require(status.objectValue?["ledger"])
            let server = try #require(ledger.objectValue?["server"])
            #expect(server.string("role") == DaemonDatabase.daemon && server.string("database") == nodes.database.name)
            #expect(server.string("version") != nil && server.objectValue?["timeline"]?.numberValue?.int == 1)
            let listed = try #require(ledger.objectValue?["nodes"]?.arrayValue)
            #expect(listed.map { $0.string("name") } == ["node-1", "node-2"])
            #expect(
                listed.allSatisfy { $0.string("version") == status.string("version") && $0.string("lastSeen") != nil })
            let table = try await daemon.paytokenctl(["status"]).output
            for words in ["PostgreSQL", "timeline 1", "Standby", "LAST COMMIT", "node-1", "node-2"] {
                #expect(table.contains(words), "\(words): \(table)")
            }
        }
        #expect(try await nodes.second.stop().status == 0)
        let left = try await json(nodes.first, "status").objectValue?["ledger"]?.objectValue?["nodes"]?.arrayValue
        #expect(left?.map { $0.objectValue?["isLeased"]?.boolValue } == [true, false])
        #expect(try await nodes.first.stop().status == 0)
    }

    @Test("counts the payment tokens that all hosts decrypted in a rotation, and those that this host refused")
    func rotation() async throws {
        let nodes = try await TwoNodes()
        let merchant = try await merchant("rotated", days: 300, on: nodes)
        for (daemon, count) in [(nodes.first, 2), (nodes.second, 3)] {
            for _ in 0..<count {
                #expect(try await daemon.decrypt(SharedForge.paymentToken(for: merchant.merchant)).status == 200)
            }
        }
        let refused = try SharedForge.paymentToken(for: merchant.merchant)
        let answer = try await nodes.second.decrypt(refused, expected: #"{"currencyCode":"999"}"#, reference: "r")
        #expect(answer.code == "currency_mismatch", "\(answer)")
        for (daemon, node, count) in [(nodes.first, "node-1", 0), (nodes.second, "node-2", 1)] {
            let shown = try await json(daemon, "rotate", "status", "merchant.com.example.rotated")
            let rotation = try #require(shown.arrayValue?.first)
            let key = try #require(rotation.objectValue?["newKey"]?.objectValue)
            #expect(key["openedLastHour"]?.numberValue?.int == 5, "\(shown)")
            #expect(key["refusedLastHour"]?.numberValue?.int == count, "\(shown)")
            #expect(rotation.string("refusedOn") == node, "\(shown)")
            #expect(try await daemon.stop().status == 0)
        }
    }

    @Test("lists and warns about the same expiring certificates on all hosts that hold the keys")
    func expiry() async throws {
        let nodes = try await TwoNodes()
        for (name, days) in [("soon", 10.0), ("later", 50)] { _ = try await merchant(name, days: days, on: nodes) }
        var seen: [[String]] = []
        for daemon in [nodes.first, nodes.second] {
            let expiring = try await json(daemon, "key", "list", "--expiring", "60d").arrayValue ?? []
            let warnings = try await json(daemon, "status").objectValue?["warnings"]?.arrayValue ?? []
            seen.append(
                expiring.map { ($0.string("merchantIdentifier") ?? "") + " " + ($0.string("notAfter") ?? "") }
                    + warnings.compactMap(\.stringValue).filter { $0.contains("30 days") })
            #expect(try await daemon.stop().status == 0)
        }
        #expect(seen[0] == seen[1] && seen[0].count == 3, "\(seen)")
    }
}

import Foundation
import PortalSimulator
import StrictJSON
import TestSupport
import Testing
import TokenForge

/// A renewal with two nodes that serve payments, and a third that has the key of Apple's API and no merchant's key.
@Suite struct RenewingNodesTests {
    private func proved(_ state: JSONObject, _ member: String) -> [String: Bool] {
        let nodes = (state["nodes"]?.arrayValue ?? []).compactMap(\.objectValue)
        return Dictionary(
            nodes.map { ($0["node"]?.stringValue ?? "", $0[member]?.boolValue ?? false) }, uniquingKeysWith: { $1 })
    }

    @Test("changes nothing at Apple before both nodes have proved the key, and ends after payments on both")
    func portalNode() async throws {
        let (hsmToken, database) = (try await TokenDirectory(), try await DaemonDatabase())
        defer { withExtendedLifetime(hsmToken) {} }
        func configuration(_ node: String) -> DaemonConfiguration {
            var configuration = DaemonConfiguration()
            (configuration.database, configuration.ledger) = (database, ["node: \(node)"])
            return configuration
        }
        func serving(_ node: String) -> DaemonConfiguration {
            var configuration = configuration(node)
            configuration.hsmTokens = [TokenEntry("primary", hsmToken)]
            return configuration
        }
        let merchant = try Portal.forged("node", isDue: true)
        let first = try await DaemonHarness(serving("node-1"), merchants: [merchant])
        let second = try await DaemonHarness(serving("node-2"))
        var without = configuration("portal")
        without.access = ["{ user: \"\(geteuid())\", roles: [admin, audit, portal-read] }"]
        let portal = try await Portal([], configuration: without)
        portal.simulator.set([
            Portal.listed(merchant, [.init(id: "C1", content: merchant.certificate, isActivated: true)])
        ])

        // Only the host with the key of Apple's API renews.
        let elsewhere = try await first.paytokenctl(["rotate", "renew", merchant.merchant.identifier, "--yes"])
        #expect(elsewhere.status == 1 && elsewhere.error.contains("section renewal"), "\(elsewhere)")
        let early = try await portal.renew(merchant, ["--yes"])
        #expect(early.status == 1 && early.error.contains("rotate start"), "\(early)")
        let started = try await first.paytokenctl([
            "rotate", "start", merchant.merchant.identifier, "--out", first.directory.path("new.csr"),
        ])
        try #require(started.status == 0, "\(started)")
        #expect(try await second.stop().status == 0)
        try await wait(for: "the proof of node-1") {
            let state = try await portal.reach("prove", of: merchant)
            #expect(proved(state, "required") == ["node-1": true, "node-2": true, "portal": false])
            #expect(proved(state, "up") == ["node-1": true, "node-2": false, "portal": true])
            for node in state["nodes"]?.arrayValue ?? [] { #expect(node.objectValue?["lastSeen"] != nil) }
            return proved(state, "proved")["node-1"] == true
        }
        #expect(try await portal.approve(merchant)["step"]?.stringValue == "prove")
        // A person may go on without the node, by its name.
        let alone = try await portal.reach("create", of: merchant, #","excludeNodes":["node-2"]"#)
        #expect(alone["nextChange"]?.objectValue?["excludedNodes"]?.arrayValue?.map(\.stringValue) == ["node-2"])
        #expect(try await portal.approve(merchant)["step"]?.stringValue == "prove" && portal.writes == [])
        // A node that is up is not excluded, and a node whose proof is not needed is not named.
        let both = try await portal.reach("create", of: merchant, #","excludeNodes":["node-1","node-2"]"#)
        #expect(both["next"]?.stringValue?.contains("up: node-1.") == true)
        for other in ["portal", "node-3"] {
            let answer = try await portal.post(merchant, #","excludeNodes":["\#(other)"]"#)
            #expect(answer.status == 400 && answer.text.contains(other), "\(answer)")
        }

        try await second.start()
        try await portal.reach("create", of: merchant)
        try await portal.approve(merchant)
        let state = try await portal.reach("activate", of: merchant)
        #expect(proved(state, "provedWithCertificate") == ["node-1": true, "node-2": true, "portal": false])
        // A node that is up is not excluded, so an approval without it begins nothing.
        let included = try await portal.reach("activate", of: merchant, #","excludeNodes":["node-2"]"#)
        #expect(included["next"]?.stringValue?.contains("up: node-2") == true)
        try await portal.approve(merchant)
        try await portal.reach("watch", of: merchant)
        #expect(portal.writes == ["POST", "PATCH"])

        let new = try Merchant(certificate: portal.certificates[1].content)
        #expect(try await first.decrypt(SharedForge.paymentToken(for: new)).status == 200)
        let stated = try await portal.renew(merchant, ["--test-payment-made"])
        #expect(stated.status == 75, "node-2 has opened no payment token: \(stated)")
        // The activation was approved with all nodes, so none is left out of its end.
        let excluding = try await portal.renew(merchant, ["--exclude-node", "node-2", "--test-payment-made"])
        #expect(excluding.status == 75 && excluding.output.contains(#""step":"watch""#), "\(excluding)")
        #expect(try await portal.keyState(merchant.hex) == "active")
        #expect(try await second.decrypt(SharedForge.paymentToken(for: new)).status == 200)
        let done = try await portal.renew(merchant, ["--test-payment-made"])
        #expect(done.status == 0, "\(done)")
        #expect(try await portal.keyState(merchant.hex) == "deactivated")
        for node in [portal.harness, first, second] {
            let verified = try await node.paytokenctl(["audit", "verify"])
            #expect(verified.status == 0, "\(verified)")
        }
    }
}

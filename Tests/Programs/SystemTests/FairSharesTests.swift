import Foundation
import StrictJSON
import TestSupport
import Testing
import TokenForge

/// Two callers with different access rules, one of which floods the daemon.
@Suite struct FairSharesTests {
    private static let flood = PeerIdentity(uid: 12351, gid: 12351)
    private static let shop = PeerIdentity(uid: 12352, gid: 12352)
    /// The number of simultaneous requests of the flooding caller.
    private static let width = 80

    /// Sends one body repeatedly, and returns when all requests have been answered.
    private func send(
        _ body: String, times: Int, width: Int, _ harness: DaemonHarness, as identity: PeerIdentity
    ) async throws {
        let files = try FreshDirectory()
        try files.open()
        try files.write(Array(body.utf8), to: "body", mode: 0o644)
        var lines = ["silent", "show-error"]
        if width > 1 { lines += ["parallel", "parallel-immediate", "parallel-max = \(width)"] }
        for number in 0..<times {
            if number > 0 { lines.append("next") }
            lines += [
                "unix-socket = \"\(harness.socket)\"", "header = \"Content-Type: application/json\"",
                "header = \"Expect:\"", "data-binary = \"@\(files.path("body"))\"", "output = \"/dev/null\"",
                "max-time = 100", "url = \"http://localhost/v1/decrypt\"",
            ]
        }
        try files.write(Array((lines.joined(separator: "\n") + "\n").utf8), to: "requests", mode: 0o644)
        _ = try await identity.run(Program.installed("curl"), ["--config", files.path("requests")], within: 180)
    }

    /// Returns a request that may be sent repeatedly. It uses the HSM token but claims nothing, because it expects
    /// another amount.
    private func body() throws -> String {
        let paymentToken = try SharedForge.paymentToken()
        return String(decoding: paymentToken.decryptBody(expected: "{\"transactionAmount\":1}"), as: UTF8.self)
    }

    @Test(
        "delays a caller's request by only a few calls of a flooding caller, not by its whole queue",
        .enabled(if: PeerIdentity.available, "only root can connect as other accounts"))
    func floodOfOneCaller() async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory())
        var configuration = DaemonConfiguration()
        configuration.listener = ["mode: \"0666\""]
        configuration.access = [
            "{ name: flood, user: \"12351\", roles: [decrypt] }", "{ name: shop, user: \"12352\", roles: [decrypt] }",
            "{ user: root, roles: [decrypt, admin, audit] }",
        ]
        configuration.hsmTokens = [TokenEntry("primary", hsmToken, ["sessions: 1"])]
        let harness = try await DaemonHarness(configuration, merchants: [SharedForge.ecMerchant])
        try harness.directory.open()
        try hsmToken.play("fault C_DeriveKey always delay=20")
        let (flood, shop) = (try body(), try body())
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await send(flood, times: 700, width: Self.width, harness, as: Self.flood) }
            group.addTask {
                try await wait(for: "the flood") {
                    try await StoredRecords.all(in: harness).count { name($0) == "flood" } >= Self.width
                }
                try await send(shop, times: 5, width: 1, harness, as: Self.shop)
            }
            try await group.waitForAll()
        }
        let names = try await StoredRecords.all(in: harness).map(name)
        #expect(names.count { $0 == "flood" } == 700)
        let places = names.indices.filter { names[$0] == "shop" }
        try #require(places.count == 5)
        try #require(names[places[4]...].contains("flood"), "the flood was over before")
        // The shop sends each request as soon as the previous one is answered. The number of the flood's records
        // between two of the shop's records shows how many of the flood's calls were served before the shop's next
        // one.
        let between = zip(places, places.dropFirst()).map { $1 - $0 - 1 }.sorted()
        #expect(between[1] < Self.width / 2, "\(between) of the flood's calls came before the shop's next")
        #expect(try await harness.stop().status == 0)
    }

    private func name(_ record: JSONValue) -> String? {
        record.objectValue?["caller"]?.objectValue?["name"]?.stringValue
    }
}

import Foundation
import StrictJSON
import TestSupport
import Testing

/// A ledger file with keys and claims of Google Pay, moved into PostgreSQL by the real programs.
extension GooglePayDecryptionTests {
    /// Returns state, cut-off and use of each key, by its hash in base64.
    private func keys(_ harness: DaemonHarness) async throws -> [String: [String?]] {
        let listed = try await harness.paytokenctl(["key", "list", "--output", "json"])
        try #require(listed.status == 0, "\(listed)")
        let keys = try #require(JSONValue(parsing: listed.outputBytes).arrayValue)
        return keys.reduce(into: [:]) { found, key in
            found[key.string("publicKeyHash") ?? ""] = ["state", "cutOff", "use"].map { key.string($0) }
        }
    }

    /// Moves a stopped host's ledger file into a database, and starts the host with it.
    private func move(_ harness: DaemonHarness, into database: DaemonDatabase) async throws {
        let moved = try await Program.run(
            Program.built("paytokenctl"),
            [
                "ledger", "move", "--from", "sqlite:\(harness.directory.path("ledger.sqlite"))", "--to",
                database.server.url(database.name, user: DaemonDatabase.owner),
            ])
        try #require(moved.status == 0, "\(moved)")
        let yaml = try String(contentsOfFile: harness.configurationFile, encoding: .utf8)
        try harness.directory.write(
            yaml.replacing("url: sqlite:ledger.sqlite", with: "url: \"\(database.url)\""), to: "paytokend.yaml")
        try await harness.start()
    }

    @Test("moves keys with state and cut-off into PostgreSQL, and each message stays released once")
    func moved() async throws {
        let database = try await DaemonDatabase()
        var configuration = DaemonConfiguration()
        configuration.ledger = ["node: host-1"]
        let harness = try await daemon(configuration)
        let (retired, serving) = (try await key(harness), try await key(harness))
        let first = try message(to: retired.point, messageId: "one").json
        let second = try message(to: serving.point, messageId: "two").json
        for (message, order) in [(first, "order-1"), (second, "order-2")] {
            #expect(try await decrypt(message, harness, reference: order).status == 200)
        }
        let removed = try await harness.paytokenctl(["rotate", "removed", retired.hash, "--force"])
        #expect(removed.status == 0, "\(removed)")
        let waiting = try await newKey(harness)
        let proved = try await harness.paytokenctl(["key", "prove", waiting.hash])
        #expect(proved.status == 0, "\(proved)")
        let before = try await keys(harness)
        #expect(Set(before.values.map { $0[0] }) == ["deactivated", "active", "pre-activation"], "\(before)")
        #expect(before.values.count { $0[1] != nil } == 1 && before.values.allSatisfy { $0[2] == "google-pay" })
        #expect(try await harness.stop().status == 0)

        try await move(harness, into: database)
        #expect(try await keys(harness) == before)
        for (message, order) in [(first, "order-1"), (second, "order-2")] {
            let replay = try await decrypt(message, harness, reference: "another")
            #expect(replay.status == 409 && replay.code == "transaction_replayed", "\(replay)")
            #expect(try await decrypt(message, harness, reference: order).member("repeated") == .bool(true))
        }
        // A new message with a known messageId is a replay, with whichever key.
        for key in [retired, serving] {
            for name in ["one", "two"] {
                let twin = try message(to: key.point, messageId: name).json
                #expect(try await decrypt(twin, harness).code == "transaction_replayed")
            }
        }
        // The key whose cut-off is to come still opens late messages; the one that waits opens none.
        #expect(try await decrypt(message(to: retired.point, messageId: "three").json, harness).status == 200)
        #expect(
            try await decrypt(message(to: waiting.point, messageId: "four").json, harness).code == "decryption_failed")

        // The proof was moved with the record.
        let added = try await harness.paytokenctl(["rotate", "added", waiting.hash])
        #expect(added.status == 0, "\(added)")
        #expect(try await decrypt(message(to: waiting.point, messageId: "five").json, harness).status == 200)
        let inUse = try await harness.paytokenctl(["rotate", "removed", serving.hash])
        #expect(inUse.status == 1 && inUse.error.contains("counts as unused from"), "\(inUse)")
        let verified = try await harness.paytokenctl(["audit", "verify"])
        #expect(verified.status == 0, "\(verified)")
        #expect(try await harness.stop().status == 0)
    }

    @Test("finds a used key in use after a move, although the ledger got it longer ago than the quiet time")
    func movedUse() async throws {
        let database = try await DaemonDatabase()
        var configuration = DaemonConfiguration()
        configuration.ledger = ["node: host-1"]
        let harness = try await daemon(configuration)
        let (quiet, used) = (try await key(harness), try await key(harness))
        #expect(try await harness.stop().status == 0)
        for key in [quiet, used] { try await age(key.hash, days: 60, harness) }
        try await harness.start()
        #expect(try await decrypt(message(to: used.point, messageId: "one").json, harness).status == 200)
        let new = try await key(harness)
        #expect(try await decrypt(message(to: new.point, messageId: "two").json, harness).status == 200)
        #expect(try await harness.stop().status == 0)

        try await move(harness, into: database)
        let refused = try await harness.paytokenctl(["rotate", "removed", used.hash])
        #expect(refused.status == 1 && refused.error.contains("counts as unused from"), "\(refused)")
        let removed = try await harness.paytokenctl(["rotate", "removed", quiet.hash])
        #expect(removed.status == 0, "\(removed)")
        #expect(try await harness.stop().status == 0)
    }
}

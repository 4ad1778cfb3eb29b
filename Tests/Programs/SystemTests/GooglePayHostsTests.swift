import Foundation
import StrictJSON
import TestSupport
import Testing

/// Keys of Google Pay on two hosts with one ledger in PostgreSQL, with the real programs.
extension GooglePayDecryptionTests {
    /// Starts a host.
    ///
    /// - Parameter hsmToken: an HSM token that several hosts share; nil for one of the host's own.
    func host(
        _ name: String, _ database: DaemonDatabase, _ hsmToken: TokenDirectory? = nil
    ) async throws -> DaemonHarness {
        var configuration = DaemonConfiguration()
        if let hsmToken { configuration.hsmTokens = [TokenEntry("primary", hsmToken)] }
        configuration.database = database
        configuration.ledger = ["node: \(name)"]
        return try await daemon(configuration)
    }

    @Test("leaves out a host that has not proved a new key by its name only, and the record names that host")
    func excludedNode() async throws {
        let database = try await DaemonDatabase()
        let first = try await host("host-1", database)
        let second = try await host("host-2", database)
        let made = try await newKey(first)
        let proved = try await first.paytokenctl(["key", "prove", made.hash])
        #expect(proved.status == 0, "\(proved)")
        func added(_ excluded: String...) async throws -> ProgramResult {
            try await first.paytokenctl(["rotate", "added", made.hash] + excluded.flatMap { ["--exclude-node", $0] })
        }
        let unproved = try await added()
        #expect(unproved.status == 1 && unproved.error.contains("would fail there: host-2."), "\(unproved)")
        let other = try await added("host-1")
        #expect(other.status == 1 && other.error.contains("would fail there: host-2."), "\(other)")
        let unknown = try await added("host-2", "host-3")
        #expect(unknown.status == 1 && unknown.error.contains("cannot be excluded: host-3"), "\(unknown)")
        let all = try await added("host-1", "host-2")
        #expect(all.status == 1 && all.error.contains("At least one node must have proved the key"), "\(all)")
        let early = try message(to: made.point, messageId: "one").json
        #expect(try await decrypt(early, first).code == "key_not_active")

        let done = try await added("host-2")
        #expect(done.status == 0, "\(done)")
        let records = try await first.paytokenctl(["audit", "list", "--key", made.hash, "--output", "json"])
        let changes = (try JSONValue(parsing: records.outputBytes).arrayValue ?? []).filter {
            $0.string("event") == "key_state_change"
        }
        #expect(
            changes.filter { $0.string("outcome") == "ok" }.map { $0.string("reason") }
                == ["without host-2: added in Google's console"], "\(records)")
        #expect(changes.count { $0.string("outcome") != "ok" } == 4, "\(records)")
        #expect(try await decrypt(early, first).status == 200)
        // The other host knows the key from the ledger, and has it in no HSM token.
        let late = try message(to: made.point, messageId: "two").json
        try await wait(for: "the other host's list") {
            try await decrypt(late, second).code == "hsm_unavailable"
        }
        for host in [first, second] {
            let verified = try await host.paytokenctl(["audit", "verify"])
            #expect(verified.status == 0, "\(verified)")
            #expect(try await host.stop().status == 0)
        }
    }

    @Test("finds a key that another host made in the shared HSM, proves it and serves it without a restart")
    func foundKey() async throws {
        let (hsmToken, database) = (try await TokenDirectory(), try await DaemonDatabase())
        defer { withExtendedLifetime(hsmToken) {} }
        let first = try await host("host-1", database, hsmToken)
        let second = try await host("host-2", database, hsmToken)
        let made = try await newKey(first)
        try await wait(for: "the other host to find the key") {
            let shown = try await second.paytokenctl(["key", "show", made.hash, "--output", "json"])
            guard shown.status == 0 else { return false }
            return try JSONValue(parsing: shown.outputBytes).objectValue?["tokens"]?.arrayValue == [.string("primary")]
        }
        for host in [first, second] {
            let proved = try await host.paytokenctl(["key", "prove", made.hash])
            #expect(proved.status == 0, "\(proved)")
        }
        let added = try await second.paytokenctl(["rotate", "added", made.hash])
        #expect(added.status == 0, "\(added)")
        #expect(try await decrypt(message(to: made.point, messageId: "one").json, second).status == 200)
        for host in [first, second] { #expect(try await host.stop().status == 0) }
    }
}

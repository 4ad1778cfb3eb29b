import Foundation
import GRDB
import StrictJSON
import TestSupport
import Testing

/// A rotation of Google Pay keys with the real programs.
extension GooglePayDecryptionTests {
    private func publicKey(_ harness: DaemonHarness, of merchant: String = merchant) async throws -> CurlAnswer {
        try await Curl.request("/v1/google-pay/public-key?merchantIdentifier=\(merchant)", socket: harness.socket)
    }

    func rotation(_ harness: DaemonHarness) async throws -> JSONValue {
        let shown = try await harness.paytokenctl(["rotate", "status", Self.merchant, "--output", "json"])
        try #require(shown.status == 0, "\(shown)")
        return try #require(JSONValue(parsing: shown.outputBytes).arrayValue?.first)
    }

    /// Sets the time at which a key came into a stopped daemon's ledger.
    func age(_ hash: String, days: Int, _ harness: DaemonHarness) async throws {
        if let database = harness.database {
            let changed = try await database.sql(
                """
                UPDATE merchant_key SET created_at = created_at - \(days * 86_400_000)
                WHERE encode(public_key_hash, 'hex') = '\(hash)' RETURNING 'changed'
                """)
            #expect(changed == "changed")
            return
        }
        let ledger = try DatabaseQueue(path: harness.directory.path("ledger.sqlite"))
        try await ledger.write {
            try $0.execute(
                sql: "UPDATE merchant_key SET created_at = created_at - ? WHERE hex(public_key_hash) = ?",
                arguments: [days * 86_400_000, hash.uppercased()])
            #expect($0.changesCount == 1)
        }
        try ledger.close()
    }

    @Test(
        "leads from one key to the next: proved, added, switched, removed, with a cut-off that Google asks for",
        .everyEngine)
    func rotation() async throws {
        let harness = try await daemon()
        #expect(try await publicKey(harness).code == "unknown_public_key_hash")
        #expect(try await publicKey(harness, of: "BCR2OTHER").code == "forbidden")
        #expect(
            try await Curl.request("/v1/google-pay/public-key", socket: harness.socket).code == "malformed_request")
        let old = try await newKey(harness)
        #expect(try await publicKey(harness).code == "key_not_active")
        try await activate(old.hash, harness)
        let point = { (bytes: [UInt8]) in JSONValue.string(Data(bytes).base64EncodedString()) }
        #expect(try await publicKey(harness).member("point") == point(old.point))

        let start = ["rotate", "start", Self.merchant, "--wallet", "google-pay"]
        let dry = try await harness.paytokenctl(start + ["--dry-run"])
        #expect(dry.status == 0 && dry.error.contains("the new key can be made"), "\(dry)")
        let started = try await harness.paytokenctl(start)
        #expect(started.status == 0 && started.output.contains("Next: Prove the new key on"), "\(started)")
        let again = try await harness.paytokenctl(start)
        #expect(again.status == 0 && again.error.contains("No key was made"), "\(again)")
        let waiting = try await rotation(harness)
        #expect(waiting.string("phase") == "proof")
        let base64 = try #require(waiting.objectValue?["newKey"]?.string("publicKeyHash"))
        let new = Array(try #require(Data(base64Encoded: base64))).hexadecimal
        let early = try await harness.paytokenctl(["rotate", "added", new])
        #expect(early.status == 1 && early.error.contains("have not proved the key"), "\(early)")
        let resumed = try await harness.paytokenctl(["key", "resume", new, "--reason", "early"])
        #expect(resumed.status == 1 && resumed.error.contains("every node has proved it"), "\(resumed)")
        let proved = try await harness.paytokenctl(["key", "prove", new])
        #expect(proved.status == 0, "\(proved)")
        #expect(try await rotation(harness).string("phase") == "console")
        // Google's console does not have the new key yet.
        #expect(try await publicKey(harness).member("point") == point(old.point))
        let tried = try await harness.paytokenctl(["rotate", "added", new, "--dry-run"])
        #expect(tried.status == 0 && tried.output.contains("active"), "\(tried)")
        #expect(try await rotation(harness).string("phase") == "console")
        let added = try await harness.paytokenctl(["rotate", "added", new])
        #expect(
            added.status == 0 && added.output.contains("Next: Have site and apps send the new public key"), "\(added)")
        let twice = try await harness.paytokenctl(["rotate", "added", new])
        #expect(twice.status == 1 && twice.error.contains("The key is active"), "\(twice)")
        let printed = try await publicKey(harness)
        #expect(printed.member("publicKeyHash")?.stringValue == base64)
        let newPoint = try #require(printed.member("point")?.stringValue.flatMap { Data(base64Encoded: $0) })

        let unproven = try await harness.paytokenctl(["rotate", "removed", old.hash])
        #expect(unproven.status == 1 && unproven.error.contains("counts as unused from"), "\(unproven)")
        #expect(try await decrypt(message(to: Array(newPoint), messageId: "one").json, harness).status == 200)
        #expect(try await rotation(harness).string("phase") == "overlap")
        let apple = try await harness.paytokenctl(["rotate", "finish", Self.merchant])
        #expect(apple.status == 1, "\(apple)")
        let short = try await harness.paytokenctl(["rotate", "removed", old.hash, "--force", "--cut-off", "7d"])
        #expect(short.status == 1 && short.error.contains("for eight days"), "\(short)")
        let newest = try await harness.paytokenctl(["rotate", "removed", new, "--force"])
        #expect(newest.status == 1 && newest.error.contains("is not an active key"), "\(newest)")
        let removed = try await harness.paytokenctl([
            "rotate", "removed", old.hash, "--force", "--cut-off", "3650d", "--dry-run",
        ])
        #expect(removed.status == 1 && removed.error.contains("at most 90 days"), "\(removed)")
        let wrongYear = try await harness.paytokenctl([
            "rotate", "removed", old.hash, "--force", "--at", "2020-01-31T12:00:00Z",
        ])
        #expect(wrongYear.status == 1 && wrongYear.error.contains("came into the ledger"), "\(wrongYear)")
        let done = try await harness.paytokenctl(["rotate", "removed", old.hash, "--force", "--output", "json"])
        #expect(done.status == 0, "\(done)")
        let answer = try JSONValue(parsing: done.outputBytes)
        #expect(answer.objectValue?["rotation"]?.string("phase") == "cut-off")
        let records = try await harness.paytokenctl(["audit", "list", "--key", old.hash, "--output", "json"])
        let change = try #require(
            JSONValue(parsing: records.outputBytes).arrayValue?.first {
                $0.string("event") == "key_state_change" && $0.string("to") == "deactivated"
                    && $0.string("outcome") == "ok"
            })
        let removedAt = try #require(change.string("removedAt").flatMap { try? Date($0, strategy: Self.time) })
        let cutOff = try #require(change.string("cutOff").flatMap { try? Date($0, strategy: Self.time) })
        #expect(cutOff.timeIntervalSince(removedAt) == 10 * 86_400)
        #expect(change.string("from") == "active" && change.string("reason") == "removed in Google's console")
        // An app in the field still sends the old key.
        #expect(try await decrypt(message(to: old.point, messageId: "two").json, harness).status == 200)
        let verified = try await harness.paytokenctl(["audit", "verify"])
        #expect(verified.status == 0, "\(verified)")
        #expect(try await harness.stop().status == 0)
    }

    private static let time = Date.ISO8601FormatStyle(includingFractionalSeconds: true)

    @Test("reminds of a key that is nearly a year old, and takes the removal of a quiet one without force")
    func aging() async throws {
        let harness = try await daemon()
        let old = try await key(harness)
        #expect(try await harness.stop().status == 0)
        try await age(old.hash, days: 355, harness)
        try await harness.start()
        let status = try await harness.paytokenctl(["status"])
        #expect(
            status.error.contains("\(Self.merchant) (\(old.hash.prefix(8))) will be a year old within 15 days"),
            "\(status)")
        let due = try await harness.metric("paytokend_google_pay_key_due_seconds", "public_key_hash=\"\(old.hash)\"")
        #expect(due.count == 1 && abs((due.first ?? 0) - Date().timeIntervalSince1970 - 10 * 86_400) < 3_600, "\(due)")
        let shown = try await harness.paytokenctl(["rotate", "status", Self.merchant])
        #expect(shown.output.contains("Google asks for a new key each year"), "\(shown)")
        // The list agrees with the metric: the key is a year old in ten days.
        func expiring(_ within: String) async throws -> (status: Int32, hashes: [String?]) {
            let list = try await harness.paytokenctl(["key", "list", "--expiring", within, "--output", "json"])
            let keys = try JSONValue(parsing: list.outputBytes).arrayValue ?? []
            let hashes = keys.map { $0.string("publicKeyHash").flatMap { Data(base64Encoded: $0) } }
            return (list.status, hashes.map { $0.map { Array($0).hexadecimal } })
        }
        #expect(try await expiring("11d") == (1, [old.hash]))
        #expect(try await expiring("9d") == (0, []))

        let new = try await key(harness)
        let replaced = try await harness.paytokenctl(["status"])
        #expect(!replaced.error.contains("a year old"), "\(replaced)")
        #expect(try await expiring("60d") == (0, []))
        #expect(
            try await harness.metric("paytokend_google_pay_key_due_seconds", "public_key_hash=\"\(old.hash)\"").isEmpty)
        #expect(try await decrypt(message(to: new.point, messageId: "one").json, harness).status == 200)
        let quiet = try await rotation(harness)
        #expect(quiet.string("phase") == "finish")
        let removed = try await harness.paytokenctl(["rotate", "removed", String(old.hash.prefix(16))])
        #expect(removed.status == 0, "\(removed)")
        #expect(try await publicKey(harness).member("point")?.stringValue == Data(new.point).base64EncodedString())
        #expect(try await harness.stop().status == 0)
    }

    @Test("stops no key at once that is in use, although the stated removal is long ago")
    func removedLongAgo() async throws {
        let harness = try await daemon()
        let old = try await key(harness)
        #expect(try await harness.stop().status == 0)
        try await age(old.hash, days: 60, harness)
        try await harness.start()
        let new = try await key(harness)
        for (point, name) in [(new.point, "one"), (old.point, "two")] {
            #expect(try await decrypt(message(to: point, messageId: name).json, harness).status == 200)
        }
        let before = Date(timeIntervalSinceNow: -20 * 86_400).formatted(.iso8601)
        let stopped = try await harness.paytokenctl(["rotate", "removed", old.hash, "--force", "--at", before])
        #expect(stopped.status == 1 && stopped.error.contains("counts as unused from"), "\(stopped)")
        let removed = try await harness.paytokenctl(["rotate", "removed", old.hash, "--force"])
        #expect(removed.status == 0, "\(removed)")
        #expect(try await decrypt(message(to: old.point, messageId: "three").json, harness).status == 200)
        #expect(try await harness.stop().status == 0)
    }
}

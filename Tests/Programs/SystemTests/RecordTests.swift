import Foundation
import GRDB
import StrictJSON
import TestSupport
import Testing
import TokenForge

/// The daemon's audit record, as an auditor reads it.
@Suite struct RecordTests {
    private func records(_ harness: DaemonHarness, _ filter: [String] = []) async throws -> [JSONObject] {
        let list = try await harness.paytokenctl(["audit", "list", "--limit", "1000", "--output", "json"] + filter)
        #expect(list.status == 0, "\(list)")
        return try (JSONValue(parsing: list.outputBytes).arrayValue ?? []).compactMap(\.objectValue)
    }

    private func place(_ answer: CurlAnswer) -> String? {
        answer.member("audit")?.objectValue?["sequence"]?.numberValue?.text
    }

    @Test(
        "returns the sequence number of the audit record with a release, a repeat and a refusal",
        .everyEngine)
    func sequenceNumbers() async throws {
        let harness = try await DaemonHarness(merchants: [SharedForge.ecMerchant])
        let paymentToken = try SharedForge.paymentToken()
        let answers = [
            try await harness.decrypt(paymentToken, reference: "order-1"),
            try await harness.decrypt(paymentToken, reference: "order-1"),
            try await harness.decrypt(paymentToken, reference: "order-2"), try await harness.decrypt(Array("{".utf8)),
        ]
        let found = try await records(harness)
        for (answer, outcome) in zip(answers, ["ok", "repeat", "transaction_replayed", "malformed_request"]) {
            let sequence = try #require(place(answer), "\(answer)")
            let record = try #require(found.first { $0["sequence"]?.numberValue?.text == sequence })
            #expect(record["event"]?.stringValue == "decrypt")
            #expect(record["outcome"]?.stringValue == outcome)
            #expect(record["caller"]?.objectValue?["uid"]?.numberValue?.text == String(getuid()))
            guard outcome != "malformed_request" else { continue }
            #expect(record["publicKeyHash"]?.stringValue == Data(paymentToken.publicKeyHash).base64EncodedString())
            #expect(record["transactionId"]?.stringValue?.count == 64)
        }
        #expect(try await harness.stop().status == 0)
    }

    @Test(
        "records start, configuration, audit key, import and stop in a chain that both verifiers accept",
        .everyEngine)
    func dayInTheRecord() async throws {
        let harness = try await DaemonHarness(merchants: [SharedForge.ecMerchant])
        #expect(try await harness.stop().status == 0)
        try await harness.start()
        // The daemon records what the HSM token shows whenever a reading is complete, perhaps after the next event.
        let events = try await records(harness, []).reversed().compactMap { $0["event"]?.stringValue }
            .filter { !$0.hasSuffix("_attributes") }
        #expect(
            events == [
                "start", "configuration_load", "configuration_values", "audit_key_change", "key_import", "stop",
                "start", "configuration_load", "configuration_values",
            ])
        let live = try await harness.paytokenctl(["audit", "verify"])
        #expect(live.status == 0 && live.output.hasPrefix("intact"), "\(live)")
        let (export, key) = (harness.directory.path("record.jsonl"), harness.directory.path("key.pem"))
        #expect(try await harness.paytokenctl(["audit", "export", "--out", export]).status == 0)
        try harness.directory.write(try await harness.paytokenctl(["audit", "public-key"]).outputBytes, to: "key.pem")
        let ours = try await harness.paytokenctl(["audit", "verify", "--export", export, "--public-key", key])
        #expect(ours.status == 2 && ours.output.hasPrefix("intact"), "\(ours)")
        let script = ProjectFiles.path("scripts/verify-audit")
        let theirs = try await Program.run(script, [export, key])
        #expect(theirs.status == 2 && theirs.output.hasPrefix("intact"), "\(theirs)")
        // The test changes a single byte.
        var changed = try Data(contentsOf: URL(filePath: export))
        let position = try #require(changed.range(of: Data("key_import".utf8))?.lowerBound)
        changed[position] = UInt8(ascii: "K")
        try changed.write(to: URL(filePath: export))
        #expect(
            try await harness.paytokenctl(["audit", "verify", "--export", export, "--public-key", key]).status == 1)
        #expect(try await Program.run(script, [export, key]).status == 1)
        #expect(try await harness.stop().status == 0)
    }

    @Test(
        "records the access rules at a start and at a reload that adds one, and both verifiers accept them",
        .everyEngine)
    func configurations() async throws {
        let me = geteuid()
        var configuration = DaemonConfiguration()
        configuration.access = [
            "{ name: everything, user: \"\(me)\", roles: [decrypt, session, monitor, audit, admin] }"
        ]
        let harness = try await DaemonHarness(configuration)
        func recorded() async throws -> [JSONObject] {
            try await records(harness).reversed().filter {
                $0["event"]?.stringValue?.hasPrefix("configuration_") == true
            }
        }
        func value(_ name: String, _ record: JSONObject?) -> String? {
            record?["values"]?.objectValue?[name]?.stringValue
        }
        let started = try await recorded()
        #expect(started.compactMap { $0["event"]?.stringValue } == ["configuration_load", "configuration_values"])
        #expect(value("access.1.name", started.last) == "everything" && value("access.2.name", started.last) == nil)
        #expect(value("access.1.uid", started.last) == String(me))
        #expect(value("approvals.people", started.last) == "1")

        configuration.access.append(
            "{ name: night-shift, user: \"12345\", roles: [decrypt], merchants: [\"merchant.com.example.*\"] }")
        try harness.configure(configuration)
        try harness.daemon.signal(SIGHUP)
        try await wait(for: "the reload") { try harness.daemon.error.contains("configuration reloaded") }
        let reloaded = Array(try await recorded().dropFirst(started.count))
        #expect(reloaded.compactMap { $0["event"]?.stringValue } == ["configuration_reload", "configuration_values"])
        #expect(value("access.1.name", reloaded.last) == "everything")
        #expect(
            value("access.2.name", reloaded.last) == "night-shift" && value("access.2.uid", reloaded.last) == "12345")
        #expect(value("access.2.roles", reloaded.last) == "decrypt")
        #expect(value("access.2.merchants", reloaded.last) == "merchant.com.example.*")
        #expect(reloaded.first?["fileSha256"] != started.first?["fileSha256"])

        // A reload of an unchanged file is recorded without values, because they are already in the record.
        try harness.daemon.signal(SIGHUP)
        try await wait(for: "the second reload") { try await recorded().count > started.count + reloaded.count }
        #expect(try await recorded().last?["event"]?.stringValue == "configuration_reload")

        let live = try await harness.paytokenctl(["audit", "verify"])
        #expect(live.status == 0 && live.output.hasPrefix("intact"), "\(live)")
        let (export, key) = (harness.directory.path("record.jsonl"), harness.directory.path("key.pem"))
        #expect(try await harness.paytokenctl(["audit", "export", "--out", export]).status == 0)
        try harness.directory.write(try await harness.paytokenctl(["audit", "public-key"]).outputBytes, to: "key.pem")
        let script = ProjectFiles.path("scripts/verify-audit")
        let theirs = try await Program.run(script, [export, key])
        #expect(theirs.status == 2 && theirs.output.hasPrefix("intact"), "\(theirs)")
        #expect(try await harness.stop().status == 0)
    }

    @Test(
        "keeps the record of every answer after kill -9, and continues the chain", .everyEngine)
    func recordsSurviveKill() async throws {
        let harness = try await DaemonHarness(merchants: [SharedForge.ecMerchant])
        let answer = try await harness.decrypt(SharedForge.paymentToken())
        #expect(answer.status == 200)
        let sequence = try #require(place(answer))
        try harness.daemon.signal(SIGKILL)
        _ = try await harness.daemon.result()
        try await harness.start()
        #expect(try await records(harness).contains { $0["sequence"]?.numberValue?.text == sequence })
        let live = try await harness.paytokenctl(["audit", "verify"])
        #expect(live.status == 0, "\(live)")
        #expect(try await harness.stop().status == 0)
    }

    @Test(
        "keeps successive heads that both verifiers find in the audit record",
        .everyEngine)
    func heads() async throws {
        let harness = try await DaemonHarness(merchants: [SharedForge.ecMerchant])
        let heads = harness.directory.path("heads")
        try FileManager.default.createDirectory(atPath: heads, withIntermediateDirectories: true)
        func keep() async throws -> ProgramResult {
            try await harness.paytokenctl(["audit", "head", "--directory", heads, "--output", "json"])
        }
        var files: [String] = []
        for _ in 0..<3 {
            #expect(try await harness.decrypt(SharedForge.paymentToken()).status == 200)
            let kept = try await keep()
            #expect(kept.status == 0, "\(kept)")
            let head = try #require(
                try JSONValue(parsing: kept.outputBytes).objectValue?["heads"]?.arrayValue?.first?.objectValue)
            files.append(try #require(head["file"]?.stringValue))
            #expect((head["after"]?.numberValue != nil) == (files.count > 1), "\(kept)")
        }
        #expect(Set(files).count == 3)
        let (export, key) = (harness.directory.path("record.jsonl"), harness.directory.path("key.pem"))
        #expect(try await harness.paytokenctl(["audit", "export", "--out", export]).status == 0)
        try harness.directory.write(try await harness.paytokenctl(["audit", "public-key"]).outputBytes, to: "key.pem")
        let script = ProjectFiles.path("scripts/verify-audit")
        for file in files {
            let ours = try await harness.paytokenctl([
                "audit", "verify", "--export", export, "--public-key", key, "--head", file,
            ])
            #expect(ours.status == 0, "\(ours)")
            let theirs = try await Program.run(script, [export, key, "--head", file])
            #expect(theirs.status == 0, "\(theirs)")
        }
        let events = try await records(harness).compactMap { $0["event"]?.stringValue }
        #expect(events.count { $0 == "audit_head" } == 3)
        #expect(try await harness.stop().status == 0)
    }

    @Test("exits with 78 and says what to do for an older or lost ledger, and serves after a recorded acceptance")
    func restoredLedger() async throws {
        let harness = try await DaemonHarness(merchants: [SharedForge.ecMerchant])
        let backup = harness.directory.path("backup.sqlite")
        let heads = harness.directory.path("heads")
        try FileManager.default.createDirectory(atPath: heads, withIntermediateDirectories: true)
        let keep = ["audit", "head", "--directory", heads]
        #expect(try await harness.paytokenctl(["ledger", "backup", backup]).status == 0)
        let paymentToken = try SharedForge.paymentToken()
        #expect(try await harness.decrypt(paymentToken).status == 200)
        #expect(try await harness.paytokenctl(keep).status == 0)
        #expect(try await harness.stop().status == 0)
        let paytokend = try Program.built("paytokend")
        for (kind, words) in [("older", "is an older copy"), ("lost", "a ledger was lost")] {
            for name in ["ledger.sqlite", "ledger.sqlite-wal", "ledger.sqlite-shm"] {
                try? FileManager.default.removeItem(atPath: harness.directory.path(name))
            }
            if kind == "older" {
                try FileManager.default.copyItem(atPath: backup, toPath: harness.directory.path("ledger.sqlite"))
            }
            let refused = try await Program.run(paytokend, ["--config", harness.configurationFile])
            #expect(refused.status == 78, "\(kind): \(refused)")
            #expect(refused.error.contains(words) && refused.error.contains("accept-restore"), "\(refused)")
        }
        for name in ["ledger.sqlite", "ledger.sqlite-wal", "ledger.sqlite-shm"] {
            try? FileManager.default.removeItem(atPath: harness.directory.path(name))
        }
        try FileManager.default.copyItem(atPath: backup, toPath: harness.directory.path("ledger.sqlite"))
        try await harness.start(["--await-restore"], untilReady: false)
        // Until the acceptance, the daemon releases nothing and reports the reason.
        try await wait(for: "the comparison") {
            try await Curl.request("/readyz", socket: harness.socket).body.holds(Array("is an older copy".utf8))
        }
        let held = try await harness.decrypt(paymentToken)
        #expect(held.status == 503 && held.code == "ledger_unavailable", "\(held)")
        // Before the acceptance the daemon does not sign a head of the older ledger.
        let withheld = try await harness.paytokenctl(keep)
        #expect(withheld.status == 75 && withheld.error.contains("hsm_unavailable"), "\(withheld)")
        let accepted = try await harness.paytokenctl(["ledger", "accept-restore", "--reason", "disk failed"])
        #expect(accepted.status == 0, "\(accepted)")
        // The daemon releases only payment tokens that are signed after the fence. The backup may lack the claims of
        // earlier ones.
        let fence = try await harness.restoreFence()
        for token in [paymentToken, try SharedForge.paymentToken()] {
            let refused = try await harness.decrypt(token)
            #expect(refused.status == 409 && refused.code == "transaction_replayed", "\(refused)")
        }
        #expect(try await harness.decrypt(harness.paymentToken(signedAt: fence)).status == 200)
        let events = try await records(harness).compactMap { $0["event"]?.stringValue }
        #expect(events.contains("ledger_accept_restore") && events.contains("ledger_backup") == false)
        // An auditor's head from after the backup never matches the continued record, even if the record becomes
        // longer.
        let unfit = try await harness.paytokenctl(keep)
        #expect(unfit.status == 1 && unfit.error.hasPrefix("chain_broken: "), "\(unfit)")
        #expect(try FileManager.default.contentsOfDirectory(atPath: heads).count == 1)
        #expect(try await harness.paytokenctl(["audit", "verify"]).status == 0)
        #expect(try await harness.stop().status == 0)
        // The fence remains in effect after a restart.
        try await harness.start(untilReady: false)
        #expect(try await harness.restoreFence() == fence)
        #expect(try await harness.decrypt(paymentToken).code == "transaction_replayed")
        #expect(try await harness.stop().status == 0)
    }
}

/// The lines of the audit record, read from the ledger without the daemon.
enum StoredRecords {
    /// Reads the record's lines from a database, which returns each line in hexadecimal digits.
    private static func lines(_ database: DaemonDatabase, _ condition: String) async throws -> [JSONValue] {
        try await database.sql(
            "SELECT encode(line, 'hex') FROM audit_record WHERE \(condition) ORDER BY sequence"
        ).split(separator: "\n").map { line in
            let digits = Array(line)
            let bytes = stride(from: 0, to: digits.count - 1, by: 2).compactMap {
                UInt8(String(digits[$0...$0 + 1]), radix: 16)
            }
            return try JSONValue(parsing: bytes)
        }
    }

    /// Returns all lines of the audit record, in the order of their sequence.
    static func all(in harness: DaemonHarness) async throws -> [JSONValue] {
        if let database = harness.database { return try await lines(database, "true") }
        var configuration = Configuration()
        configuration.readonly = true
        let database = try DatabaseQueue(
            path: harness.directory.path("ledger.sqlite"), configuration: configuration)
        let lines = try await database.read { db in
            try Data.fetchAll(db, sql: "SELECT line FROM audit_record ORDER BY sequence")
        }
        try database.close()
        return try lines.map { try JSONValue(parsing: Array($0)) }
    }

    /// Returns the audit record's lines for one transaction, in the order of their sequence.
    static func of(transaction: String, in harness: DaemonHarness) async throws -> [JSONValue] {
        if let database = harness.database {
            return try await lines(database, "encode(transaction_id, 'hex') = '\(transaction)'")
        }
        var configuration = Configuration()
        configuration.readonly = true
        let database = try DatabaseQueue(
            path: harness.directory.path("ledger.sqlite"), configuration: configuration)
        let lines = try await database.read { db in
            try Data.fetchAll(
                db, sql: "SELECT line FROM audit_record WHERE lower(hex(transaction_id)) = ? ORDER BY sequence",
                arguments: [transaction])
        }
        try database.close()
        return try lines.map { try JSONValue(parsing: Array($0)) }
    }
}

extension JSONValue {
    /// Returns the value of the member with this name; nil if it is not a string.
    func string(_ name: String) -> String? { objectValue?[name]?.stringValue }
    /// The member `sequence` as it is written.
    var sequence: String? {
        guard case .number(let number)? = objectValue?["sequence"] else { return nil }
        return number.text
    }
}

extension CurlAnswer {
    /// The sequence number of the answer's audit record, `audit.sequence`.
    var recordedAt: String? { member("audit")?.sequence }
}

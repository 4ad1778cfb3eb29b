import AuditChain
import Foundation
import StrictJSON
import TestSupport
import Testing

@Suite("paytokend-year, which writes a simulated year of audit records")
struct YearOfRecordsTests {
    /// The directory that the program has written.
    private struct Written {
        let directory: FreshDirectory
        let truth: JSONValue
        let lines: [[UInt8]]

        init(_ arguments: [String] = []) async throws {
            directory = try FreshDirectory()
            let result = try await Program.run(
                Program.built("paytokend-year"), arguments + ["--out", directory.path("year")])
            try #require(result.status == 0, "\(result)")
            truth = try JSONValue(parsing: Array(Data(contentsOf: URL(filePath: directory.path("year/truth.json")))))
            let export = try Data(contentsOf: URL(filePath: directory.path("year/records.jsonl")))
            lines = export.split(separator: 0x0A).map(Array.init)
        }

        var entries: [AuditEntry] {
            get throws {
                try lines.filter { SignedCheckpoint(line: $0) == nil }.map { try AuditEntry(line: $0) }
            }
        }

        var export: String { directory.path("year/records.jsonl") }
        var keys: [String] {
            ["node-1", "node-2", "node-3"].map { "\($0)=" + directory.path("year/keys/\($0).pem") }
        }

        /// The member of the truth file at a path of names.
        func truth(_ names: String...) -> JSONValue? { names.reduce(truth) { $0?[$1] } }
    }

    private static let script = ProjectFiles.path("scripts/verify-audit")

    @Test("Writes records that both verifiers find intact, with given keys and with keys trusted on first use")
    func intact() async throws {
        let year = try await Written(["--records", "3600", "--seal-after", "86400"])
        let ours = try await Program.run(
            Program.built("paytokenctl"),
            ["audit", "verify", "--export", year.export, "--node", "all"]
                + year.keys.flatMap { ["--public-key", $0] })
        #expect(ours.status == 2, "\(ours)")
        let theirs = try await Program.run(Self.script, [year.export] + year.keys + ["--node", "all"])
        #expect(theirs.status == 2, "\(theirs)")
        #expect(theirs.output == ours.output)
        #expect(
            theirs.output.split(separator: "\n").map { $0.prefix(19) } == [
                "intact: node node-1", "intact: node node-2", "intact: node node-3",
            ])
        // Node 1 trusts node 2's former key on first use, and node 2's later key because the former one announces it.
        let pinned = try await Program.run(
            Self.script, [year.export, year.keys[0], "--node", "all", "--pinned-by", "node-1"])
        #expect(pinned.status == 2, "\(pinned)")
        #expect(pinned.output.contains("key pinned by node node-1"))
    }

    @Test("Writes the requested number of records, with an audit checkpoint at least every 1,000")
    func number() async throws {
        let year = try await Written(["--records", "9999"])
        #expect(try year.entries.count == 9999)
        #expect(year.truth("records")?.numberValue?.int == 9999)
        var unsealed = 0
        for line in year.lines {
            unsealed = SignedCheckpoint(line: line) == nil ? unsealed + 1 : 0
            #expect(unsealed <= 1000)
        }
        #expect(unsealed == 0)
    }

    @Test("Repeats a release only within the ten minutes of ledger.repeat_for")
    func repeats() async throws {
        let entries = try await Written(["--records", "9999", "--seed", "7"]).entries
        func times(_ outcome: String) -> [(AuditDigest?, AuditTime)] {
            entries.filter { $0.event == "decrypt" && $0.outcome == outcome }.map { ($0.transactionId, $0.time) }
        }
        let released = Dictionary(times("ok"), uniquingKeysWith: min)
        let waited = times("repeat").map { transaction, time in
            released[transaction].map { time.milliseconds - $0.milliseconds } ?? .max
        }
        #expect(!waited.isEmpty && waited.allSatisfy { (0...600_000).contains($0) }, "\(waited)")
    }

    @Test("Writes a truth file whose sequences, events and totals by key and caller match the records")
    func truth() async throws {
        let year = try await Written(["--records", "6000", "--seed", "7"])
        let entries = try year.entries
        var last: [String: Int] = [:]
        var events: [String: Int] = [:]
        var uses: [String: Int] = [:]
        for entry in entries {
            last[entry.node.name] = max(last[entry.node.name] ?? 0, entry.sequence)
            let caller = entry.caller?.name?.text ?? "-"
            events["\(entry.event) \(entry.outcome) \(caller)", default: 0] += 1
            guard ["decrypt", "tls_signature"].contains(entry.event) else { continue }
            let use =
                switch (entry.event, entry.outcome) {
                case ("tls_signature", "ok"): "signatures"
                case (_, "ok"): "released"
                case (_, "repeat"): "repeated"
                default: entry.outcome
                }
            uses["\(entry.publicKeyHash?.base64 ?? "-") \(caller) \(use)", default: 0] += 1
        }

        var told: [String: Int] = [:]
        for node in year.truth("nodes")?.arrayValue ?? [] {
            told[node["node"]?.stringValue ?? ""] = node["last"]?.numberValue?.int
        }
        #expect(told == last)
        told = [:]
        for event in year.truth("events")?.arrayValue ?? [] {
            let names = ["event", "outcome", "caller"].map { event[$0]?.stringValue ?? "-" }
            told[names.joined(separator: " ")] = event["records"]?.numberValue?.int
        }
        #expect(told == events)
        told = [:]
        for use in year.truth("uses")?.arrayValue ?? [] {
            let pair = "\(use["publicKeyHash"]?.stringValue ?? "-") \(use["caller"]?.stringValue ?? "-")"
            for name in ["signatures", "released", "repeated"] {
                guard let count = use[name]?.numberValue?.int, count > 0 else { continue }
                told["\(pair) \(name)"] = count
            }
            for member in use["refusals"]?.objectValue?.members ?? [] {
                told["\(pair) \(member.name)"] = member.value.numberValue?.int
            }
        }
        #expect(told == uses)
    }

    @Test("Writes the story's events at the positions that the truth file states")
    func story() async throws {
        let year = try await Written(["--records", "600"])
        let entries = try year.entries
        func entry(at place: JSONValue?) throws -> AuditEntry {
            try #require(
                entries.first {
                    $0.node.name == place?["node"]?.stringValue && $0.sequence == place?["sequence"]?.numberValue?.int
                })
        }
        for (kind, event) in [
            ("restores", "ledger_accept_restore"), ("starts", "start"), ("stops", "stop"),
            ("droppedRecords", "records_dropped"),
        ] {
            let told = try #require(year.truth(kind)?.arrayValue)
            #expect(!told.isEmpty, "\(kind)")
            for one in told { #expect(try entry(at: one["at"]).event == event) }
            #expect(entries.count { $0.event == event } == told.count, "\(kind)")
        }
        let keys = try #require(year.truth("keys")?.arrayValue)
        for (step, state) in [
            ("superseded", "deactivated"), ("compromised", "compromised"), ("destroyed", "destroyed"),
        ] {
            let steps = keys.compactMap { key in key[step].map { (key, $0) } }
            #expect(steps.count == ["superseded": 2, "compromised": 1, "destroyed": 1][step])
            for (key, step) in steps {
                let entry = try entry(at: step["at"])
                #expect(entry.details["to"]?.stringValue == state)
                #expect(entry.publicKeyHash?.base64 == key["publicKeyHash"]?.stringValue)
                #expect(entry.details["approval"]?.stringValue == step["approval"]?.stringValue)
            }
        }
        // Only the truth file contains the insider's uses.
        #expect(keys.map { $0["unrecordedUses"]?.numberValue?.int ?? 0 }.filter { $0 > 0 } == [37, 5])
        #expect(
            Set(year.truth("approvalsByDecision")?.objectValue?.members.map(\.name) ?? []) == [
                "approve", "reject", "withdraw", "expire",
            ])
        // Node 2's clock is three hours ahead between the two steps, and correct after the second one.
        let step = try #require(year.truth("clockSteps")?.arrayValue?.first)
        let lastAhead = try #require(step["lastAhead"]?.numberValue?.int)
        let chain = entries.filter { $0.node.name == "node-2" }
        #expect(chain[lastAhead].time < chain[lastAhead - 1].time)
        for pair in zip(chain, chain.dropFirst()) where pair.1.sequence != lastAhead + 1 {
            #expect(pair.0.time <= pair.1.time)
        }
    }

    @Test("Records a reload of the configuration as the changes from the previous values")
    func configuration() async throws {
        let year = try await Written(["--records", "400"])
        var values: [String: [String: String]] = [:]
        var changed: [String] = []
        for entry in try year.entries where entry.event == "configuration_values" {
            #expect(entry.details["parts"]?.numberValue?.int == 1)
            var now: [String: String] = [:]
            for member in entry.details["values"]?.objectValue?.members ?? [] {
                now[member.name] = member.value.stringValue
            }
            if let before = values[entry.node.name] {
                for (name, value) in now where before[name] != value {
                    changed.append("\(entry.node.name) \(entry.sequence) \(name) \(before[name] ?? "-") \(value)")
                }
                #expect(Set(before.keys).isSubset(of: now.keys))
            }
            values[entry.node.name] = now
        }
        let told = try #require(year.truth("configurationChanges")?.arrayValue).map { change in
            let (at, before) = (change["at"], change["before"]?.stringValue ?? "-")
            let place = "\(at?["node"]?.stringValue ?? "") \(at?["sequence"]?.numberValue?.int ?? 0)"
            return "\(place) \(change["name"]?.stringValue ?? "") \(before) \(change["after"]?.stringValue ?? "-")"
        }
        #expect(told.count == 30)
        #expect(changed.sorted() == told.sorted())
    }

    @Test(
        "Writes the same records, except for signatures, and the same truth file only for the same seed"
    )
    func seeds() async throws {
        let first = try await Written(["--records", "400", "--seed", "3"])
        let again = try await Written(["--records", "400", "--seed", "3"])
        let other = try await Written(["--records", "400", "--seed", "4"])
        #expect(try first.entries == again.entries)
        #expect(first.truth == again.truth)
        #expect(try first.entries != other.entries)
    }

    @Test("Refuses to overwrite files")
    func existing() async throws {
        let directory = try FreshDirectory()
        let result = try await Program.run(Program.built("paytokend-year"), ["--out", directory.path])
        #expect(result.status == 64)
        #expect(result.error.contains("--out is there already"))
    }
}

extension JSONValue {
    /// The member `name` of an object; nil if this is not an object or lacks it.
    fileprivate subscript(name: String) -> JSONValue? { objectValue?[name] }
}

import AuditChain
import Crypto
import Foundation
import Refusals
import StrictJSON
import TestSupport
import Testing

@testable import AuditReport

@Suite("The counts of a report")
struct CountingTests {
    private static func pair(_ key: AuditDigest? = RecordBook.key, _ caller: String? = "checkout") -> KeyUseTally.Pair {
        KeyUseTally.Pair(key: key, caller: caller)
    }

    @Test("counts records from the beginning of the period until just before its end")
    func period() throws {
        var book = RecordBook()
        for hours in [23.9999, 24, 47.9999, 48] {
            try book.add(.decrypt(reference: nil), at: hours, by: "checkout", key: RecordBook.key)
        }
        let uses = try book.counted(from: 24, to: 48).uses.uses
        #expect(uses[Self.pair()]?.released.beginning.map(\.sequence) == [2, 3])
    }

    @Test("counts releases, repeats, refusals and signatures by key and caller, and names their records")
    func outcomes() throws {
        var book = RecordBook()
        let decrypt = AuditEvent.decrypt(reference: nil)
        try book.add(decrypt, at: 1, by: "checkout", key: RecordBook.key)
        try book.add(decrypt, .repeated, at: 2, by: "checkout", key: RecordBook.key)
        try book.add(decrypt, .refused(.transactionReplayed), at: 3, by: "checkout", key: RecordBook.key)
        try book.add(decrypt, .refused(.transactionReplayed), at: 4, by: "checkout", key: RecordBook.key)
        try book.add(decrypt, .refused(.signatureInvalid), at: 5, by: "batch")
        try book.add(.tlsSignature(TLSSignatureDetails()), at: 6, by: "checkout", key: RecordBook.other)
        try book.add(.verify, at: 7, by: "checkout")
        try book.add(decrypt, on: "node-2", at: 8, by: "checkout", key: RecordBook.key)
        let builder = try book.counted()
        let use = try #require(builder.uses.uses[Self.pair()])
        #expect(
            use.released.parts == [
                RecordReferences.Part(node: try #require(AuditNode("node-1")), count: 1, first: 1, last: 1),
                RecordReferences.Part(node: try #require(AuditNode("node-2")), count: 1, first: 1, last: 1),
            ])
        #expect(use.repeated.beginning.map(\.text) == ["node-1 2"])
        #expect(use.refused.mapValues { $0.beginning.map(\.sequence) } == ["transaction_replayed": [3, 4]])
        #expect(use.uses == 3 && use.signed.isEmpty)
        #expect(use.firstUse == RecordBook.time(1) && use.lastUse == RecordBook.time(8))
        #expect(builder.uses.uses[Self.pair(RecordBook.other)]?.signed.count == 1)
        #expect(builder.uses.uses[Self.pair(nil, "batch")]?.refused["signature_invalid"]?.count == 1)
        #expect(builder.uses.uses.count == 3, "a check of a signature is no use of a key")
    }

    @Test("counts decryptions after a key's deactivation on all nodes, in any order of nodes")
    func late() throws {
        var book = RecordBook()
        // In the export, this node comes before the node that deactivated the key.
        for hours in [5.0, 10, 15] {
            try book.add(.decrypt(reference: nil), on: "node-a", at: hours, by: "checkout", key: RecordBook.key)
        }
        try book.add(
            .keyStateChange(KeyStateChange(from: .active, to: .deactivated)), on: "node-b", at: 10, by: "alice",
            key: RecordBook.key)
        try book.add(
            .decrypt(reference: nil), .repeated, on: "node-b", at: 12, by: "checkout", key: RecordBook.key)
        let use = try #require(try book.counted().uses.uses[Self.pair()])
        #expect(use.late.records.beginning.map(\.text) == ["node-a 3", "node-b 2"])
    }

    private static func states(_ states: [AuditDigest: AuditKeyState]) throws -> AuditEvent {
        .keyStates(try #require(KeyStatesPart.parts(of: states.map { ($0.key, $0.value) }).first))
    }

    @Test("counts decryptions as late if they follow an archive that contains the key's deactivation")
    func archivedDeactivation() async throws {
        var book = RecordBook()
        let decrypt = AuditEvent.decrypt(reference: nil)
        try book.add(decrypt, on: "node-0", at: 9, by: "checkout", key: RecordBook.key)
        try book.add(decrypt, on: "node-0", at: 11, by: "checkout", key: RecordBook.key)
        try book.add(.keyImport(certificate: nil, approval: nil), at: 1, by: "alice", key: RecordBook.key)
        try book.add(
            .keyStateChange(KeyStateChange(from: .active, to: .deactivated)), at: 2, by: "alice", key: RecordBook.key)
        for hours in [10.0, 12] { try book.add(decrypt, at: hours, by: "checkout", key: RecordBook.key) }
        let stated = try book.add(Self.states([RecordBook.key: .deactivated]), at: 14)
        try book.add(Self.states([RecordBook.key: .deactivated]), at: 15)
        // While no record is archived, the record of the deactivation gives its time.
        let whole = try book.counted()
        #expect(whole.keys[RecordBook.key]?.superseded?.time == RecordBook.time(2))
        #expect(whole.uses.uses[Self.pair()]?.late.count == 4)
        try book.archive(2)
        let builder = try book.counted()
        let key = try #require(builder.keys[RecordBook.key])
        #expect(key.state == "deactivated" && key.arrival == nil && key.activation == nil)
        #expect(key.superseded?.place.sequence == stated)
        // Node 1's remaining records begin at hour 10, so the archived deactivation is earlier.
        #expect(builder.lateAfter(RecordBook.key) == RecordBook.time(10))
        let use = try #require(builder.uses.uses[Self.pair()])
        #expect(use.late.records.beginning.map(\.text) == ["node-0 2", "node-1 4"])
        try await book.expectRecounted()
    }

    @Test("counts decryptions as late from the first statement of a deactivation if a node is missing from the export")
    func deactivatedElsewhere() async throws {
        var book = RecordBook()
        try book.add(.start(version: AuditText("1.0.0")), at: 0)
        for hours in [10.0, 12, 16] {
            try book.add(.decrypt(reference: nil), at: hours, by: "checkout", key: RecordBook.key)
        }
        let point = P256.Signing.PrivateKey().publicKey.x963Representation
        let keys = [try #require(CheckpointKey(point: Array(point)))]
        let outsider = try #require(AuditNode("node-2"))
        try book.add(.auditKeyPinned(try #require(KeyPin(trustedOnFirstUse: keys, of: outsider))), at: 13)
        try book.add(Self.states([RecordBook.key: .deactivated]), at: 14)
        try book.archive(1)
        let builder = try book.counted()
        #expect(builder.lateAfter(RecordBook.key) == RecordBook.time(14))
        #expect(builder.uses.uses[Self.pair()]?.late.records.beginning.map(\.sequence) == [4])
        try await book.expectRecounted()
        // Once the export contains node 2, only archived records can contain the deactivation. They are earlier than
        // node 1's first remaining record, at hour 10.
        try book.add(.start(version: AuditText("1.0.0")), on: "node-2", at: 1)
        #expect(try book.counted().lateAfter(RecordBook.key) == RecordBook.time(10))
        try await book.expectRecounted()
    }

    @Test("lists every step of a key's life, even if records state the same state many times")
    func manyStatements() async throws {
        var book = RecordBook()
        try book.add(.start(version: AuditText("1.0.0")), at: 0)
        for hours in 1...300 {
            try book.add(
                Self.states([RecordBook.key: hours <= 150 ? .active : .deactivated]),
                on: hours % 2 == 0 ? "node-1" : "node-2",
                at: Double(hours))
        }
        try book.add(
            .keyStateChange(KeyStateChange(from: .deactivated, to: .compromised)), at: 301, by: "alice",
            key: RecordBook.key)
        try book.add(Self.states([RecordBook.key: .compromised]), on: "node-2", at: 302)
        try book.archive(1)
        let key = try #require(try book.counted().keys[RecordBook.key])
        #expect(key.state == "compromised" && key.events.count == 4)
        #expect(key.statement?.time == RecordBook.time(1) && key.superseded?.time == RecordBook.time(151))
        try await book.expectRecounted()
    }

    @Test("lists every change of a key's state, however many there are, and counts signed certificate requests")
    func manySteps() async throws {
        var book = RecordBook()
        try book.add(.keyGenerate(), at: 0, by: "staff", key: RecordBook.key)
        for number in 1...250 {
            try book.add(.csrCreate, at: Double(number), by: "staff", key: RecordBook.key)
        }
        try book.add(.certificateImport(certificate: .of([1])), at: 251, by: "staff", key: RecordBook.key)
        let steps: [AuditKeyState] = [.suspended, .active, .suspended, .compromised]
        for (number, state) in steps.enumerated() {
            try book.add(
                .keyStateChange(KeyStateChange(from: nil, to: state, reason: AuditReason("r"), approval: nil)),
                at: 252 + Double(number), by: "staff", key: RecordBook.key)
        }
        let builder = try book.counted()
        let key = try #require(builder.keys[RecordBook.key])
        #expect(key.state == "compromised" && key.activation != nil)
        #expect(key.omitted == 51)
        #expect(try book.page().contains("in the export only:</strong> 51 signing requests and certificates."))
        try await book.expectRecounted()
    }

    @Test("counts all acts of an administrator, limits the list of acts, and reports how many it omits")
    func manyActs() throws {
        var acts = AdministrativeActs()
        var book = RecordBook()
        let state = KeyStateChange(from: nil, to: .destroyed, reason: AuditReason("r"), approval: nil)
        try book.add(.keyStateChange(state), at: 1, by: "mallory", key: RecordBook.key)
        let entry = try AuditEntry(line: try #require(book.export.first))
        for _ in 0..<20_003 { acts.take(entry, inPeriod: true) }
        #expect(acts.omitted == 3)
        #expect(acts.people["mallory"]?.alone.count == 20_003)
    }

    @Test("uses a key's stated state after an archive until the next change of its state")
    func statedStates() async throws {
        let keys = ["prepared", "certified", "serving", "suspended", "gone"].map { AuditDigest.of(Array($0.utf8)) }
        var book = RecordBook()
        try book.add(.start(version: AuditText("1.0.0")), at: 0)
        try book.add(
            Self.states([
                keys[0]: .preActivation, keys[1]: .preActivation, keys[2]: .active, keys[3]: .active,
                keys[4]: .destroyed,
            ]), at: 1)
        try book.add(.certificateImport(certificate: nil), at: 2, by: "alice", key: keys[1])
        try book.add(
            .keyStateChange(KeyStateChange(from: .active, to: .suspended)), at: 2, by: "alice", key: keys[3])
        try book.archive(1)
        let builder = try book.counted()
        #expect(
            keys.map { builder.keys[$0]?.state } == ["pre-activation", "active", "active", "suspended", "destroyed"])
        #expect(keys.map { builder.keys[$0]?.activation?.place.sequence } == [nil, 3, nil, nil, nil])
        let page = try book.page()
        #expect(page.contains("Keys by the record: 2 active, 1 destroyed, 1 pre-activation, 1 suspended."))
        #expect(page.contains("from before these records to the period&#39;s end"))
        #expect(page.contains("was destroyed when its records were archived"))
        try await book.expectRecounted()
    }

    @Test("ignores a refused change of state")
    func refusedChange() throws {
        var book = RecordBook()
        try book.add(
            .keyStateChange(KeyStateChange(from: .active, to: .deactivated)), .refused(.approvalInvalid), at: 1,
            by: "alice", key: RecordBook.key)
        try book.add(.decrypt(reference: nil), at: 2, by: "checkout", key: RecordBook.key)
        let builder = try book.counted()
        #expect(builder.uses.uses[Self.pair()]?.late.count == 0)
        #expect(builder.keys[RecordBook.key] == nil)
    }

    @Test("orders the steps of a key's life by time for any order of nodes, and includes steps before the period")
    func life() throws {
        var book = RecordBook()
        let approval = try #require(ApprovalIdentifier(hex: "00112233"))
        try book.add(
            .keyStateChange(KeyStateChange(from: .suspended, to: .compromised, approval: approval)), on: "node-1",
            at: 300, by: "bob", key: RecordBook.key)
        try book.add(.keyGenerate(), on: "node-2", at: 1, by: "alice", key: RecordBook.key)
        try book.add(.csrCreate, on: "node-2", at: 2, by: "alice", key: RecordBook.key)
        try book.add(
            .certificateImport(certificate: nil), on: "node-2", at: 30, by: "alice", key: RecordBook.key)
        try book.add(
            .keyStateChange(KeyStateChange(from: .active, to: .suspended)), on: "node-2", at: 299, by: "alice",
            key: RecordBook.key)
        let key = try #require(try book.counted(from: 200, to: 400).keys[RecordBook.key])
        #expect(key.arrival?.step == .generated && key.arrival?.place.text == "node-2 1")
        #expect(key.activation?.time == RecordBook.time(30))
        #expect(key.first("compromised")?.approval == "00112233" && key.first("compromised")?.by == "bob")
        #expect(key.state == "compromised" && key.superseded == nil && key.merchant == "merchant.com.example")
    }

    @Test("adds the number of refusals that each flood record gives")
    func floods() throws {
        var book = RecordBook()
        for (hours, counts) in [(1.0, [RefusalCode.forbidden: 40, .requestTooLarge: 2]), (2, [.forbidden: 3])] {
            let summary = try #require(RefusalSummary(since: RecordBook.time(hours), counts: counts))
            try book.add(.refusals(summary), summary.outcome, at: hours, uid: 2000)
        }
        let reasons = try book.counted().refusals.reasons
        #expect(reasons.mapValues(\.summary) == ["forbidden": 43, "request_too_large": 2])
        #expect(reasons["forbidden"]?.callers == ["–": 43])
    }

    @Test("counts requests for a second person by their outcome")
    func approvals() throws {
        var book = RecordBook()
        for (index, decision) in [ApprovalDecision.approve, .reject, .withdraw, .expire, nil].enumerated() {
            let identifier = try #require(ApprovalIdentifier(hex: "0000000\(index)"))
            try book.add(
                .approvalRequest(
                    ApprovalRequest(
                        approval: identifier, operation: .keyDestroy, parameters: .zero, reason: nil,
                        expires: RecordBook.time(100))), at: Double(index * 10), by: "alice", key: RecordBook.key)
            guard let decision else { continue }
            // A refused decision leaves the counts unchanged.
            try book.add(
                .approvalDecision(approval: identifier, decision: .approve, reason: nil), .refused(.approvalInvalid),
                at: Double(index * 10 + 1), by: "alice", key: RecordBook.key)
            // For an expired request, the daemon writes a record without a caller, and with the code of a late
            // approval.
            let isLapse = decision == .expire
            try book.add(
                .approvalDecision(approval: identifier, decision: decision, reason: nil),
                isLapse ? .refused(.approvalInvalid) : .ok, at: Double(index * 10 + 2), by: isLapse ? nil : "bob",
                key: RecordBook.key)
        }
        let builder = try book.counted()
        #expect(
            PeopleFacts(builder: builder).endsOfApprovals
                == ["approve", "expire", "open", "reject", "withdraw"].map { .facts(["end": $0, "count": 1]) })
        #expect(builder.acts.acts.count == 13 && builder.acts.acts.count { $0.outcome != "ok" } == 5)
        #expect(
            builder.acts.approvals.values.map(\.sentence).sorted() == [
                "asked for by alice, approved by bob", "asked for by alice, lapsed",
                "asked for by alice, not decided yet", "asked for by alice, rejected by bob",
                "asked for by alice, withdrawn by bob",
            ])
    }

    /// The expected chart for a period of `days` that begins on 2026-01-01.
    struct Steps: Sendable {
        let days: Int
        let count: Int
        let first: String
        let last: String
    }

    @Test(
        "draws charts of at most 62 steps, in days, Monday weeks, months or years",
        arguments: [
            Steps(days: 31, count: 31, first: "2026-01-01", last: "2026-01-31"),
            Steps(days: 62, count: 62, first: "2026-01-01", last: "2026-03-03"),
            Steps(days: 63, count: 10, first: "2025-12-29", last: "2026-03-02"),
            Steps(days: 365, count: 53, first: "2025-12-29", last: "2026-12-28"),
            Steps(days: 730, count: 24, first: "2026-01-01", last: "2027-12-01"),
        ])
    func steps(expected: Steps) throws {
        let end = RecordBook.time(Double(expected.days * 24))
        let steps = try #require(ReportPeriod(since: RecordBook.start, until: end)).steps
        #expect(steps.count == expected.count)
        #expect(steps.first?.text == expected.first && steps.last?.text == expected.last)
    }

    @Test("writes counts, charts, hours and places of records into the JSON")
    func json() throws {
        var book = RecordBook()
        let programs = ProgramDigests(daemon: .zero, sbom: .zero, modules: ["primary": .zero])
        try book.add(.start(version: AuditText("1.0.0"), programs: programs), at: 0)
        try book.add(.keyGenerate(), at: 1, by: "alice", key: RecordBook.key)
        try book.add(.certificateImport(certificate: nil), at: 2, by: "alice", key: RecordBook.key)
        for hour in [25.0, 25.5] {
            try book.add(.decrypt(reference: nil), at: hour, by: "checkout", key: RecordBook.key)
        }
        try book.add(
            .decrypt(reference: nil), .refused(.keyNotActive), at: 26, by: "checkout", key: RecordBook.key)
        let key = RecordBook.key.base64
        let zeros = String(repeating: "0", count: 64)
        let text = String(decoding: try book.report(to: 48).compact, as: UTF8.self)
        for part in [
            #"{"format":6,"since":"2026-01-01T00:00:00.000Z","until":"2026-01-03T00:00:00.000Z","#, #""findings":[],"#,
            #""uses":[{"key":"\#(key)","caller":"checkout","merchant":"merchant.com.example","#
                + #""first":"2026-01-02T01:00:00.000Z","last":"2026-01-02T01:30:00.000Z","#
                + #""released":{"count":2,"number":1},"repeated":{"count":0},"signed":{"count":0},"#
                + #""refused":[{"code":"key_not_active","count":1}]}],"reasons":["#,
            #""refusals":[{"caller":"checkout","count":1,"first":"2026-01-02T02:00:00.000Z","#
                + #""last":"2026-01-02T02:00:00.000Z","worstHour":"2026-01-02T02:00:00.000Z","inWorstHour":1}],"#,
            #""charts":[{"charts":[{"of":"all","most":2,"steps":2,"bars":[{"at":1,"from":"2026-01-02","count":2}],"#,
            #""hours":[{"caller":"checkout","hours":[0,2,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]}],"#,
            #""state":"active","came":"key_generate","cameAt":"2026-01-01T01:00:00.000Z","service":{"from":"2026-01-01T02:00:00.000Z","days":1},"#,
            #""paytokend":"\#(zeros)","sbom":"\#(zeros)","modules":[{"token":"primary","sha256":"\#(zeros)"}]"#,
            #""figures":[{"number":1,"which":"decrypt, ok, key \#(key) by checkout","#
                + #""parts":[{"node":"node-1","count":2,"first":4,"last":5}],"records":["node-1 4","node-1 5"],"complete":true},"#,
        ] {
            #expect(text.contains(part), "\(part)")
        }
    }

    @Test("reads the same event from the beginning of a line as from the whole line")
    func event() throws {
        var book = RecordBook()
        try book.add(.verify, on: String(repeating: "n", count: 64), at: 1, by: #"","event":"decrypt""#)
        let line = book.export[0]
        #expect(ReportBuilder.event(of: line).name == "verify")
        #expect(try AuditEntry(line: line).event == "verify")
        #expect(ReportBuilder.event(of: Array(#"{"checkpoint":{"node":"a","event":"decrypt"}}"#.utf8)).name == "")
        #expect(ReportBuilder.event(of: []).name == "" && ReportBuilder.event(of: Array("no".utf8)).name == "")
    }
}

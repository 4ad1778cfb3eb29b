import AuditChain
import TestSupport
import Testing

@Suite("Whole and tampered exports, on which both verifiers agree")
struct TamperedExportsTests {
    @Test("reports a filtered export as filtered, and never as intact")
    func filtered() async throws {
        let ground = try await TamperFixture.shared.value
        let first = FilteredExport.firstLine(
            try AuditFilter(["caller": "checkout"]), node: try required(AuditNode("a")), through: 3000)
        func says(_ records: String) -> String {
            "filtered: \(records) chosen by conditions; that none was changed, added or left out only an export without "
                + "conditions can show"
        }
        let some = [ground.a.lines[3], ground.a.lines[40], ground.a.lines[7]]
        try await TamperCase.verify([
            ground.exported("a whole chain behind it", says("3000 records"), ([first] + ground.a.lines).export),
            ground.exported("some of its lines", says("3 records"), ([first] + some).export),
            ground.exported("one line", says("1 record"), ([first] + some.prefix(1)).export),
            ground.exported("no line", says("0 records"), [first].export),
            ground.exported(
                "another first line of that kind", says("1 record"),
                ([Array("{\"filter\":{".utf8)] + some.prefix(1)).export),
            ground.exported(
                "a line that is none",
                "broken: line 2: neither a record nor a checkpoint; no good line precedes it",
                [first, Array("{}".utf8)].export),
            ground.exported(
                "not the first line",
                "broken: line 2: neither a record nor a checkpoint; the last good line is node a, record 1",
                [ground.a.lines[0], first].export),
        ])
    }

    @Test("accepts whole exports, and parts that begin and end at checkpoints")
    func whole() async throws {
        let ground = try await TamperFixture.shared.value
        let intact = "intact: node a, records 1 to 3000, sealed at 2026-01-31T12:50:00.000Z"
        let both = intact + "\nintact: node b, records 1 to 1200, sealed at 2026-01-31T12:20:00.000Z"
        var interleaved: [[UInt8]] = []
        for position in ground.a.lines.indices {
            interleaved.append(ground.a.lines[position])
            if position < ground.b.lines.count { interleaved.append(ground.b.lines[position]) }
        }
        try await TamperCase.verify([
            ground.tampered("untouched", intact),
            ground.tampered("the head is the last checkpoint", intact, head: ground.checkpoint(3000)),
            ground.tampered(
                "two heads on the way", intact, head: [ground.checkpoint(500), ground.checkpoint(2500)].export),
            ground.exported("two nodes, one after the other", both, (ground.a.lines + ground.b.lines).export),
            ground.exported("two nodes, line by line", both, interleaved.export),
            ground.exported(
                "two nodes with keys of their own", both, (ground.a.lines + ground.foreign.lines).export,
                keys: ground.signer.publicKey.pem + ground.otherSigner.publicKey.pem),
            ground.tampered(
                "begins after a checkpoint",
                "intact: node a, records 1001 to 3000, sealed at 2026-01-31T12:50:00.000Z"
            ) { $0.removeSubrange(..<ground.checkpointIndex(1000)) },
            ground.tampered(
                "begins after the head's record",
                "intact: node a, records 1001 to 3000, sealed at 2026-01-31T12:50:00.000Z",
                head: ground.checkpoint(1000)
            ) { $0.removeSubrange(..<ground.checkpointIndex(1000)) },
            ground.tampered(
                "a checkpoint alone", "intact: node a, no record after 3000, sealed at 2026-01-31T12:50:00.000Z"
            ) { $0.removeSubrange(..<ground.checkpointIndex(3000)) },
            ground.tampered("a checkpoint on the way is missing", intact) {
                $0.remove(at: ground.checkpointIndex(1500))
            },
            ground.tampered("a checkpoint appears twice", intact) {
                $0.insert(ground.checkpoint(1500), at: ground.checkpointIndex(1500))
            },
        ])
    }

    @Test("detects lines of another node")
    func otherNode() async throws {
        let ground = try await TamperFixture.shared.value
        let intact = "intact: node a, records 1 to 3000, sealed at 2026-01-31T12:50:00.000Z"
        try await TamperCase.verify([
            ground.tampered(
                "some from the middle",
                "broken: line 101, node b, record 100: no signed checkpoint of record 99 precedes it"
            ) { $0.insert(contentsOf: ground.b.lines[99..<110], at: 100) },
            ground.tampered(
                "some from its beginning", intact + "\nunsealed: node b, records 1 to 10, 10 after record 0 not sealed"
            ) { $0.insert(contentsOf: ground.b.lines[..<10], at: 100) },
            try ground.tampered(
                "one under this node's name",
                "broken: line 101, node a, record 101: its hash does not follow from record 100: one of the two was "
                    + "changed"
            ) { $0[100] = try ground.b.lines[100].replacing(#""node":"b""#, with: #""node":"a""#) },
            ground.tampered(
                "in the place of this node's",
                "broken: line 101, node b, record 101: no signed checkpoint of record 100 precedes it"
            ) { $0[100] = ground.b.lines[100] },
            ground.exported(
                "with another signer's checkpoints",
                "broken: line 3407, node b, checkpoint 400: not signed by a given key: "
                    + "no given key vouches from record 1 on",
                (ground.a.lines + ground.foreign.lines).export),
            ground.exported(
                "its last checkpoint missing",
                intact + "\nunsealed: node b, records 1 to 1200, 400 after record 800 not sealed",
                (ground.a.lines + ground.b.lines.dropLast()).export),
            ground.exported(
                "more nodes than anybody has", "broken: line 1025, node n1025, record 1: more than 1024 nodes",
                try (1...1100).map { number in
                    var head = ChainHead(node: try required(AuditNode("n\(number)")))
                    return head.append(SyntheticChain.record(1)).bytes
                }.export),
        ])
    }

    @Test("reports a removed end as unsealed, or as missing if a stored head is later")
    func cut() async throws {
        let ground = try await TamperFixture.shared.value
        let start = ground.checkpointIndex(1000)
        try await TamperCase.verify([
            ground.tampered(
                "at a checkpoint, a stated limit",
                "intact: node a, records 1 to 2500, sealed at 2026-01-31T12:41:40.000Z"
            ) { $0.removeSubrange((ground.checkpointIndex(2500) + 1)...) },
            ground.tampered(
                "at a checkpoint, with a head",
                "broken: head, node a, checkpoint 3000: the export ends at record 2500: it was cut off or the ledger "
                    + "rolled back",
                head: ground.checkpoint(3000)
            ) { $0.removeSubrange((ground.checkpointIndex(2500) + 1)...) },
            ground.tampered(
                "two records after a checkpoint", "unsealed: node a, records 1 to 2502, 2 after record 2500 not sealed"
            ) { $0.removeSubrange((ground.index(2502) + 1)...) },
            ground.tampered(
                "the last checkpoint", "unsealed: node a, records 1 to 3000, 500 after record 2500 not sealed"
            ) { $0.removeLast() },
            ground.tampered(
                "every checkpoint", "unsealed: node a, records 1 to 3000, 3000 after record 0 not sealed"
            ) { $0.removeAll { $0.starts(with: Array(#"{"checkpoint""#.utf8)) } },
            ground.exported("everything", "unsealed: the export is empty", []),
            ground.exported(
                "everything, with a head", "broken: head, node a, checkpoint 500: the export has no line of this node",
                [],
                head: ground.checkpoint(500)),
            ground.exported(
                "the last line feed", "broken: line 3006: not ended by a line feed: the export was cut off here",
                ground.a.lines.export.dropLast()),
            ground.exported(
                "in a line", "broken: line 3006: not ended by a line feed: the export was cut off here",
                ground.a.lines.export.dropLast(200)),
            ground.exported(
                "rolled back and grown anew, a stated limit",
                "intact: node a, records 1 to 3000, sealed at 2026-01-31T12:50:00.000Z",
                ground.afterRollback.lines.export),
            ground.exported(
                "rolled back and grown anew, with a head",
                "broken: line 2504, node a, record 2500: not the record that the head seals: the ledger was rolled "
                    + "back or rewritten",
                ground.afterRollback.lines.export, head: ground.checkpoint(2500)),
            ground.exported(
                "rolled back and grown anew, beginning at the head",
                "broken: line 1, node a, checkpoint 2500: not the record that the head seals: the ledger was rolled "
                    + "back or rewritten",
                Array(ground.afterRollback.lines[ground.checkpointIndex(2500)...]).export, head: ground.checkpoint(2500)
            ),
            ground.tampered(
                "a beginning behind the head",
                "broken: head, node a, checkpoint 500: the export begins later, at record 1001: "
                    + "compare with one from before",
                head: ground.checkpoint(500)
            ) { $0.removeSubrange(..<start) },
        ])
    }

    @Test("detects changed checkpoints, and heads that no known key signed")
    func checkpoints() async throws {
        let ground = try await TamperFixture.shared.value
        let at = ground.checkpointIndex(1500)
        let wrong = "broken: line 1503, node a, checkpoint 1500: its signature is wrong"
        let unread = "broken: line 1503: neither a record nor a checkpoint; the last good line is node a, record 1500"
        let foreignCheckpoint = try await ground.otherSigner.checkpoint(ground.a.heads[1499])
        let pretended = try await ground.otherSigner.checkpoint(ground.a.heads[1499], claiming: ground.signer.publicKey)
        try await TamperCase.verify([
            try ground.tampered("its time", wrong) { $0[at] = try $0[at].replacing("12:25:00", with: "12:25:01") },
            try ground.tampered("its sequence", "broken: line 1503, node a, checkpoint 1501: its signature is wrong") {
                $0[at] = try $0[at].replacing(#""sequence":1500"#, with: #""sequence":1501"#)
            },
            ground.tampered("its signature", wrong) { lines in
                lines[at] = pretended.line
            },
            try ground.tampered(
                "its key",
                "broken: line 1503, node a, checkpoint 1500: not signed by a given key: "
                    + "no given key vouches from record 1001 on"
            ) {
                $0[at] = try $0[at].replacing(
                    ground.signer.publicKey.keyId.hex, with: ground.otherSigner.publicKey.keyId.hex)
            },
            ground.tampered(
                "signed by another key",
                "broken: line 1503, node a, checkpoint 1500: not signed by a given key: "
                    + "no given key vouches from record 1001 on"
            ) {
                $0[at] = foreignCheckpoint.line
            },
            ground.tampered(
                "the auditor has another key",
                "broken: line 501, node a, checkpoint 500: not signed by a given key: "
                    + "no given key vouches from record 1 on",
                keys: ground.otherSigner.publicKey.pem),
            try ground.tampered("a day that is none", unread) {
                $0[at] = try $0[at].replacing("2026-01-31", with: "2026-02-30")
            },
            try ground.tampered("a leap second", unread) {
                $0[at] = try $0[at].replacing("12:25:00", with: "12:25:60")
            },
            try ground.tampered("a member more", unread) {
                $0[at] = try $0[at].replacing(#"},"signature""#, with: #","x":1},"signature""#)
            },
            ground.tampered("base64 without an end", unread) {
                $0[at].replaceSubrange(($0[at].count - 3)..., with: Array("\"}".utf8))
            },
            ground.tampered(
                "a head with a wrong signature", "broken: head, node a, checkpoint 1500: its signature is wrong",
                head: pretended.line),
            ground.tampered(
                "a head of another key", "broken: head, node a, checkpoint 1500: not signed by a given key",
                head: foreignCheckpoint.line),
            ground.tampered(
                "a head of another node", "broken: head, node b, checkpoint 400: the export has no line of this node",
                head: ground.b.lines[400]),
        ])
    }
}

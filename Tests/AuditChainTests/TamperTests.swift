import AuditChain
import TestSupport
import Testing

@Suite("Tampering, found by both verifiers with the same words")
struct TamperTests {
    @Test("What is whole is intact, whichever way it is cut at checkpoints")
    func whole() async throws {
        let ground = try await TamperGround.shared.value
        let intact = "intact: node a, records 1 to 3000, sealed at 2026-01-31T12:50:00.000Z"
        let both = intact + "\nintact: node b, records 1 to 1200, sealed at 2026-01-31T12:20:00.000Z"
        var interleaved: [[UInt8]] = []
        for position in ground.a.lines.indices {
            interleaved.append(ground.a.lines[position])
            if position < ground.b.lines.count { interleaved.append(ground.b.lines[position]) }
        }
        try await judge([
            ground.tampered("untouched", intact),
            ground.tampered("the head is the last checkpoint", intact, head: ground.checkpoint(3000)),
            ground.tampered(
                "two heads on the way", intact, head: [ground.checkpoint(500), ground.checkpoint(2500)].export),
            ground.exported("two nodes, one after the other", both, (ground.a.lines + ground.b.lines).export),
            ground.exported("two nodes, line by line", both, interleaved.export),
            ground.exported(
                "two nodes with keys of their own", both, (ground.a.lines + ground.foreign.lines).export,
                keys: ground.signer.publicKey.pem + ground.stranger.publicKey.pem),
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
            ground.tampered("a checkpoint stands twice", intact) {
                $0.insert(ground.checkpoint(1500), at: ground.checkpointIndex(1500))
            },
        ])
    }

    @Test("Changed records are found and named")
    func changed() async throws {
        let ground = try await TamperGround.shared.value
        let found =
            "broken: line 1236, node a, record 1234: its hash does not follow from record 1233: "
            + "one of the two was changed"
        let unread = "broken: line 1236: neither a record nor a checkpoint; the last good line is node a, record 1233"
        let at = ground.index(1234)
        try await judge([
            try ground.tampered("a byte of the body", found) {
                $0[at] = try $0[at].replacing("checkout", with: "checkouT")
            },
            try ground.tampered("the outcome", found) { $0[at] = try $0[at].replacing(#""ok""#, with: #""repeat""#) },
            try ground.tampered("a blank inside", found) {
                $0[at] = try $0[at].replacing(",\"gid\"", with: ", \"gid\"")
            },
            try ground.tampered("an escape for a character", found) {
                $0[at] = try $0[at].replacing("checkout", with: #"chec\u006bout"#)
            },
            try ground.tampered("members in another order", found) {
                $0[at] = try $0[at].replacing(#""uid":1001,"gid":1002"#, with: #""gid":1002,"uid":1001"#)
            },
            try ground.tampered("a member more", found) {
                $0[at] = try $0[at].replacing(#""token""#, with: #""note":"x","token""#)
            },
            ground.tampered("a digit of the hash", found) { $0[at][$0[at].count - 3] ^= 1 },
            ground.tampered("the hash of the record before", found) { lines in
                let tail = lines[at - 1].suffix(75)
                lines[at].replaceSubrange((lines[at].count - 75)..., with: tail)
            },
            try ground.tampered("a blank at the beginning", unread) {
                $0[at] = try $0[at].replacing("{\"node", with: "{ \"node")
            },
            ground.tampered("a blank at the end", unread) { $0[at].append(0x20) },
            ground.tampered("a carriage return", unread) { $0[at].append(0x0D) },
            ground.tampered("an empty line", unread) { $0.insert([], at: at) },
            try ground.tampered("time after the event", unread) {
                $0[at] = try $0[at].replacing(
                    #""time":"2026-01-31T12:20:34.000Z","event":"decrypt""#,
                    with: #""event":"decrypt","time":"2026-01-31T12:20:34.000Z""#)
            },
            ground.tampered("the hash not at the end", unread) { lines in
                lines[at].removeLast()
                lines[at].append(contentsOf: Array(#","x":1}"#.utf8))
            },
            ground.tampered("the hash in upper case", unread) { lines in
                let hash = String(decoding: lines[at].suffix(66), as: UTF8.self).uppercased()
                lines[at].replaceSubrange((lines[at].count - 66)..., with: Array(hash.utf8))
            },
            ground.tampered("bytes that are no text", unread) { $0[at] = [0, 0xFF, 0xFE, 0x0D, 0x80] },
            ground.tampered(
                "a byte order mark", "broken: line 1: neither a record nor a checkpoint; no good line stands before it"
            ) {
                $0[0].insert(contentsOf: [0xEF, 0xBB, 0xBF], at: 0)
            },
            try ground.tampered(
                "the first record",
                "broken: line 1, node a, record 1: its hash does not follow from the chain's beginning: it was changed"
            ) { $0[0] = try $0[0].replacing("checkout", with: "checkouT") },
            try ground.tampered(
                "the last record",
                "broken: line 3005, node a, record 3000: its hash does not follow from record 2999: one of the two was changed"
            ) { $0[3004] = try $0[3004].replacing("checkout", with: "checkouT") },
            ground.tampered("a line without an end", "broken: line 1236: longer than 16384 bytes") {
                $0[at].insert(contentsOf: [UInt8](repeating: 0x20, count: 16_384), at: 100)
            },
        ])
    }

    @Test("Removed, repeated, reordered and renumbered records are found and named")
    func moved() async throws {
        let ground = try await TamperGround.shared.value
        let at = ground.index(1234)
        try await judge([
            ground.tampered("one removed", "broken: line 1236, node a, record 1235: record 1234 is missing before it") {
                $0.remove(at: at)
            },
            ground.tampered(
                "seven removed", "broken: line 1236, node a, record 1241: records 1234 to 1240 are missing before it"
            ) { $0.removeSubrange(at..<at + 7) },
            ground.tampered(
                "all between two checkpoints removed",
                "broken: line 502, node a, checkpoint 1000: records 501 to 1000 are missing before it"
            ) { $0.removeSubrange(ground.index(501)...ground.index(1000)) },
            ground.tampered(
                "the one before a checkpoint removed",
                "broken: line 500, node a, checkpoint 500: record 500 is missing before it"
            ) { $0.remove(at: ground.index(500)) },
            ground.tampered(
                "the first removed",
                "broken: line 1, node a, record 2: no signed checkpoint of record 1 stands before it"
            ) { $0.removeFirst() },
            ground.tampered(
                "the beginning removed without a checkpoint",
                "broken: line 1, node a, record 1001: no signed checkpoint of record 1000 stands before it"
            ) { $0.removeSubrange(...ground.checkpointIndex(1000)) },
            ground.tampered(
                "the beginning removed behind an older checkpoint",
                "broken: line 2, node a, record 1001: records 501 to 1000 are missing before it"
            ) { $0.replaceSubrange(...ground.checkpointIndex(1000), with: [ground.checkpoint(500)]) },
            ground.tampered(
                "one repeated",
                "broken: line 1237, node a, record 1234: stands after record 1234: repeated, inserted or out of order"
            ) { $0.insert($0[at], at: at) },
            ground.tampered("two swapped", "broken: line 1236, node a, record 1235: record 1234 is missing before it") {
                $0.swapAt(at, at + 1)
            },
            ground.tampered(
                "one moved to the end",
                "broken: line 1236, node a, record 1235: record 1234 is missing before it"
            ) { $0.append($0.remove(at: at)) },
            try ground.tampered(
                "renumbered", "broken: line 1236, node a, record 1235: record 1234 is missing before it"
            ) {
                $0[at] = try $0[at].replacing(#""sequence":1234"#, with: #""sequence":1235"#)
            },
            try ground.tampered(
                "all after it renumbered to hide a removed one",
                "broken: line 1236, node a, record 1234: its hash does not follow from record 1233: one of the two was changed"
            ) { lines in
                lines.remove(at: at)
                for sequence in 1235...1500 {
                    let place = ground.index(sequence) - 1
                    lines[place] = try lines[place].replacing(
                        #""sequence":\#(sequence)"#, with: #""sequence":\#(sequence - 1)"#)
                }
            },
            try ground.tampered(
                "a number with a leading zero",
                "broken: line 1236: neither a record nor a checkpoint; the last good line is node a, record 1233"
            ) { $0[at] = try $0[at].replacing(#""sequence":1234"#, with: #""sequence":01234"#) },
            ground.tampered(
                "an old checkpoint later",
                "broken: line 702, node a, checkpoint 500: stands after record 700: repeated, inserted or out of order"
            ) { $0.insert(ground.checkpoint(500), at: 701) },
            ground.tampered(
                "a checkpoint too early",
                "broken: line 999, node a, checkpoint 1000: records 998 to 1000 are missing before it"
            ) { $0.insert(ground.checkpoint(1000), at: 998) },
        ])
    }

    @Test("Inserted records are found, by hash, by number and by the signature that nobody can make")
    func inserted() async throws {
        let ground = try await TamperGround.shared.value
        var head = ground.a.heads[1232]
        let forged = head.append(SyntheticChain.record(1234, salt: "forged")).bytes
        let anew = try await ground.forged(from: 1234) { head in try await ground.signer.checkpoint(head).line }
        let unsigned = try await ground.forged(from: 1234) { ground.checkpoint($0.sequence) }
        let stranger = try await ground.forged(from: 1234) { try await ground.stranger.checkpoint($0).line }
        let pretended = try await ground.forged(from: 1234) { head in
            try await ground.stranger.checkpoint(head, claiming: ground.signer.publicKey).line
        }
        try await judge([
            ground.tampered(
                "one with a good hash",
                "broken: line 1237, node a, record 1234: stands after record 1234: repeated, inserted or out of order"
            ) { $0.insert(forged, at: ground.index(1234)) },
            ground.tampered(
                "one in the place of another",
                "broken: line 1237, node a, record 1235: its hash does not follow from record 1234: one of the two was changed"
            ) { $0[ground.index(1234)] = forged },
            ground.exported(
                "all hashes made anew, the checkpoints kept",
                "broken: line 1503, node a, checkpoint 1500: seals another record 1500: one after 1000 was changed "
                    + "and the hashes made anew",
                unsigned.export),
            ground.exported(
                "all hashes made anew, signed by another key",
                "broken: line 1503, node a, checkpoint 1500: not signed by a given key", stranger.export),
            ground.exported(
                "all hashes made anew, signed by another key in the right one's name",
                "broken: line 1503, node a, checkpoint 1500: its signature is wrong", pretended.export),
            ground.exported(
                "made anew with the right key, a stated limit",
                "intact: node a, records 1 to 3000, sealed at 2026-01-31T12:50:00.000Z", anew.export),
            ground.exported(
                "made anew with the right key, found with a head",
                "broken: line 2501, node a, record 2497: not the record that the head seals: "
                    + "the ledger was rolled back or rewritten",
                anew.export, head: try await ground.signer.checkpoint(ground.a.heads[2496]).line),
        ])
    }

    @Test("Another node's lines are found")
    func otherNode() async throws {
        let ground = try await TamperGround.shared.value
        let intact = "intact: node a, records 1 to 3000, sealed at 2026-01-31T12:50:00.000Z"
        try await judge([
            ground.tampered(
                "some from the middle",
                "broken: line 101, node b, record 100: no signed checkpoint of record 99 stands before it"
            ) { $0.insert(contentsOf: ground.b.lines[99..<110], at: 100) },
            ground.tampered(
                "some from its beginning", intact + "\nunsealed: node b, records 1 to 10, 10 after record 0 not sealed"
            ) { $0.insert(contentsOf: ground.b.lines[..<10], at: 100) },
            try ground.tampered(
                "one under this node's name",
                "broken: line 101, node a, record 101: its hash does not follow from record 100: one of the two was changed"
            ) { $0[100] = try ground.b.lines[100].replacing(#""node":"b""#, with: #""node":"a""#) },
            ground.tampered(
                "in the place of this node's",
                "broken: line 101, node b, record 101: no signed checkpoint of record 100 stands before it"
            ) { $0[100] = ground.b.lines[100] },
            ground.exported(
                "with a stranger's checkpoints", "broken: line 3407, node b, checkpoint 400: not signed by a given key",
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

    @Test("A cut-off end is unsealed, or shows against a head that was kept")
    func cut() async throws {
        let ground = try await TamperGround.shared.value
        let start = ground.checkpointIndex(1000)
        try await judge([
            ground.tampered(
                "at a checkpoint, a stated limit",
                "intact: node a, records 1 to 2500, sealed at 2026-01-31T12:41:40.000Z"
            ) { $0.removeSubrange((ground.checkpointIndex(2500) + 1)...) },
            ground.tampered(
                "at a checkpoint, with a head",
                "broken: head, node a, checkpoint 3000: the export ends at record 2500: it was cut off or the ledger rolled back",
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
                "intact: node a, records 1 to 3000, sealed at 2026-01-31T12:50:00.000Z", ground.regrown.lines.export),
            ground.exported(
                "rolled back and grown anew, with a head",
                "broken: line 2504, node a, record 2500: not the record that the head seals: the ledger was rolled back or rewritten",
                ground.regrown.lines.export, head: ground.checkpoint(2500)),
            ground.exported(
                "rolled back and grown anew, beginning at the head",
                "broken: line 1, node a, checkpoint 2500: not the record that the head seals: the ledger was rolled back or rewritten",
                Array(ground.regrown.lines[ground.checkpointIndex(2500)...]).export, head: ground.checkpoint(2500)),
            ground.tampered(
                "a beginning behind the head",
                "broken: head, node a, checkpoint 500: the export begins later, at record 1001: "
                    + "compare with one from before",
                head: ground.checkpoint(500)
            ) { $0.removeSubrange(..<start) },
        ])
    }

    @Test("Checkpoints that were changed, and heads that are nobody's, are found")
    func checkpoints() async throws {
        let ground = try await TamperGround.shared.value
        let at = ground.checkpointIndex(1500)
        let wrong = "broken: line 1503, node a, checkpoint 1500: its signature is wrong"
        let unread = "broken: line 1503: neither a record nor a checkpoint; the last good line is node a, record 1500"
        let stranger = try await ground.stranger.checkpoint(ground.a.heads[1499])
        let pretended = try await ground.stranger.checkpoint(ground.a.heads[1499], claiming: ground.signer.publicKey)
        try await judge([
            try ground.tampered("its time", wrong) { $0[at] = try $0[at].replacing("12:25:00", with: "12:25:01") },
            try ground.tampered("its sequence", "broken: line 1503, node a, checkpoint 1501: its signature is wrong") {
                $0[at] = try $0[at].replacing(#""sequence":1500"#, with: #""sequence":1501"#)
            },
            ground.tampered("its signature", wrong) { lines in
                lines[at] = pretended.line
            },
            try ground.tampered("its key", "broken: line 1503, node a, checkpoint 1500: not signed by a given key") {
                $0[at] = try $0[at].replacing(
                    ground.signer.publicKey.keyId.hex, with: ground.stranger.publicKey.keyId.hex)
            },
            ground.tampered(
                "signed by another key", "broken: line 1503, node a, checkpoint 1500: not signed by a given key"
            ) {
                $0[at] = stranger.line
            },
            ground.tampered(
                "the auditor has another key", "broken: line 501, node a, checkpoint 500: not signed by a given key",
                keys: ground.stranger.publicKey.pem),
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
                head: stranger.line),
            ground.tampered(
                "a head of another node", "broken: head, node b, checkpoint 400: the export has no line of this node",
                head: ground.b.lines[400]),
        ])
    }

    /// Both verifiers say what is expected, and no more; the script's exit status fits.
    private func judge(_ cases: [TamperCase], sourceLocation: SourceLocation = #_sourceLocation) async throws {
        let script = try await TamperCase.scriptVerdicts(cases)
        try #require(script.count == cases.count)
        for (tampered, scriptVerdict) in zip(cases, script) {
            let verdict = try tampered.swiftVerdict()
            #expect(verdict.description == tampered.expected, "\(tampered)", sourceLocation: sourceLocation)
            #expect(scriptVerdict.output == tampered.expected + "\n", "\(tampered)", sourceLocation: sourceLocation)
            #expect(scriptVerdict.status == Int(verdict.exitStatus), "\(tampered)", sourceLocation: sourceLocation)
            let intact = !tampered.expected.contains("broken") && !tampered.expected.contains("unsealed")
            #expect((verdict.exitStatus == 0) == intact, "\(tampered)", sourceLocation: sourceLocation)
        }
    }
}

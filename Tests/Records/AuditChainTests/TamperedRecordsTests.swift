import AuditChain
import TestSupport
import Testing

@Suite("Tampered records, on which both verifiers agree")
struct TamperedRecordsTests {
    @Test("names each changed record")
    func changed() async throws {
        let ground = try await TamperFixture.shared.value
        let found =
            "broken: line 1236, node a, record 1234: its hash does not follow from record 1233: "
            + "one of the two was changed"
        let unread = "broken: line 1236: neither a record nor a checkpoint; the last good line is node a, record 1233"
        let at = ground.index(1234)
        try await TamperCase.verify([
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
                "a byte order mark", "broken: line 1: neither a record nor a checkpoint; no good line precedes it"
            ) {
                $0[0].insert(contentsOf: [0xEF, 0xBB, 0xBF], at: 0)
            },
            try ground.tampered(
                "the first record",
                "broken: line 1, node a, record 1: its hash does not follow from the chain's beginning: it was changed"
            ) { $0[0] = try $0[0].replacing("checkout", with: "checkouT") },
            try ground.tampered(
                "the last record",
                "broken: line 3005, node a, record 3000: its hash does not follow from record 2999: one of the two "
                    + "was changed"
            ) { $0[3004] = try $0[3004].replacing("checkout", with: "checkouT") },
            ground.tampered("a line without an end", "broken: line 1236: longer than 16384 bytes") {
                $0[at].insert(contentsOf: [UInt8](repeating: 0x20, count: 16_384), at: 100)
            },
        ])
    }

    @Test("names each removed, repeated, reordered or renumbered record")
    func moved() async throws {
        let ground = try await TamperFixture.shared.value
        let at = ground.index(1234)
        try await TamperCase.verify([
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
                "broken: line 1, node a, record 2: no signed checkpoint of record 1 precedes it"
            ) { $0.removeFirst() },
            ground.tampered(
                "the beginning removed without a checkpoint",
                "broken: line 1, node a, record 1001: no signed checkpoint of record 1000 precedes it"
            ) { $0.removeSubrange(...ground.checkpointIndex(1000)) },
            ground.tampered(
                "the beginning removed behind an older checkpoint",
                "broken: line 2, node a, record 1001: records 501 to 1000 are missing before it"
            ) { $0.replaceSubrange(...ground.checkpointIndex(1000), with: [ground.checkpoint(500)]) },
            ground.tampered(
                "one repeated",
                "broken: line 1237, node a, record 1234: comes after record 1234: repeated, inserted or out of order"
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
                "broken: line 1236, node a, record 1234: its hash does not follow from record 1233: one of the two "
                    + "was changed"
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
                "broken: line 702, node a, checkpoint 500: comes after record 700: repeated, inserted or out of order"
            ) { $0.insert(ground.checkpoint(500), at: 701) },
            ground.tampered(
                "a checkpoint too early",
                "broken: line 999, node a, checkpoint 1000: records 998 to 1000 are missing before it"
            ) { $0.insert(ground.checkpoint(1000), at: 998) },
        ])
    }

    @Test("detects an inserted record by its hash, by its number, or by the checkpoint's signature")
    func inserted() async throws {
        let ground = try await TamperFixture.shared.value
        var head = ground.a.heads[1232]
        let forged = head.append(SyntheticChain.record(1234, salt: "forged")).bytes
        let anew = try await ground.forged(from: 1234) { head in try await ground.signer.checkpoint(head).line }
        let unsigned = try await ground.forged(from: 1234) { ground.checkpoint($0.sequence) }
        let foreignCheckpoint = try await ground.forged(from: 1234) { try await ground.otherSigner.checkpoint($0).line }
        let pretended = try await ground.forged(from: 1234) { head in
            try await ground.otherSigner.checkpoint(head, claiming: ground.signer.publicKey).line
        }
        try await TamperCase.verify([
            ground.tampered(
                "one with a good hash",
                "broken: line 1237, node a, record 1234: comes after record 1234: repeated, inserted or out of order"
            ) { $0.insert(forged, at: ground.index(1234)) },
            ground.tampered(
                "one in the place of another",
                "broken: line 1237, node a, record 1235: its hash does not follow from record 1234: one of the two "
                    + "was changed"
            ) { $0[ground.index(1234)] = forged },
            ground.exported(
                "all hashes recomputed, the checkpoints kept",
                "broken: line 1503, node a, checkpoint 1500: seals another record 1500: one after 1000 was changed "
                    + "and the hashes recomputed",
                unsigned.export),
            ground.exported(
                "all hashes recomputed, signed by another key",
                "broken: line 1503, node a, checkpoint 1500: not signed by a given key: "
                    + "no given key vouches from record 1001 on", foreignCheckpoint.export),
            ground.exported(
                "all hashes recomputed, signed by another key in the right one's name",
                "broken: line 1503, node a, checkpoint 1500: its signature is wrong", pretended.export),
            ground.exported(
                "recomputed with the right key, a stated limit",
                "intact: node a, records 1 to 3000, sealed at 2026-01-31T12:50:00.000Z", anew.export),
            ground.exported(
                "recomputed with the right key, found with a head",
                "broken: line 2501, node a, record 2497: not the record that the head seals: "
                    + "the ledger was rolled back or rewritten",
                anew.export, head: try await ground.signer.checkpoint(ground.a.heads[2496]).line),
        ])
    }
}

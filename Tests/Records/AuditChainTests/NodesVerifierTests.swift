import AuditChain
import Foundation
import TestSupport
import Testing

@Suite("Audit records of several nodes, verified separately")
struct NodesVerifierTests {
    /// An export, the keys that are trusted for it, and the verdict of both verifiers.
    private struct Case {
        let name: String
        let export: [UInt8]
        /// Trusted keys that may belong to any node, in PEM.
        var pool: String?
        var bound: [(node: String, pem: String)] = []
        var only: String?
        var pinnedBy: String?
        var head: [UInt8]?
        var expected = ""
        var absent: [String] = []

        func swiftVerdict() throws -> NodesVerdict {
            var trusted = TrustedKeys(given: try pool.map { try required(CheckpointKeys(pem: $0)) })
            for (node, pem) in bound {
                trusted.give(try required(CheckpointKeys(pem: pem)), for: try required(AuditNode(node)))
            }
            let heads = try head.map { try required(SignedCheckpoint.list(parsing: $0)) } ?? []
            if let pinning = pinnedBy.flatMap(AuditNode.init) {
                var verifier = ChainVerifier(separately: trusted, heads: heads, only: pinning, readsPins: true)
                verifier.consume(export[...])
                trusted.trust(verifier.pins, of: pinning)
            }
            var verifier = ChainVerifier(separately: trusted, heads: heads, only: only.flatMap(AuditNode.init))
            for start in stride(from: 0, to: export.count, by: 777) {
                verifier.consume(export[start..<min(start + 777, export.count)])
            }
            return verifier.verdictOfNodes()
        }

        func arguments(_ number: Int, in directory: FreshDirectory) throws -> [String] {
            var arguments = [try directory.write(export, to: "\(number).jsonl")]
            if let pool { arguments.append(try directory.write(pool, to: "\(number).pem")) }
            for (node, pem) in bound {
                arguments.append("\(node)=" + (try directory.write(pem, to: "\(number)-\(node).pem")))
            }
            arguments += ["--node", only ?? "all"]
            if let pinnedBy { arguments += ["--pinned-by", pinnedBy] }
            if let head { arguments += ["--head", try directory.write(head, to: "\(number).head")] }
            return arguments
        }
    }

    private static func verify(_ cases: [Case], expects: Bool = true) async throws {
        let directory = try FreshDirectory()
        let script = try await VerifierScript.verdicts(
            cases.enumerated().map { number, tested in try tested.arguments(number, in: directory) })
        try #require(script.count == cases.count)
        for (tested, scriptVerdict) in zip(cases, script) {
            let verdict = try tested.swiftVerdict()
            if expects { #expect(verdict.description == tested.expected, "\(tested.name)") }
            #expect(scriptVerdict.output == verdict.description + "\n", "\(tested.name)")
            #expect(scriptVerdict.status == Int(verdict.exitStatus), "\(tested.name)")
            let expected = ExpectedStatus.of(verdict.description, head: tested.head)
            #expect(verdict.absentNodes.map(\.name) == tested.absent, "\(tested.name)")
            #expect(verdict.exitStatus == (expected == 0 && !tested.absent.isEmpty ? 2 : expected), "\(tested.name)")
        }
    }

    /// Signers for the records of two nodes. Node a has 20 records, some of which name node b's keys. Node b has 40
    /// records. Record 20 announces a second key, which seals records 21 to 40.
    private struct Ground {
        let a: CheckpointSigner
        let b: CheckpointSigner
        let next: CheckpointSigner
        let outsider: CheckpointSigner
        let nodeA = AuditNode("a")!
        let nodeB = AuditNode("b")!

        init() throws {
            a = try CheckpointSigner()
            b = try CheckpointSigner()
            next = try CheckpointSigner()
            outsider = try CheckpointSigner()
        }

        /// Returns node a's lines. The events in `pins` become records 5, 6 and so on. A checkpoint follows every tenth
        /// record.
        func recordA(_ pins: [AuditEvent], records: Int = 20) async throws -> [[UInt8]] {
            var head = ChainHead(node: nodeA)
            var lines: [[UInt8]] = []
            for sequence in 1...records {
                var record = SyntheticChain.record(sequence)
                if sequence >= 5, sequence - 5 < pins.count {
                    record = AuditRecord(time: SyntheticChain.time(sequence), event: pins[sequence - 5])
                }
                lines.append(head.append(record).bytes)
                if sequence % 10 == 0 { lines.append(try await a.checkpoint(head).line) }
            }
            return lines
        }

        func recordB(first: CheckpointSigner, second: CheckpointSigner) async throws -> [[UInt8]] {
            var head = ChainHead(node: nodeB)
            var lines: [[UInt8]] = []
            for sequence in 1...40 {
                var record = SyntheticChain.record(sequence)
                if sequence == 20 {
                    record.event = .auditKeyPrepare(from: first.publicKey.keyId, to: second.publicKey.keyId)
                }
                lines.append(head.append(record).bytes)
                let signer = sequence <= 20 ? first : second
                if sequence % 10 == 0 { lines.append(try await signer.checkpoint(head).line) }
            }
            return lines
        }

        func firstSight(_ signers: CheckpointSigner...) throws -> AuditEvent {
            .auditKeyPinned(try required(KeyPin(trustedOnFirstUse: signers.map(\.publicKey), of: nodeB)))
        }

        func vouched(_ signer: CheckpointSigner, by endorsement: CheckpointSigner) -> AuditEvent {
            .auditKeyPinned(
                KeyPin(signer.publicKey, of: nodeB, by: .init(keyId: endorsement.publicKey.keyId, sequence: 20)))
        }
    }

    private static let aIntact = "intact: node a, records 1 to 20, sealed at 2026-01-31T12:00:20.000Z, key given"
    private static func bIntact(_ key: String) -> String {
        "intact: node b, records 1 to 40, sealed at 2026-01-31T12:00:40.000Z, \(key)"
    }

    @Test("trusts the given keys and keys that a verified record names, and reports which of them it used")
    func keys() async throws {
        let ground = try Ground()
        let b = try await ground.recordB(first: ground.b, second: ground.next)
        let (first, both) = (try ground.firstSight(ground.b), try ground.firstSight(ground.b, ground.next))
        let aKey = [(node: "a", pem: ground.a.publicKey.pem)]
        let pems = [ground.a, ground.b, ground.next].map(\.publicKey.pem).joined()
        let pinned = Self.bIntact("key pinned by node a")
        let plain = (try await ground.recordA([]) + b).export
        let all = (try await ground.recordA([both]) + b).export
        let turned = (try await b + ground.recordA([first, ground.vouched(ground.next, by: ground.b)])).export
        try await Self.verify([
            Case(
                name: "given for all", export: plain, pool: pems,
                expected: Self.aIntact + "\n" + Self.bIntact("key given")),
            Case(
                name: "given for each", export: plain,
                bound: aKey + [("b", ground.b.publicKey.pem + ground.next.publicKey.pem)],
                expected: Self.aIntact + "\n" + Self.bIntact("key given")),
            Case(
                name: "pinned at first sight", export: all, bound: aKey, pinnedBy: "a",
                expected: Self.aIntact + "\n" + pinned),
            Case(
                name: "a later key that a pinned one vouches for, and the pins behind what they are for",
                export: turned,
                bound: aKey, pinnedBy: "a", expected: Self.aIntact + "\n" + pinned),
            Case(name: "only the other node", export: all, bound: aKey, only: "b", pinnedBy: "a", expected: pinned),
            Case(
                name: "a given key outranks a pinned one", export: all,
                bound: aKey + [("b", ground.outsider.publicKey.pem)], pinnedBy: "a",
                expected: Self.aIntact + "\nbroken: line 33, node b, checkpoint 10: not signed by a given key: "
                    + "no given key vouches from record 1 on"),
            Case(
                name: "neither given nor pinned", export: plain, bound: aKey, pinnedBy: "a",
                expected: Self.aIntact
                    + "\nunverified: node b, records 1 to 40, no key given and none pinned: nothing was verified"),
            Case(
                name: "pins that nobody was asked to believe", export: all, bound: aKey,
                expected: Self.aIntact
                    + "\nunverified: node b, records 1 to 40, no key given and none pinned: nothing was verified"),
        ])
    }

    @Test("rejects keys of an unsealed trust record, keys for which no earlier key vouches, and replaced keys")
    func pins() async throws {
        let ground = try Ground()
        let b = try await ground.recordB(first: ground.b, second: ground.next)
        let (first, again) = (try ground.firstSight(ground.b), try ground.firstSight(ground.b, ground.next))
        let aKey = [(node: "a", pem: ground.a.publicKey.pem)]
        func tested(_ name: String, _ a: [[UInt8]], _ b: [[UInt8]], _ expected: String) -> Case {
            Case(name: name, export: (a + b).export, bound: aKey, pinnedBy: "a", expected: expected)
        }
        func unvouched(_ sequence: Int) -> String {
            Self.aIntact
                + "\nbroken: node b: record \(sequence) of node a pins another key for it, which no key pinned before vouches for"
        }
        var unsealed = try await ground.recordA([first], records: 9)
        try await Self.verify([
            tested(
                "unsealed", unsealed, b,
                "unsealed: node a, records 1 to 9, 9 after record 0 not sealed\n"
                    + "unverified: node b, records 1 to 40, no key given and none pinned: nothing was verified"),
            tested("a second first sight", try await ground.recordA([first, again]), b, unvouched(6)),
            tested(
                "vouched for by a outsider",
                try await ground.recordA([first, ground.vouched(ground.next, by: ground.outsider)]), b, unvouched(6)),
            tested(
                "a key replaced and the record signed anew", try await ground.recordA([first]),
                try await ground.recordB(first: ground.outsider, second: ground.outsider),
                Self.aIntact + "\nbroken: line 33, node b, checkpoint 10: not signed by a given key: "
                    + "no given key vouches from record 1 on"),
            tested(
                "a pinned node without a line", try await ground.recordA([first]), [],
                Self.aIntact + "\nbroken: node b: there is no line of it"),
            Case(
                name: "a node that a key is given for, without a line",
                export: try await ground.recordA([first]).export, bound: aKey + [("c", aKey[0].pem)],
                expected: Self.aIntact + "\nbroken: node c: there is no line of it", absent: ["b"]),
        ])
        // A change in a record that trusts a key is detected like a change in any other line.
        unsealed = try await ground.recordA([first])
        unsealed[4] = try unsealed[4].replacing(ground.b.publicKey.keyId.hex, with: ground.next.publicKey.keyId.hex)
        try await Self.verify([
            tested(
                "a changed pin", unsealed, b,
                "broken: line 5, node a, record 5: its hash does not follow from record 4: one of the two was changed\n"
                    + "unverified: node b, records 1 to 40, no key given and none pinned: nothing was verified")
        ])
    }

    @Test("exits 2 for an export from which a node that the record names was removed, unless one node is chosen")
    func absentNode() async throws {
        let ground = try Ground()
        let b = try await ground.recordB(first: ground.b, second: ground.b)
        let a = try await ground.recordA([try ground.firstSight(ground.b)])
        let aKey = [(node: "a", pem: ground.a.publicKey.pem)]
        let head = try #require(a.last) + [0x0A]
        try await Self.verify([
            Case(name: "removed", export: a.export, bound: aKey, head: head, expected: Self.aIntact, absent: ["b"]),
            Case(name: "chosen", export: a.export, bound: aKey, only: "a", head: head, expected: Self.aIntact),
            Case(
                name: "present", export: (a + b).export, bound: aKey + [("b", ground.b.publicKey.pem)], head: head,
                expected: Self.aIntact + "\n" + Self.bIntact("key given")),
            Case(
                name: "not sealed yet", export: Array(a[..<9]).export, bound: aKey,
                expected:
                    "unsealed: node a, records 1 to 9, 9 after record 0 not sealed"),
        ])
        // Without `--node`, the script must report the absent node too.
        let directory = try FreshDirectory()
        let files = try [a.export, Array(ground.a.publicKey.pem.utf8), head].enumerated().map {
            try directory.write($1, to: "\($0)")
        }
        let plain = try await Program.run(VerifierScript.path, [files[0], files[1], "--head", files[2]])
        #expect(plain.status == 2)
        #expect(plain.error.contains("the records name node b, of which there is no line here"), "\(plain.error)")
        var verifier = ChainVerifier(keys: CheckpointKeys([ground.a.publicKey]))
        verifier.consume(a.export[...])
        #expect(verifier.absentNodes == [ground.nodeB])
    }

    @Test("verifies the other nodes after a fault in one node's record, but stops at a line that belongs to no node")
    func faults() async throws {
        let ground = try Ground()
        let (a, b) = (try await ground.recordA([]), try await ground.recordB(first: ground.b, second: ground.next))
        let pool = [ground.a, ground.b, ground.next].map(\.publicKey.pem).joined()
        let bIntact = Self.bIntact("key given")
        var changed = a
        changed[2] = try changed[2].replacing("checkout", with: "checkin!")
        var missing = b
        missing.remove(at: 12)
        let copied = try a[1].replacing("\"node\":\"a\"", with: "\"node\":\"b\"")
        try await Self.verify([
            Case(
                name: "changed", export: (changed + b).export, pool: pool,
                expected:
                    "broken: line 3, node a, record 3: its hash does not follow from record 2: one of the two was changed\n"
                    + bIntact),
            Case(
                name: "removed", export: (missing + a).export, pool: pool,
                expected: Self.aIntact + "\nbroken: line 13, node b, record 13: record 12 is missing before it"),
            Case(
                name: "a record of another node put in", export: (b[..<1] + [copied] + b[1...] + a).export, pool: pool,
                expected: Self.aIntact
                    + "\nbroken: line 2, node b, record 2: its hash does not follow from record 1: one of the two was changed"
            ),
            Case(
                name: "another node's whole line among these", export: (b[..<3] + [a[6]] + b[3...]).export, pool: pool,
                expected: "broken: line 4, node a, record 7: no signed checkpoint of record 6 precedes it\n"
                    + bIntact),
            Case(
                name: "nobody's", export: (a + [Array("{}".utf8)] + b).export, pool: pool,
                expected:
                    "broken: line 23: neither a record nor a checkpoint; the last good line is node a, checkpoint 20\n"
                    + Self.aIntact),
            Case(
                name: "cut off in a line", export: (a + b).export.dropLast(5), pool: pool,
                expected: "broken: line 66: not ended by a line feed: the export was cut off here\n" + Self.aIntact
                    + "\nunsealed: node b, records 1 to 40, 10 after record 30 not sealed, key given"),
            Case(
                name: "an older record", export: (a + b[..<22]).export, pool: pool, head: b[43] + [0x0A],
                expected: Self.aIntact
                    + "\nbroken: head, node b, checkpoint 40: the export ends at record 20: it was cut off or the ledger rolled "
                    + "back"),
            Case(name: "empty", export: [], pool: pool, expected: "unsealed: the export is empty"),
        ])
    }

    @Test("gives the same verdict in both verifiers for exports of several nodes that were changed at random")
    func random() async throws {
        let ground = try Ground()
        let a = try await ground.recordA([try ground.firstSight(ground.b)])
        let b = try await ground.recordB(first: ground.b, second: ground.b)
        let export = (Array(a[..<11]) + Array(b[..<11])).export
        var generator = SeededGenerator(seed: 12)
        let cases = (0..<200).map { number in
            var changed = export
            for _ in 0...Int.random(in: 0...2, using: &generator) {
                let position = Int.random(in: 0..<changed.count, using: &generator)
                switch Int.random(in: 0...3, using: &generator) {
                case 0: changed[position] = .random(in: 0...255, using: &generator)
                case 1: changed.remove(at: position)
                case 2: changed[position] = changed.randomElement(using: &generator) ?? 0
                default: changed.removeSubrange(position..<min(position + 300, changed.count))
                }
            }
            return Case(
                name: "random \(number)", export: changed, bound: [("a", ground.a.publicKey.pem)], pinnedBy: "a")
        }
        try await Self.verify(cases, expects: false)
    }
}

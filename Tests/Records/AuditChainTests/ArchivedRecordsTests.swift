import AuditChain
import Foundation
import TestSupport
import Testing

/// A chain of thirty records. Records 1 to 10 and 11 to 20 are in two archives, which records 21 and 25 name.
private struct ArchivedChain {
    let signer: CheckpointSigner
    /// The two archives, each beginning with the checkpoint before its first record, and the remaining records.
    let first: [[UInt8]]
    let second: [[UInt8]]
    let rest: [[UInt8]]

    /// - Parameters:
    ///   - last: the last sequence number of the second archive according to record 25.
    ///   - sealsEnd: true if a checkpoint seals record 25.
    init(last: Int = 20, sealsEnd: Bool = true) async throws {
        signer = try CheckpointSigner()
        var head = ChainHead(node: try required(AuditNode("a")))
        var hashes: [AuditDigest] = [.zero]
        var lines: [[UInt8]] = []
        var seals: [Int: [UInt8]] = [:]
        for sequence in 1...30 {
            var record = SyntheticChain.record(sequence)
            let archived = [21: (1, 10), 25: (11, last)][sequence]
            if let (first, last) = archived {
                let archive = RecordArchive(
                    first: first, last: last, hash: hashes[last], digest: .of([UInt8(sequence)]), size: 1)
                record = AuditRecord(time: record.time, event: .recordArchive(try required(archive)))
            }
            lines.append(head.append(record).bytes)
            hashes.append(head.hash)
            guard sequence % 10 == 0, sequence < 30 || sealsEnd else { continue }
            seals[sequence] = try await signer.checkpoint(head).line
        }
        let (ten, twenty) = (try required(seals[10]), try required(seals[20]))
        first = lines[..<10] + [ten]
        second = [ten] + lines[10..<20] + [twenty]
        rest = [twenty] + lines[20...] + (seals[30].map { [$0] } ?? [])
    }

    func verdict(_ parts: [[[UInt8]]], _ beginning: ChainBeginning) -> ChainVerdict {
        var verifier = ChainVerifier(keys: CheckpointKeys([signer.publicKey]), beginning: beginning)
        for part in parts { verifier.consume(part.export[...]) }
        return verifier.verdict()
    }
}

@Suite("An audit record whose beginning was archived")
struct ArchivedRecordsTests {
    @Test("verifies archives and the remaining records as one chain, and finds a missing or moved part")
    func joined() async throws {
        let chain = try await ArchivedChain()
        let (first, second, rest) = (chain.first, chain.second, chain.rest)
        let whole = "intact: node a, records 1 to 30, sealed at \(SyntheticChain.time(30).text)"
        let beginning = "broken: line 1, node a, checkpoint 10: records 1 to 10 are missing before it"
        let cases: [(archives: [[[UInt8]]], expected: String)] = [
            ([first, second], whole), ([second], beginning), ([second, first], beginning),
            ([first], "broken: line 12, node a, checkpoint 20: records 11 to 20 are missing before it"),
            (
                [first, first, second],
                "broken: line 12, node a, record 1: comes after record 10: repeated, inserted or out of order"
            ),
            ([first.dropLast(), second], whole),
            (
                [Array(first.dropLast(2)), second],
                "broken: line 10, node a, checkpoint 10: record 10 is missing before it"
            ),
        ]
        let directory = try FreshDirectory()
        let export = try directory.write(rest.export, to: "rest.jsonl")
        let key = try directory.write(chain.signer.publicKey.pem, to: "key.pem")
        var runs: [[String]] = []
        for (number, tested) in cases.enumerated() {
            var arguments = [export, key]
            for (part, archive) in tested.archives.enumerated() {
                arguments += ["--archive", try directory.write(archive.export, to: "\(number).\(part).jsonl")]
            }
            runs += [arguments, arguments + ["--node", "a"]]
        }
        let script = try await VerifierScript.verdicts(runs)
        try #require(script.count == runs.count)
        for (number, tested) in cases.enumerated() {
            let verdict = chain.verdict(tested.archives + [rest], .record1)
            #expect(verdict.description == tested.expected)
            #expect(script[2 * number].output == tested.expected + "\n")
            #expect(script[2 * number].status == Int(verdict.exitStatus))
            let byNode = tested.expected + (tested.expected == whole ? ", key given" : "")
            #expect(script[2 * number + 1].output == byNode + "\n")
        }
    }

    @Test("accepts the remaining records alone if one of them is sealed and names the archive before them")
    func afterArchive() async throws {
        let chain = try await ArchivedChain()
        #expect(chain.verdict([chain.rest], .afterArchive) == chain.verdict([chain.rest], .anyRecord))
        #expect(chain.verdict([chain.rest], .afterArchive).isIntact)
        // Record 21 names the first archive, so the second archive may also come first.
        #expect(chain.verdict([chain.second, chain.rest], .afterArchive).isIntact)
        #expect(chain.verdict([chain.rest], .record1).exitStatus == 1)
    }

    @Test("reports a beginning as removed unless a sealed record of the same chain names it as archived")
    func removed() async throws {
        let missing = "broken: line 1, node a, checkpoint 20: records 1 to 20 are missing before it"
        // The archive record gives the wrong end in the first chain, and is not sealed in the second.
        for chain in [try await ArchivedChain(last: 19), try await ArchivedChain(sealsEnd: false)] {
            #expect(chain.verdict([chain.rest], .afterArchive).description == missing)
        }
        // The archive record comes from another node.
        let (chain, other) = (try await ArchivedChain(last: 19), try await ArchivedChain())
        let renamed = other.rest.map { line in
            Array(String(decoding: line, as: UTF8.self).replacing(#""node":"a""#, with: #""node":"b""#).utf8)
        }
        #expect(chain.verdict([chain.rest, renamed], .afterArchive).exitStatus == 1)
    }

    @Test("reports each line that is missing from an archive, except a checkpoint between two other checkpoints")
    func everyLine() async throws {
        let chain = try await ArchivedChain()
        for line in chain.second.indices {
            var second = chain.second
            second.remove(at: line)
            let isWhole = chain.verdict([chain.first, second, chain.rest], .record1).isIntact
            // The first checkpoint also ends the previous archive, and the last one also precedes the remaining
            // records.
            #expect(isWhole == (line == 0 || line == chain.second.count - 1), "line \(line)")
        }
    }

    @Test("rejects an archive record with an impossible range or size", arguments: [(0, 1), (1, 0), (2, 1), (-1, -1)])
    func impossible(first: Int, last: Int) {
        #expect(RecordArchive(first: first, last: last, hash: .zero, digest: .zero, size: 1) == nil)
        #expect(RecordArchive(first: 1, last: 1, hash: .zero, digest: .zero, size: 0) == nil)
    }

    @Test("accepts a key that is trusted again after an archive, with or without the archived records")
    func pinsAgain() throws {
        let (a, b) = (try required(AuditNode("a")), try required(AuditNode("b")))
        let (key, other) = (try CheckpointSigner().publicKey, try CheckpointSigner().publicKey)
        let again = KeyPin(key, of: b, by: .init(keyId: key.keyId, sequence: 7))
        var whole = KeyPins()
        whole.add(try required(KeyPin(trustedOnFirstUse: [key], of: b)), recordedAt: 3, by: a)
        whole.add(again, recordedAt: 9, by: a)
        var part = KeyPins()
        part.add(again, recordedAt: 9, by: a, isWhole: false)
        for pins in [whole, part] {
            #expect(pins.keys == [b: [key]])
            #expect(pins.unendorsed.isEmpty)
        }
        // In a complete record, a key cannot vouch for itself.
        whole.add(KeyPin(other, of: b, by: .init(keyId: other.keyId, sequence: 8)), recordedAt: 10, by: a)
        #expect(whole.keys == [b: [key]])
        #expect(whole.unendorsed[b] != nil)
    }
}

import AuditChain
import TestSupport
import Testing

@Suite("Keys that seal one chain after each other, on which both verifiers agree")
struct SuccessiveKeysTests {
    /// The parts of an export, in order: a record of another event, an announcement of a key, or a checkpoint by a key.
    private enum Part {
        case record
        case announces(CheckpointSigner)
        case sealed(CheckpointSigner)
    }

    private let first: CheckpointSigner
    private let second: CheckpointSigner
    private let third: CheckpointSigner

    init() throws {
        (first, second, third) = (try CheckpointSigner(), try CheckpointSigner(), try CheckpointSigner())
    }

    private func lines(_ parts: [Part]) async throws -> [[UInt8]] {
        var head = ChainHead(node: try required(AuditNode("a")))
        var lines: [[UInt8]] = []
        for part in parts {
            let event: AuditEvent
            switch part {
            case .record: event = .stop
            case .announces(let next):
                event = .auditKeyPrepare(from: first.publicKey.keyId, to: next.publicKey.keyId)
            case .sealed(let signer):
                lines.append(try await signer.checkpoint(head).line)
                continue
            }
            lines.append(head.append(AuditRecord(time: SyntheticChain.time(head.sequence + 1), event: event)).bytes)
        }
        return lines
    }

    private func sentence(_ signer: CheckpointSigner, from record: Int) -> String {
        "; nothing here shows that the key before vouches for the key \(signer.publicKey.keyId.hex), which seals from "
            + "record \(record) on"
    }

    private func intact(_ records: ClosedRange<Int>) -> String {
        let time = SyntheticChain.time(records.upperBound).text
        return "intact: node a, records \(records.lowerBound) to \(records.upperBound), sealed at \(time)"
    }

    private func check(_ name: String, _ parts: [Part], _ expected: String, withoutFirst lines: Int = 0) async throws {
        let pem = [first, second, third].map(\.publicKey.pem).joined()
        let export = Array(try await self.lines(parts).dropFirst(lines)).export
        try await TamperCase.verify([TamperCase(name: name, export: export, keys: pem, head: nil, expected: expected)])
    }

    @Test("names no key that the key before has announced and sealed")
    func endorsed() async throws {
        try await check(
            "a change", [.record, .announces(second), .sealed(first), .record, .sealed(second)], intact(1...3))
        try await check(
            "two changes",
            [
                .announces(second), .sealed(first), .record, .sealed(second), .announces(third), .sealed(second),
                .record, .sealed(third),
            ], intact(1...4))
    }

    @Test("names a key that takes over without an announcement, and the first record that it seals")
    func unendorsed() async throws {
        try await check(
            "a lost key", [.record, .sealed(first), .record, .record, .sealed(second)],
            intact(1...3) + sentence(second, from: 2))
        try await check(
            "two lost keys",
            [.record, .sealed(first), .record, .sealed(second), .record, .sealed(third)],
            intact(1...3) + sentence(second, from: 2) + sentence(third, from: 3))
        try await check(
            "an end that is not sealed", [.record, .sealed(first), .record, .sealed(second), .record],
            "unsealed: node a, records 1 to 3, 1 after record 2 not sealed" + sentence(second, from: 2))
    }

    @Test("accepts no announcement that the new key itself or another key sealed, nor one for an earlier change")
    func othersAnnouncements() async throws {
        try await check(
            "by itself", [.record, .sealed(first), .announces(second), .sealed(second)],
            intact(1...2) + sentence(second, from: 2))
        try await check(
            "of another key", [.announces(third), .sealed(first), .record, .sealed(second)],
            intact(1...2) + sentence(second, from: 2))
        try await check(
            "by the key before the last",
            [
                .announces(second), .announces(third), .sealed(first), .record, .sealed(second), .record,
                .sealed(third),
            ], intact(1...4) + sentence(third, from: 4))
        try await check(
            "of a former key that returns",
            [.announces(second), .sealed(first), .record, .sealed(second), .record, .sealed(first)],
            intact(1...3) + sentence(first, from: 3))
    }

    @Test("names a key whose announcement is before the export's beginning")
    func part() async throws {
        let parts: [Part] = [.announces(second), .sealed(first), .record, .sealed(second)]
        try await check("whole", parts, intact(1...2))
        try await check(
            "from the former key's checkpoint on", parts, intact(2...2) + sentence(second, from: 2), withoutFirst: 1)
    }

    @Test("names the key after its source if nodes are verified separately")
    func separately() async throws {
        let export = try await lines([.record, .sealed(first), .record, .sealed(second)]).export
        let pem = first.publicKey.pem + second.publicKey.pem
        let expected = intact(1...2) + ", key given" + sentence(second, from: 2)
        var verifier = ChainVerifier(separately: TrustedKeys(given: try required(CheckpointKeys(pem: pem))))
        verifier.consume(export[...])
        #expect(verifier.verdictOfNodes().description == expected)
        let files = try FreshDirectory()
        let verdicts = try await VerifierScript.verdicts([
            [try files.write(export, to: "export"), try files.write(pem, to: "keys"), "--node", "all"]
        ])
        #expect(verdicts.map(\.output) == [expected + "\n"])
    }
}

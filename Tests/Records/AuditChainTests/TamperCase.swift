import AuditChain
import Foundation
import TestSupport
import Testing

/// A manipulated export with the exact verdict that both verifiers must return.
struct TamperCase: Sendable, CustomStringConvertible {
    let name: String
    let export: [UInt8]
    var keys: String
    var head: [UInt8]?
    let expected: String

    var description: String { name }

    /// Returns the Swift verifier's verdict. The verifier receives the export in pieces of irregular sizes.
    func swiftVerdict() throws -> ChainVerdict {
        let heads = try head.map { try required(SignedCheckpoint.list(parsing: $0)) } ?? []
        var verifier = ChainVerifier(keys: try required(CheckpointKeys(pem: keys)), heads: heads)
        var start = 0
        var size = 1
        while start < export.count {
            let end = min(start + size, export.count)
            verifier.consume(export[start..<end])
            start = end
            size = size % 9973 * 3 + 1
        }
        return verifier.verdict()
    }

    /// Returns the verdict and exit status of `scripts/verify-audit` for each case.
    static func scriptVerdicts(_ cases: [TamperCase]) async throws -> [VerifierScript.Verdict] {
        let directory = try FreshDirectory()
        var runs: [[String]] = []
        for (number, tampered) in cases.enumerated() {
            var arguments = [
                try directory.write(tampered.export, to: "\(number).jsonl"),
                try directory.write(tampered.keys, to: "\(number).pem"),
            ]
            if let head = tampered.head { arguments += ["--head", try directory.write(head, to: "\(number).head")] }
            runs.append(arguments)
        }
        return try await VerifierScript.verdicts(runs)
    }

    /// Requires that both verifiers return exactly the expected verdict, and that the script exits with the matching
    /// status.
    static func verify(_ cases: [TamperCase], sourceLocation: SourceLocation = #_sourceLocation) async throws {
        let script = try await scriptVerdicts(cases)
        try #require(script.count == cases.count)
        for (tampered, scriptVerdict) in zip(cases, script) {
            let verdict = try tampered.swiftVerdict()
            #expect(verdict.description == tampered.expected, "\(tampered)", sourceLocation: sourceLocation)
            #expect(scriptVerdict.output == tampered.expected + "\n", "\(tampered)", sourceLocation: sourceLocation)
            #expect(scriptVerdict.status == Int(verdict.exitStatus), "\(tampered)", sourceLocation: sourceLocation)
            let expected = ExpectedStatus.of(tampered.expected, head: tampered.head)
            #expect(verdict.exitStatus == expected, "\(tampered)", sourceLocation: sourceLocation)
        }
    }
}

/// The exit status that belongs to the verdicts of both verifiers.
enum ExpectedStatus {
    /// - Parameters:
    ///   - verdict: one line for each node.
    ///   - head: the given checkpoints, one a line.
    static func of(_ verdict: String, head: [UInt8]?) -> Int32 {
        let heads = String(decoding: head ?? [], as: UTF8.self)
        let statuses = verdict.split(separator: "\n").map { line -> Int32 in
            let node = line.prefix { $0 != "," }.split(separator: " ").last ?? ""
            if line.hasPrefix("intact: ") { return heads.contains("{\"node\":\"\(node)\"") ? 0 : 2 }
            return line.hasPrefix("unsealed: node") && !line.contains("after record 0 not sealed") ? 2 : 1
        }
        return statuses.contains(1) ? 1 : statuses.max() ?? 1
    }
}

/// Chains to tamper with. Node a has 3,000 records and a checkpoint after every 500; node b has 1,200 and one after
/// every 400.
///
/// Record n of node a is in line n + (n - 1) / 500. The checkpoint of record 500 is in line 501, and that of record
/// 1000 in line 1002.
struct TamperFixture: Sendable {
    let signer: CheckpointSigner
    let otherSigner: CheckpointSigner
    let a: SyntheticChain
    let b: SyntheticChain
    /// Node b's lines, whose checkpoints another key signs.
    let foreign: SyntheticChain
    /// Node a's lines after a rollback: different from record 2001 on, but signed by the same key.
    let afterRollback: SyntheticChain

    static let shared = Task { try await TamperFixture() }

    private init() async throws {
        signer = try CheckpointSigner()
        otherSigner = try CheckpointSigner()
        a = try await SyntheticChain(node: "a", records: 3000, checkpointEvery: 500, signer: signer)
        b = try await SyntheticChain(node: "b", records: 1200, checkpointEvery: 400, signer: signer)
        foreign = try await SyntheticChain(node: "b", records: 1200, checkpointEvery: 400, signer: otherSigner)
        afterRollback = try await SyntheticChain(
            node: "a", records: 3000, checkpointEvery: 500, signer: signer, salt: "-anew", saltFrom: 2001)
    }

    /// The index in node a's lines of the record with this sequence number.
    func index(_ sequence: Int) -> Int { sequence + (sequence - 1) / 500 - 1 }

    /// The index in node a's lines of the checkpoint that follows the record with this sequence number.
    func checkpointIndex(_ sequence: Int) -> Int { sequence + sequence / 500 - 1 }

    func checkpoint(_ sequence: Int) -> [UInt8] { a.lines[checkpointIndex(sequence)] }

    /// Returns a case with node a's export after a change of its lines.
    func tampered(
        _ name: String, _ expected: String, head: [UInt8]? = nil, keys: String? = nil,
        change: (inout [[UInt8]]) throws -> Void = { _ in }
    ) rethrows -> TamperCase {
        var lines = a.lines
        try change(&lines)
        return exported(name, expected, lines.export, head: head, keys: keys)
    }

    func exported(
        _ name: String, _ expected: String, _ export: [UInt8], head: [UInt8]? = nil, keys: String? = nil
    ) -> TamperCase {
        TamperCase(name: name, export: export, keys: keys ?? signer.publicKey.pem, head: head, expected: expected)
    }

    /// Returns node a's lines with record `sequence` changed and all later hashes recomputed. `sign` signs the
    /// checkpoints.
    func forged(
        from sequence: Int, sign: (ChainHead) async throws -> [UInt8]?
    ) async throws -> [[UInt8]] {
        var lines: [[UInt8]] = Array(a.lines[..<index(sequence)])
        var head = sequence == 1 ? ChainHead(node: a.heads[0].node) : a.heads[sequence - 2]
        for number in sequence...3000 {
            lines.append(head.append(SyntheticChain.record(number, salt: number == sequence ? "forged" : "")).bytes)
            if number % 500 == 0, let line = try await sign(head) { lines.append(line) }
        }
        return lines
    }
}

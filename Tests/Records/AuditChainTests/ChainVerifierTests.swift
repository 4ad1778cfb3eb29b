import TestSupport
import Testing

@testable import AuditChain

@Suite("The chain verifier")
struct ChainVerifierTests {
    /// Returns an export of six records and two checkpoints, short enough to change every byte in turn.
    private func smallExport() async throws -> (export: [UInt8], keys: String) {
        let signer = try CheckpointSigner()
        let chain = try await SyntheticChain(node: "a", records: 6, checkpointEvery: 3, signer: signer)
        return (chain.lines.export, signer.publicKey.pem)
    }

    @Test("detects a change of any byte in an export")
    func everyByte() async throws {
        let (export, pem) = try await smallExport()
        let keys = try required(CheckpointKeys(pem: pem))
        for position in export.indices {
            for mask: UInt8 in [0x01, 0x20, 0x80] {
                var changed = export
                changed[position] ^= mask
                var verifier = ChainVerifier(keys: keys)
                verifier.consume(changed[...])
                #expect(!verifier.verdict().isIntact, "byte \(position), mask \(mask)")
            }
        }
    }

    @Test("gives the same verdict in both verifiers for exports that were changed at random")
    func random() async throws {
        let (export, pem) = try await smallExport()
        var generator = SeededGenerator(seed: 11)
        let cases = (0..<250).map { number in
            var changed = export
            for _ in 0...Int.random(in: 0...2, using: &generator) {
                let position = Int.random(in: 0..<changed.count, using: &generator)
                switch Int.random(in: 0...4, using: &generator) {
                case 0: changed[position] = .random(in: 0...255, using: &generator)
                case 1: changed.remove(at: position)
                case 2: changed.insert(changed[position], at: position)
                case 3: changed[position] = changed.randomElement(using: &generator) ?? 0
                default: changed.removeSubrange(position..<min(position + 300, changed.count))
                }
            }
            return TamperCase(name: "random \(number)", export: changed, keys: pem, expected: "")
        }
        let script = try await TamperCase.scriptVerdicts(cases)
        try #require(script.count == cases.count)
        for (changed, scriptVerdict) in zip(cases, script) {
            let verdict = try changed.swiftVerdict()
            #expect(scriptVerdict.output == verdict.description + "\n", "\(changed)")
            #expect(scriptVerdict.status == Int(verdict.exitStatus), "\(changed)")
        }
    }

    @Test("accepts a part of a chain, but rejects it if the whole chain is required")
    func part() async throws {
        let signer = try CheckpointSigner()
        let chain = try await SyntheticChain(node: "a", records: 6, checkpointEvery: 3, signer: signer)
        let keys = try required(CheckpointKeys(pem: signer.publicKey.pem))
        // The first three lines are records 1 to 3. The fourth is the checkpoint that seals them.
        for (lines, isWhole) in [(chain.lines[...], true), (chain.lines.dropFirst(3), false)] {
            for wantsWhole in [true, false] {
                var verifier = ChainVerifier(keys: keys, beginning: wantsWhole ? .record1 : .anyRecord)
                verifier.consume(Array(lines).export[...])
                #expect(verifier.verdict().isIntact == (isWhole || !wantsWhole), "\(verifier.verdict())")
            }
        }
        var verifier = ChainVerifier(keys: keys, beginning: .record1)
        verifier.consume(Array(chain.lines.dropFirst(3)).export[...])
        #expect(verifier.fault?.fault == .missing(from: 1, to: 3))
    }

    @Test("verifies a chain of 50,000 records in constant memory")
    func long() async throws {
        let signer = try CheckpointSigner()
        var verifier = ChainVerifier(keys: CheckpointKeys([signer.publicKey]))
        var head = ChainHead(node: try required(AuditNode("a")))
        var largest = 0
        for sequence in 1...50_000 {
            var bytes = head.append(SyntheticChain.record(sequence % 100)).bytes + [0x0A]
            if sequence % 1000 == 0 { bytes += try await signer.checkpoint(head).line + [0x0A] }
            // The size of the pieces splits most lines in two.
            verifier.consume(bytes[..<(sequence % bytes.count)])
            verifier.consume(bytes[(sequence % bytes.count)...])
            largest = max(largest, verifier.retainedBytes)
        }
        #expect(verifier.verdict().isIntact)
        #expect(verifier.records == 50_000)
        #expect(verifier.lines == 50_050)
        #expect(largest < 64 * 1024)
    }

    @Test("refuses an endless line before it exhausts the memory")
    func endless() throws {
        var verifier = ChainVerifier(keys: CheckpointKeys([]))
        let piece = [UInt8](repeating: 0x61, count: 1000)
        for _ in 0..<100 { verifier.consume(piece[...]) }
        #expect(verifier.fault?.fault == .lineTooLong)
        #expect(verifier.retainedBytes < 64 * 1024)
    }

    @Test("accepts lines from the ledger, which have no line feeds, and reports a fault at once")
    func live() async throws {
        let signer = try CheckpointSigner()
        let chain = try await SyntheticChain(node: "a", records: 10, checkpointEvery: 5, signer: signer)
        var verifier = ChainVerifier(keys: CheckpointKeys([signer.publicKey]))
        for line in chain.lines { verifier.consume(line: line) }
        #expect(verifier.verdict().isIntact)
        verifier.consume(line: chain.lines[3])
        #expect(verifier.fault?.fault == .outOfOrder(after: 10))
        #expect(verifier.fault?.position?.sequence == 4)
        #expect(verifier.fault?.line == 13)
        verifier.consume(line: chain.lines[4])
        #expect(verifier.lines == 13)
    }
}

import AuditChain
import Crypto
import Foundation
import Testing

@Suite("Checkpoints")
struct CheckpointTests {
    static let faults: [(text: String, with: String)] = [
        (#"{"checkpoint""#, #"{ "checkpoint""#), (#""sequence":2"#, #""sequence":02"#),
        (#""sequence":2"#, #""sequence":0"#),
        (#""sequence":2"#, #""sequence":-2"#), (#""sequence":2"#, #""sequence":1234567890123456789"#),
        ("694e", "694E"), ("12:01:00.000Z", "12:01:00Z"), ("2026-01-31", "2026-02-29"), ("backend-1", "back end"),
        ("backend-1", ""), (#""hash""#, #""Hash""#), ("LoI=", "LoI"), ("LoI=", "LoJ="), ("MEUC", "ME UC"),
        ("MEUC", "MEU-"),
        (#"LoI="}"#, #"LoI="} "#), (#"LoI="}"#, #"LoI=","x":1}"#), ("d09c\"}", "d09c\",\"x\":1}"),
    ]

    @Test("rejects a checkpoint line that differs from the canonical spelling", arguments: faults.indices)
    func strict(index: Int) throws {
        let fault = Self.faults[index]
        let line = try Array(GoldenLineTests.checkpoint.utf8).replacing(fault.text, with: fault.with)
        #expect(SignedCheckpoint(line: line) == nil)
    }

    @Test(
        "accepts a signature only for the checkpoint that was signed",
        arguments: [
            (#""sequence":2"#, #""sequence":3"#), ("694e", "694f"), ("12:01:00", "12:01:01"),
            ("backend-1", "backend-2"),
            ("MEUCIQCE", "MEUCIQCF"), ("MEUC", "MEQC"), ("647c", "647d"),
        ])
    func signature(text: String, other: String) throws {
        let key = try required(CheckpointKey(pem: GoldenLineTests.publicKey))
        let line = try Array(GoldenLineTests.checkpoint.utf8).replacing(text, with: other)
        #expect(!key.verifies(try required(SignedCheckpoint(line: line))))
    }

    @Test("reads the same signature from an HSM token's r ‖ s as from DER, and refuses wrong sizes")
    func raw() throws {
        let signature = try P256.Signing.PrivateKey().signature(for: Data("message".utf8))
        let raw = CheckpointSignature(rawRepresentation: Array(signature.rawRepresentation))
        #expect(raw == CheckpointSignature(der: Array(signature.derRepresentation)))
        #expect(CheckpointSignature(rawRepresentation: [UInt8](repeating: 1, count: 63)) == nil)
        #expect(CheckpointSignature(rawRepresentation: []) == nil)
        #expect(CheckpointSignature(der: [UInt8](repeating: 0x30, count: 73)) == nil)
    }

    @Test("accepts no checkpoint that names another key, although this key signed it")
    func otherKeyId() async throws {
        let signer = P256.Signing.PrivateKey()
        let key = try required(CheckpointKey(point: Array(signer.publicKey.x963Representation)))
        var head = ChainHead(node: try required(AuditNode("n")))
        _ = head.append(AuditRecord(time: .earliest, event: .stop))
        for (keyId, isRight) in [(key.keyId, true), (AuditDigest.zero, false)] {
            let checkpoint = try required(head.checkpoint(at: .earliest, keyId: keyId))
            let signed = try await checkpoint.signed { message in
                let signature = try signer.signature(for: Data(message))
                return try required(CheckpointSignature(der: Array(signature.derRepresentation)))
            }
            #expect(key.verifies(signed) == isRight)
        }
    }

    @Test("throws the error of a signer that fails")
    func failing() async throws {
        struct Gone: Error {}
        var head = ChainHead(node: try required(AuditNode("n")))
        #expect(head.checkpoint(at: .earliest, keyId: .zero) == nil)
        _ = head.append(AuditRecord(time: .earliest, event: .stop))
        let checkpoint = try required(head.checkpoint(at: .earliest, keyId: .zero))
        await #expect(throws: Gone.self) { try await checkpoint.signed { _ throws(Gone) in throw Gone() } }
    }

    @Test("continues a chain from the ledger's head, and refuses an impossible head")
    func heads() throws {
        let node = try required(AuditNode("n"))
        #expect(ChainHead(node: node, sequence: 0, hash: .zero) == ChainHead(node: node))
        #expect(ChainHead(node: node, sequence: 0, hash: .of([])) == nil)
        #expect(ChainHead(node: node, sequence: -1, hash: .zero) == nil)
        var whole = ChainHead(node: node)
        _ = whole.append(SyntheticChain.record(1))
        var resumed = try required(ChainHead(node: node, sequence: 1, hash: whole.hash))
        #expect(whole.append(SyntheticChain.record(2)) == resumed.append(SyntheticChain.record(2)))
    }

    @Test("reads several keys from one PEM text, and refuses any curve but P-256")
    func pem() throws {
        let other = try CheckpointSigner().publicKey
        let both = try required(CheckpointKeys(pem: "first:\n" + GoldenLineTests.publicKey + "second:\n" + other.pem))
        #expect(try both[required(CheckpointKey(pem: GoldenLineTests.publicKey)).keyId] != nil)
        #expect(both[other.keyId]?.pem == other.pem)
        #expect(CheckpointKeys(pem: other.pem.replacingOccurrences(of: "\n", with: "\r\n")) != nil)
        #expect(CheckpointKeys(pem: "") == nil)
        #expect(CheckpointKeys(pem: P384.Signing.PrivateKey().publicKey.pemRepresentation) == nil)
        let beside = GoldenLineTests.publicKey.replacing("0Xwyi992", with: "0Xwyi993")
        #expect(beside != GoldenLineTests.publicKey)
        #expect(CheckpointKeys(pem: beside) == nil)
        #expect(CheckpointKey(point: [4] + [UInt8](repeating: 1, count: 64)) == nil)
    }

    @Test("reads one stored checkpoint from each line, with or without a final line feed")
    func lists() {
        let line = Array(GoldenLineTests.checkpoint.utf8)
        #expect(SignedCheckpoint.list(parsing: line)?.count == 1)
        #expect(SignedCheckpoint.list(parsing: line + [0x0A] + line + [0x0A])?.count == 2)
        #expect(SignedCheckpoint.list(parsing: []) == nil)
        #expect(SignedCheckpoint.list(parsing: [0x0A]) == nil)
        #expect(SignedCheckpoint.list(parsing: line + [0x0A, 0x0A]) == nil)
        #expect(SignedCheckpoint.list(parsing: Array(GoldenLineTests.first.utf8)) == nil)
    }
}

import AuditChain
import Crypto
import Foundation

/// A short record of one node, sealed by a key in software: records 1 to 10, audit checkpoints after 5 and 10.
struct SealedRecord {
    let publicKey: CheckpointKey
    /// The lines in an export's order, without line feeds.
    let lines: [[UInt8]]

    /// - Parameters:
    ///   - sealsEnd: true if the last audit checkpoint exists.
    ///   - pin: the key of another node that record 2 trusts from then on.
    ///   - archive: the range that a record states as archived, with all its lines as the file's content.
    init(
        records: Int = 10, checkpointEvery interval: Int = 5, sealsEnd: Bool = true, node: String = "backend-1",
        pin: KeyPin? = nil, archive: (records: ClosedRange<Int>, saidBy: Int)? = nil
    ) throws {
        let key = P256.Signing.PrivateKey()
        publicKey = try required(CheckpointKey(point: Array(key.publicKey.x963Representation)))
        var head = ChainHead(node: try required(AuditNode(node)))
        var lines: [[UInt8]] = []
        var archivedHash: AuditDigest?
        for sequence in 1...records {
            var record = Self.record(sequence)
            if sequence == 2, let pin { record = AuditRecord(time: record.time, event: .auditKeyPinned(pin)) }
            if let archive, sequence == archive.saidBy {
                let file = Self.export(Array(lines[..<(archive.records.count + archive.records.count / interval)]))
                let said = RecordArchive(
                    first: archive.records.lowerBound, last: archive.records.upperBound,
                    hash: try required(archivedHash), digest: .of(file), size: file.count)
                record = AuditRecord(time: record.time, event: .recordArchive(try required(said)))
            }
            lines.append(head.append(record).bytes)
            if sequence == archive?.records.upperBound { archivedHash = head.hash }
            guard sequence % interval == 0, sealsEnd || sequence < records else { continue }
            let checkpoint = try required(head.checkpoint(at: Self.time(sequence), keyId: publicKey.keyId))
            let signature = try key.signature(for: Data(checkpoint.signedBytes)).rawRepresentation
            let line = #","signature":"\#(try Self.base64(signature))"}"#
            lines.append(Array(#"{"checkpoint":"#.utf8) + checkpoint.signedBytes + Array(line.utf8))
        }
        self.lines = lines
    }

    /// The lines, each with a line feed.
    var export: [UInt8] { Self.export(lines) }

    static func export(_ lines: [[UInt8]]) -> [UInt8] { lines.flatMap { $0 + [0x0A] } }

    /// The export with the record's caller changed, and nothing else.
    func changing(record sequence: Int) throws -> [UInt8] {
        var lines = lines
        let place = try required(
            lines.firstIndex { $0.starts(with: Array(#"{"node":"backend-1","sequence":\#(sequence),"#.utf8)) })
        let text = String(decoding: lines[place], as: UTF8.self)
        let changed = text.replacing(#""uid":1001"#, with: #""uid":1002"#)
        guard changed != text else { throw NothingThere() }
        lines[place] = Array(changed.utf8)
        return Self.export(lines)
    }

    /// The answer of the daemon with the key, whose HSM token remembers `head`.
    func publicKeyAnswer(head: [UInt8]?) throws -> String {
        let line = try head.map {
            String(decoding: try JSONEncoder().encode(String(decoding: $0, as: UTF8.self)), as: UTF8.self)
        }
        let pem = String(decoding: try JSONEncoder().encode(publicKey.pem), as: UTF8.self)
        return #"{"head":\#(line ?? "null"),"keys":[{"keyId":"\#(publicKey.keyId.hex)","publicKey":\#(pem)}]}"#
    }

    /// The answer of the first node's daemon about the keys of all nodes.
    static func allKeysAnswer(_ records: [(node: String, record: SealedRecord, last: Int)]) throws -> String {
        let nodes = try records.enumerated().map { index, part in
            let pem = String(decoding: try JSONEncoder().encode(part.record.publicKey.pem), as: UTF8.self)
            let keys = #"[{"keyId":"\#(part.record.publicKey.keyId.hex)","publicKey":\#(pem)}]"#
            return #"{"isOwn":\#(index == 0),"keys":\#(keys),"lastSequence":\#(part.last),"node":"\#(part.node)","#
                + #""sealedAt":"2026-01-31T12:00:10Z","sealedSequence":10}"#
        }
        return try records[0].record.publicKeyAnswer(head: nil).dropLast()
            + #","nodes":[\#(nodes.joined(separator: ","))]}"#
    }

    static func record(_ sequence: Int) -> AuditRecord {
        AuditRecord(
            time: time(sequence), event: .decrypt(reference: nil),
            caller: AuditCaller(name: AuditText("checkout"), uid: 1001, gid: 1002),
            merchant: AuditText("merchant.com.example"),
            publicKeyHash: AuditDigest(base64: Sample.hash), transactionId: .of(Array("transaction \(sequence)".utf8)),
            protection: .c, hsmToken: AuditText("primary"))
    }

    /// One second per record from 2026-01-31T12:00:00Z.
    static func time(_ sequence: Int) -> AuditTime {
        AuditTime(milliseconds: 1_769_860_800_000 + Int64(sequence) * 1000)
    }

    private static func base64(_ raw: Data) throws -> String {
        try P256.Signing.ECDSASignature(rawRepresentation: raw).derRepresentation.base64EncodedString()
    }
}

struct NothingThere: Error {}

/// Returns the value, or fails the test if there is none.
func required<Value>(_ value: Value?) throws -> Value {
    guard let value else { throw NothingThere() }
    return value
}

import AuditChain
import Crypto
import Foundation

/// A short audit record of one node, sealed by a key in software. By default it has ten records, and audit checkpoints
/// after records 5 and 10.
struct SealedRecord {
    let publicKey: CheckpointKey
    /// The lines in the order of an export, without line feeds.
    let lines: [[UInt8]]

    /// - Parameters:
    ///   - sealsEnd: true if an audit checkpoint follows the last record.
    ///   - pin: the key of another node that record 2 declares as trusted.
    ///   - archive: the archived range, and the sequence number of the record that names the archive.
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

    /// The bytes of an export, in which each line ends with a line feed.
    var export: [UInt8] { Self.export(lines) }

    static func export(_ lines: [[UInt8]]) -> [UInt8] { lines.flatMap { $0 + [0x0A] } }

    /// Returns an export in which only this record's caller is changed.
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

    /// Returns the daemon's answer with its audit key, and with `head` as the head in the HSM token.
    func publicKeyAnswer(head: [UInt8]?) throws -> String {
        let line = try head.map {
            String(decoding: try JSONEncoder().encode(String(decoding: $0, as: UTF8.self)), as: UTF8.self)
        }
        let pem = String(decoding: try JSONEncoder().encode(publicKey.pem), as: UTF8.self)
        return #"{"head":\#(line ?? "null"),"keys":[{"keyId":"\#(publicKey.keyId.hex)","publicKey":\#(pem)}]}"#
    }

    /// Returns the answer of the first node's daemon with the audit keys of all nodes.
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

    /// Returns the record's time: one second per record after 2026-01-31T12:00:00Z.
    static func time(_ sequence: Int) -> AuditTime {
        AuditTime(milliseconds: 1_769_860_800_000 + Int64(sequence) * 1000)
    }

    private static func base64(_ raw: Data) throws -> String {
        try P256.Signing.ECDSASignature(rawRepresentation: raw).derRepresentation.base64EncodedString()
    }
}

struct NothingThere: Error {}

/// Returns the value, or throws if it is nil.
func required<Value>(_ value: Value?) throws -> Value {
    guard let value else { throw NothingThere() }
    return value
}

import AuditChain
import Crypto
import Foundation

/// One node's audit record, written in the form of an export. It has an audit checkpoint after every 1,000 records, and
/// wherever the daemon would make one.
final class NodeRecord {
    let name: String
    /// All keys that have sealed the record, the oldest first.
    private(set) var keys: [CheckpointKey] = []
    private(set) var checkpoints = 0
    /// The number of audit checkpoints with the time of a wrong clock.
    private(set) var misdatedSeals = 0
    /// The latest time of any record, even if a wrong clock set it.
    private(set) var newest = AuditTime.earliest
    /// The time by which the node's clock is ahead, in milliseconds.
    private(set) var clockAhead: Int64 = 0
    /// True while the node serves no requests.
    var isDown = false
    /// The time at which the node's worker is available again, in milliseconds since 1970.
    var workerAwayUntil: Int64 = .min
    /// True while the node refuses all payment tokens because of their signing times, until an administrator accepts
    /// the clock.
    var refusesBySigningTime = false
    /// The time, in milliseconds since 1970, until which the node refuses payment tokens after a restore.
    var servedFrom: Int64 = .min
    /// The loss of the ledger, if the records that are now written will be lost with it; nil if they remain.
    var loss: Truth.Loss?

    private var head: ChainHead
    private var sealed = 0
    private var signing: (key: P256.Signing.PrivateKey, keyId: AuditDigest)
    /// The audit checkpoints that were made since the last call of ``takeSeals()``: the key and the actual time of each.
    private var seals: [(keyId: AuditDigest, time: Int64)] = []
    private var buffer: [UInt8] = []
    private let file: FileHandle
    let part: URL
    /// The age, in milliseconds, at which the oldest unsealed record gets an audit checkpoint.
    private let sealAfter: Int64
    /// The actual time of the oldest unsealed record. The daemon waits by a clock that cannot be set.
    private var waiting: Int64?
    /// The actual time of the oldest record that is unsealed and will be lost.
    private var waitingInLoss: Int64?

    init(name: String, key: P256.Signing.PrivateKey, sealAfter: Int64, directory: URL) throws {
        self.name = name
        self.sealAfter = sealAfter
        guard let node = AuditNode(name) else { throw YearFailure("\(name) is no node's name") }
        head = ChainHead(node: node)
        part = directory.appending(path: "\(name).part")
        guard FileManager.default.createFile(atPath: part.path, contents: nil) else {
            throw YearFailure("\(part.path) cannot be written")
        }
        file = try FileHandle(forWritingTo: part)
        signing = (key, .zero)
        try use(key)
    }

    var node: AuditNode { head.node }
    var sequence: Int { head.sequence }
    var keyId: AuditDigest { signing.keyId }

    /// Seals all later audit checkpoints with this key.
    func use(_ key: P256.Signing.PrivateKey) throws {
        let checkpointKey = try Self.checkpointKey(key)
        keys.append(checkpointKey)
        signing = (key, checkpointKey.keyId)
    }

    static func checkpointKey(_ key: P256.Signing.PrivateKey) throws -> CheckpointKey {
        guard let checkpointKey = CheckpointKey(point: Array(key.publicKey.x963Representation)) else {
            throw YearFailure("a key is not on P-256")
        }
        return checkpointKey
    }

    /// Returns the time by the node's clock, which may be wrong.
    ///
    /// - Parameter now: the actual time, in milliseconds since 1970.
    func clock(_ now: Int64) -> AuditTime { AuditTime(milliseconds: now + clockAhead) }

    /// Sets the clock, after the audit checkpoints that were due until then.
    func setClock(ahead: Int64, at now: Int64) async throws {
        try await sealIfDue(before: now)
        clockAhead = ahead
    }

    /// Appends a record to the node's chain.
    ///
    /// - Parameter now: the actual time, in milliseconds since 1970.
    /// - Returns: the record's sequence; nil if the ledger will be lost, so that the record is not written.
    func append(_ record: AuditRecord, at now: Int64) async throws -> Int? {
        try await sealIfDue(before: now)
        guard loss == nil else {
            waitingInLoss = waitingInLoss ?? now
            return nil
        }
        let line = head.append(record)
        waiting = waiting ?? now
        newest = max(newest, record.time)
        buffer.append(contentsOf: line.bytes)
        buffer.append(0x0A)
        if head.sequence - sealed >= CheckpointSchedule.maximumRecords {
            try await seal(at: now)
        }
        try write(beyond: 1 << 16)
        return line.sequence
    }

    /// Makes the audit checkpoint that was due before this time, if any. A node that serves no requests after a restore
    /// makes none.
    func sealIfDue(before now: Int64) async throws {
        guard let waiting = loss == nil ? waiting : waitingInLoss, !isDown else { return }
        if waiting + sealAfter < now { try await seal(at: waiting + sealAfter) }
    }

    /// Makes an audit checkpoint, unless the last record is already sealed.
    func seal(at now: Int64) async throws {
        if let lost = loss {
            waitingInLoss = nil
            guard lost.records > lost.sealed else { return }
            loss?.seals += 1
            loss?.sealed = lost.records
            seals.append((signing.keyId, now))
            return
        }
        guard sealed < head.sequence, let checkpoint = head.checkpoint(at: clock(now), keyId: signing.keyId) else {
            return
        }
        let key = signing.key
        let signed = try await checkpoint.signed { message throws in
            let signature = try key.signature(for: Data(message))
            guard let signature = CheckpointSignature(rawRepresentation: Array(signature.rawRepresentation)) else {
                throw YearFailure("a signature has not 64 bytes")
            }
            return signature
        }
        buffer.append(contentsOf: signed.line)
        buffer.append(0x0A)
        sealed = head.sequence
        waiting = nil
        checkpoints += 1
        if clockAhead != 0 { misdatedSeals += 1 }
        seals.append((signing.keyId, now))
    }

    func takeSeals() -> [(keyId: AuditDigest, time: Int64)] {
        defer { seals = [] }
        return seals
    }

    private func write(beyond size: Int) throws {
        guard buffer.count > size else { return }
        try file.write(contentsOf: buffer)
        buffer.removeAll(keepingCapacity: true)
    }

    func close() throws {
        try write(beyond: 0)
        try file.close()
    }
}

/// The error that the year could not be written.
struct YearFailure: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}

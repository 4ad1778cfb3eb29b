import AuditChain
package import Ledger
import Locks
package import Logging

/// Records in this node's own record which keys seal the other nodes' records (trust on first use). Afterwards the ledger's
/// list of those keys is not trusted alone, since the database's superuser could change it together with the records.
///
/// When a node is first seen, its keys in the ledger are trusted. A later key is trusted if a trusted one endorses it.
/// Otherwise the key is recorded as a conflict, logged, and listed among the warnings of `status`. Releases continue, since
/// they do not depend on the key that seals the record, and one forged row must not stop all hosts.
package actor OtherNodesAuditKeys {
    /// The maximum number of conflicts that are recorded for one node.
    private static let maximumConflicts = 16
    /// The maximum number of records from a key's announcement (`audit_key_prepare`) to the audit checkpoint that seals
    /// it. A later audit checkpoint is not accepted as an endorsement.
    private static let maximumUnsealed = 20_000

    private let ledger: any Ledger
    private let gate: LedgerGate
    private let clock: WallClock
    private let logger: Logger
    /// The trusted keys and the conflicts in this node's record. Nil until they have been read, and again after a write
    /// that may have failed.
    private var recorded: (pins: KeyPins, conflicts: [AuditNode: Set<CheckpointKey>])?
    /// The other nodes' keys in the ledger at the last complete check.
    private var lastSeen: [NodeAuditKey]?
    private let conflicts = Mutex<[String]>([])

    package init(ledger: any Ledger, gate: LedgerGate, clock: WallClock, logger: Logger) {
        self.ledger = ledger
        self.gate = gate
        self.clock = clock
        self.logger = logger
    }

    /// One sentence for each key in the ledger that is not endorsed.
    package nonisolated var warnings: [String] { conflicts.withLock { $0 } }

    /// Records each key of another node that this node does not trust yet, either as trusted or as a conflict. Does
    /// nothing if the keys in the ledger have not changed since the last check. If the ledger fails, the next check
    /// tries again; the ledger's writers log the fault.
    package func check() async {
        // A ledger that has not been compared yet may be an older copy with older keys.
        guard gate.position == .open else { return }
        do throws(LedgerFailure) {
            let seen = try await ledger.auditKeysOfOtherNodes()
            guard seen != lastSeen else { return }
            try await process(seen)
            lastSeen = seen
        } catch {
            recorded = nil
        }
    }

    private func process(_ seen: [NodeAuditKey]) async throws(LedgerFailure) {
        if recorded == nil { recorded = try await readOwnRecord() }
        let keys = Dictionary(grouping: seen, by: \.node).mapValues { rows in
            rows.compactMap { $0.key.publicKey.flatMap(CheckpointKey.init(stored:)) }
        }
        var warnings: [String] = []
        for (node, keys) in keys.sorted(by: { $0.key < $1.key }) {
            let pinned = recorded?.pins.keys[node] ?? []
            guard !pinned.isEmpty else {
                if let pin = KeyPin(trustedOnFirstUse: keys, of: node) { try await record(pin) }
                continue
            }
            for key in keys where !pinned.contains(key) {
                if let endorsement = try await endorsement(for: key, of: node, among: pinned) {
                    try await record(KeyPin(key, of: node, by: endorsement))
                } else {
                    try await conflict(key, of: node)
                    warnings.append(Self.sentence(key, of: node))
                }
            }
        }
        let sentences = warnings
        conflicts.withLock { $0 = sentences }
    }

    /// Reads the trusted keys and the conflicts from this node's own record.
    private func readOwnRecord() async throws(LedgerFailure) -> (KeyPins, [AuditNode: Set<CheckpointKey>]) {
        var pins = KeyPins()
        var conflicts: [AuditNode: Set<CheckpointKey>] = [:]
        let own = try await ledger.head().node
        // If the beginning of the record was archived, the ledger may lack the records of the keys that endorsed others.
        // Such a record is then not required. No trusted key is missing, since all of them were recorded again before
        // the archiving (``recordTrustedKeysAgain()``).
        let isWhole = try await ledger.lastArchive() == nil
        for record in try await ledger.auditKeyEvents(of: own) {
            if let pin = KeyPin(line: record.line) {
                pins.add(pin, recordedAt: record.sequence, by: own, isWhole: isWhole)
            } else if let (node, key) = AuditEntry.auditKeyConflict(record.line) {
                conflicts[node, default: []].insert(key)
            }
        }
        return (pins, conflicts)
    }

    /// Records every trusted key again, as endorsed by itself. The daemon does so before it archives the records that
    /// contain these keys. While the ledger still has the earlier records of a key, the repeated ones have no effect.
    func recordTrustedKeysAgain() async throws(LedgerFailure) {
        if recorded == nil { recorded = try await readOwnRecord() }
        for (node, keys) in (recorded?.pins.keys ?? [:]).sorted(by: { $0.key < $1.key }) {
            let sealed = try await ledger.chain(of: node).latestCheckpoint()?.checkpoint.sequence ?? 1
            for key in keys { try await record(KeyPin(key, of: node, by: .init(keyId: key.keyId, sequence: sealed))) }
        }
    }

    private func record(_ pin: KeyPin) async throws(LedgerFailure) {
        let auditRecord = AuditRecord(time: AuditTime(clock.now()), event: .auditKeyPinned(pin))
        let sequence = try await ledger.append(auditRecord)
        guard let own = AuditNode(ledger.node) else { return }
        recorded?.pins.add(pin, recordedAt: sequence, by: own)
        logger.notice(
            "another node's audit key is trusted from now on",
            metadata: [
                "node": "\(pin.node.name)", "key.id": "\(pin.keys.map(\.keyId.hex).joined(separator: " "))",
                "basis": pin.endorsement == nil ? "first use" : "endorsed by a trusted key",
            ])
    }

    private func conflict(_ key: CheckpointKey, of node: AuditNode) async throws(LedgerFailure) {
        let known = recorded?.conflicts[node] ?? []
        guard !known.contains(key), known.count < Self.maximumConflicts else { return }
        let event = AuditEvent.auditKeyConflict(node: node, key: key)
        _ = try await ledger.append(AuditRecord(time: AuditTime(clock.now()), event: event))
        recorded?.conflicts[node, default: []].insert(key)
        logger.critical("\(Self.sentence(key, of: node))")
    }

    private static func sentence(_ key: CheckpointKey, of node: AuditNode) -> String {
        "The ledger has the audit key \(key.keyId.hex) for node \(node.name), and no trusted key of that node endorses "
            + "it. Either that node lost its key and made another, or the ledger was changed. Ask the operator of that "
            + "node, and verify its record."
    }

    /// Returns the endorsement of a key by a trusted key; nil if there is none. The node's record must announce the key,
    /// and the trusted key must have sealed that announcement.
    private func endorsement(
        for key: CheckpointKey, of node: AuditNode, among pinned: [CheckpointKey]
    ) async throws(LedgerFailure) -> KeyPin.Endorsement? {
        let announcements = try await ledger.auditKeyEvents(of: node).filter {
            AuditEntry.announcedAuditKey(line: $0.line) == key.keyId
        }
        let chain = ledger.chain(of: node)
        for announcement in announcements.suffix(8) {
            guard let seal = try await chain.firstCheckpoint(from: announcement.sequence) else { continue }
            if try await isSealed(announcement, of: node, in: chain, through: seal.checkpoint.sequence, by: pinned) {
                return KeyPin.Endorsement(keyId: seal.checkpoint.keyId, sequence: announcement.sequence)
            }
        }
        return nil
    }

    /// Returns true if the chain is intact and signed by these keys, from the audit checkpoint before the record to the one
    /// after it.
    private func isSealed(
        _ record: StoredRecord, of node: AuditNode, in chain: any ChainReading, through last: Int,
        by keys: [CheckpointKey]
    ) async throws(LedgerFailure) -> Bool {
        var verifier = ChainVerifier(keys: CheckpointKeys(keys))
        var isThere = false
        for try await page in chain.export(from: record.sequence, through: last) {
            for line in page.lines {
                verifier.consume(line: line.bytes)
                isThere = isThere || line == .record(sequence: record.sequence, record.line)
            }
            guard verifier.fault == nil, verifier.records <= Self.maximumUnsealed else { return false }
        }
        guard isThere, case .intact(let ranges) = verifier.verdict(), ranges.count == 1 else { return false }
        return ranges[0].node == node && ranges[0].sealed >= record.sequence
    }
}

extension AuditEntry {
    /// Returns the node and the key that an `audit_key_conflict` record names; nil for any other record.
    fileprivate static func auditKeyConflict(_ line: [UInt8]) -> (AuditNode, CheckpointKey)? {
        guard let entry = try? AuditEntry(line: line), entry.event == AuditEvent.Name.auditKeyConflict.rawValue,
            let node = entry.details["ofNode"]?.stringValue.flatMap(AuditNode.init),
            let key = CheckpointKey(recorded: entry.details)
        else { return nil }
        return (node, key)
    }
}

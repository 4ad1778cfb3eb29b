import AuditChain
import Ledger
import Logging
import Synchronization

/// Pins the keys that seal other nodes' records, in this node's own record: from then on the ledger's word for them does not count
/// any more, which its server's superuser could change together with the records.
///
/// At first sight it takes what the ledger gives. A later key is pinned when a pinned one vouches for it; else it is recorded
/// as a conflict, logged, and shown among `status`' warnings. Releases go on: they do not depend on who seals the record, and a
/// row that somebody writes must not stop all hosts.
actor OtherNodesAuditKeys {
    /// More conflicts of one node are not recorded one by one.
    private static let maximumConflicts = 16
    /// A seal is that near to what it seals; more records without one are no endorsement.
    private static let maximumUnsealed = 20_000

    private let ledger: any Ledger
    private let gate: LedgerGate
    private let clock: WallClock
    private let logger: Logger
    /// What this node's record says; nil until it was read, and after a write that may have failed.
    private var recorded: (pins: KeyPins, conflicts: [AuditNode: Set<CheckpointKey>])?
    /// As the ledger gave them when all was last done.
    private var lastSeen: [NodeAuditKey]?
    private let conflicts = Mutex<[String]>([])

    init(ledger: any Ledger, gate: LedgerGate, clock: WallClock, logger: Logger) {
        self.ledger = ledger
        self.gate = gate
        self.clock = clock
        self.logger = logger
    }

    /// A sentence for each node whose key in the ledger nothing vouches for.
    nonisolated var warnings: [String] { conflicts.withLock { $0 } }

    /// Takes up what has changed. What fails is tried again by the next look; the ledger's fault is logged by those who write to it.
    func check() async {
        // A ledger that was not compared yet may be an older one, with keys of then.
        guard gate.position == .open else { return }
        do throws(LedgerFailure) {
            let seen = try await ledger.auditKeysOfOtherNodes()
            guard seen != lastSeen else { return }
            try await take(seen)
            lastSeen = seen
        } catch {
            recorded = nil
        }
    }

    private func take(_ seen: [NodeAuditKey]) async throws(LedgerFailure) {
        if recorded == nil { recorded = try await recall() }
        let keys = Dictionary(grouping: seen, by: \.node).mapValues { rows in
            rows.compactMap { $0.key.publicKey.flatMap(CheckpointKey.init(point:)) }
        }
        var warnings: [String] = []
        for (node, keys) in keys.sorted(by: { $0.key < $1.key }) {
            let pinned = recorded?.pins.keys[node] ?? []
            guard !pinned.isEmpty else {
                if let pin = KeyPin(firstSight: keys, of: node) { try await record(pin) }
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

    /// What this node's record says of other nodes' keys, by the lines themselves.
    private func recall() async throws(LedgerFailure) -> (KeyPins, [AuditNode: Set<CheckpointKey>]) {
        var pins = KeyPins()
        var conflicts: [AuditNode: Set<CheckpointKey>] = [:]
        let own = try await ledger.head().node
        // Where the record's beginning is archived, what it pinned was pinned again.
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

    /// Pins again whatever is pinned, each key by its own word: for before the records are archived that say so. With those records
    /// before them these say nothing new.
    func carryForward() async throws(LedgerFailure) {
        if recorded == nil { recorded = try await recall() }
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
            "another node's audit key is pinned",
            metadata: [
                "node": "\(pin.node.name)", "key.id": "\(pin.keys.map(\.keyId.hex).joined(separator: " "))",
                "basis": pin.endorsement == nil ? "first sight" : "a pinned key vouches for it",
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
        "The ledger gives node \(node.name) the audit key \(key.keyId.hex), and no key of that node that is pinned here vouches for "
            + "it: either that node lost its key and took another, or somebody changed the ledger. Ask who runs that node, and "
            + "verify its record."
    }

    /// A pinned key's word for another one: that node's record announces it, and the pinned key has sealed that.
    private func endorsement(
        for key: CheckpointKey, of node: AuditNode, among pinned: [CheckpointKey]
    ) async throws(LedgerFailure) -> KeyPin.Endorsement? {
        let announcements = try await ledger.auditKeyEvents(of: node).filter {
            AuditEntry.announcedAuditKey($0.line) == key.keyId
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

    /// From the checkpoint before the record to the one behind it, all follows and is signed by these keys.
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
    /// The keyId that an `audit_key_prepare` announces.
    fileprivate static func announcedAuditKey(_ line: [UInt8]) -> AuditDigest? {
        guard let entry = try? AuditEntry(line: line), entry.event == AuditEvent.Name.auditKeyPrepare.rawValue else {
            return nil
        }
        return entry.details["to"]?.stringValue.flatMap(AuditDigest.init(hex:))
    }

    /// What an `audit_key_conflict` says.
    fileprivate static func auditKeyConflict(_ line: [UInt8]) -> (AuditNode, CheckpointKey)? {
        guard let entry = try? AuditEntry(line: line), entry.event == AuditEvent.Name.auditKeyConflict.rawValue,
            let node = entry.details["ofNode"]?.stringValue.flatMap(AuditNode.init),
            let key = CheckpointKey(recorded: entry.details)
        else { return nil }
        return (node, key)
    }
}

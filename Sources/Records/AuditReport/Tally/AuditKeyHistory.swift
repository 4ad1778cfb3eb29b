import AuditChain

/// The keys that seal the nodes' records: their changes (`audit_key_change`), and the times of their audit checkpoints.
struct AuditKeyHistory: Sendable {
    struct Key: Sendable {
        let key: AuditDigest
        let node: AuditNode
        /// The record by which the key came into service; nil if the export does not contain it.
        fileprivate(set) var change: AuditEntry?
        /// The record by which the next key came into service.
        fileprivate(set) var replacement: AuditEntry?
        /// True if its audit checkpoints name an algorithm of RSA-2048, false for ECDSA on P-256; nil without any.
        fileprivate(set) var isRSA: Bool?
        fileprivate(set) var seals = 0
        fileprivate(set) var firstSeal: AuditTime?
        fileprivate(set) var lastSeal: AuditTime?
    }

    /// The keys in the order in which the export mentions them.
    private(set) var keys: [Key] = []
    /// The records that say which keys of another node their node trusts.
    private(set) var pins: [AuditEntry] = []

    mutating func take(_ entry: AuditEntry) {
        if entry.event == AuditEvent.Name.auditKeyPinned.rawValue, pins.count < Self.maximumPins { pins.append(entry) }
        guard entry.event == AuditEvent.Name.auditKeyChange.rawValue, entry.outcome == AuditOutcome.ok.text else {
            return
        }
        func digest(_ name: String) -> AuditDigest? { entry.details[name]?.stringValue.flatMap(AuditDigest.init(hex:)) }
        if let former = digest("from") { keys[index(of: former, entry.node)].replacement = entry }
        if let key = digest("to") { keys[index(of: key, entry.node)].change = entry }
    }

    private static let maximumPins = 5_000

    mutating func take(_ checkpoint: Checkpoint) {
        let index = index(of: checkpoint.keyId, checkpoint.node)
        keys[index].seals += 1
        keys[index].isRSA = checkpoint.algorithm != .ecdsaP256
        keys[index].firstSeal = keys[index].firstSeal ?? checkpoint.time
        keys[index].lastSeal = checkpoint.time
    }

    private mutating func index(of key: AuditDigest, _ node: AuditNode) -> Int {
        if let known = keys.lastIndex(where: { ($0.node, $0.key) == (node, key) }) { return known }
        keys.append(Key(key: key, node: node))
        return keys.count - 1
    }
}

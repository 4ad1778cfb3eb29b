internal import StrictJSON

/// The audit keys of another node that this node trusts, as it records them in its own chain: event `audit_key_pinned`.
/// These keys seal the other node's record.
///
/// When this node first sees the other node, it trusts the keys that the ledger lists for that node. It trusts a later
/// key only if a trusted key has sealed the other node's ``AuditEvent/auditKeyPrepare(from:to:)`` for the later key.
public struct KeyPin: Sendable, Equatable {
    /// A trusted key's endorsement of another key.
    public struct Endorsement: Sendable, Equatable {
        /// The keyId of the trusted key that endorses the other key.
        public let keyId: AuditDigest
        /// The sequence of the other node's `auditKeyPrepare` record, which the trusted key has sealed.
        public let sequence: Int

        public init(keyId: AuditDigest, sequence: Int) {
            self.keyId = keyId
            self.sequence = sequence
        }
    }

    /// The maximum number of keys in one record, so that the record fits into a line.
    public static let maximumKeys = 32

    /// The node that the keys belong to.
    public let node: AuditNode
    /// The trusted keys: 1 to ``maximumKeys``, oldest first; exactly one if there is an endorsement.
    public let keys: [CheckpointKey]
    /// The endorsement of the key; nil if the keys are trusted on first use.
    public let endorsement: Endorsement?

    /// Creates the value for keys that are trusted on first use. If there are more than ``maximumKeys``, only the
    /// newest are kept. Returns nil if `keys` is empty.
    public init?(trustedOnFirstUse keys: [CheckpointKey], of node: AuditNode) {
        guard !keys.isEmpty else { return nil }
        self.node = node
        self.keys = keys.suffix(Self.maximumKeys)
        endorsement = nil
    }

    public init(_ key: CheckpointKey, of node: AuditNode, by endorsement: Endorsement) {
        self.node = node
        keys = [key]
        self.endorsement = endorsement
    }

    /// Reads the event from a record's line. Returns nil if the line has another event, or values that no daemon could
    /// have written.
    public init?(line: [UInt8]) {
        // Most lines are of other events, and need not be parsed as JSON.
        guard RecordFrame(line)?.isEvent(Self.mark) == true, let entry = try? AuditEntry(line: line),
            let node = entry.details["ofNode"]?.stringValue.flatMap(AuditNode.init),
            let objects = entry.details["keys"]?.arrayValue, (1...Self.maximumKeys).contains(objects.count)
        else { return nil }
        let keys = objects.compactMap { $0.objectValue.flatMap(CheckpointKey.init(recorded:)) }
        guard keys.count == objects.count else { return nil }
        self.node = node
        self.keys = keys
        guard let vouchedBy = entry.details["vouchedBy"] else {
            endorsement = nil
            return
        }
        guard keys.count == 1, let keyId = vouchedBy.stringValue.flatMap(AuditDigest.init(hex:)),
            let sequence = entry.details["vouchedAt"]?.numberValue?.int
        else { return nil }
        endorsement = Endorsement(keyId: keyId, sequence: sequence)
    }

    static let mark = RecordFrame.EventMark(.auditKeyPinned)

    func write(into writer: inout JSONWriter) {
        writer.member("ofNode", node.name)
        writer.member("keys", objects: keys) { $0.write(into: &$1) }
        writer.member("vouchedBy", endorsement?.keyId.hex)
        writer.member("vouchedAt", endorsement?.sequence)
    }
}

extension AuditEntry {
    private static let announcement = RecordFrame.EventMark(.auditKeyPrepare)

    /// Returns the keyId of the key that the record announces (``AuditEvent/auditKeyPrepare(from:to:)``). Returns nil for
    /// any other record.
    public static func announcedAuditKey(line: [UInt8]) -> AuditDigest? {
        guard RecordFrame(line)?.isEvent(announcement) == true, let entry = try? AuditEntry(line: line) else {
            return nil
        }
        return entry.details["to"]?.stringValue.flatMap(AuditDigest.init(hex:))
    }
}

/// The keys of other nodes that one node's record names as trusted.
///
/// A second record that trusts keys of the same node on first use is a fault. A daemon writes a second one only if an
/// attacker has hidden the first one from it.
public struct KeyPins: Sendable, Equatable {
    /// The maximum number of keys for one node; further keys are not trusted.
    static let maximumKeys = 256

    /// The keys by node, oldest first.
    public private(set) var keys: [AuditNode: [CheckpointKey]] = [:]
    /// The nodes for which a record names a key that no trusted key endorses, each with the fault of the first such
    /// record.
    public private(set) var unendorsed: [AuditNode: ChainBreak] = [:]

    public init() {}

    /// - Parameters:
    ///   - pinning: the node whose record contains the trusted keys.
    ///   - isWhole: true if the chain was read from its first record. Otherwise the endorsing key may be named in a
    ///     record that was not read, so it is not required.
    public mutating func add(_ pin: KeyPin, recordedAt sequence: Int, by pinning: AuditNode, isWhole: Bool = true) {
        let known = keys[pin.node] ?? []
        let isEndorsed =
            pin.endorsement.map { endorsement in !isWhole || known.contains { $0.keyId == endorsement.keyId } }
            ?? known.isEmpty
        let isBounded =
            known.count + pin.keys.count <= Self.maximumKeys
            && (!known.isEmpty || keys.count < ChainVerifier.maximumNodes)
        guard isEndorsed, isBounded, pin.node != pinning else {
            if unendorsed[pin.node] == nil, unendorsed.count < ChainVerifier.maximumNodes {
                unendorsed[pin.node] = ChainBreak(
                    line: nil, ChainPosition(node: pin.node, kind: .record, sequence: sequence),
                    fault: .unendorsedPin(node: pinning, sequence: sequence))
            }
            return
        }
        keys[pin.node] = known + pin.keys.filter { !known.contains($0) }
    }
}

public import AuditChain

/// A key that seals a node's record, as the ledger gives it: whoever writes to the ledger beside the daemons can change it.
public struct NodeAuditKey: Sendable, Equatable {
    public let node: AuditNode
    public let key: StoredAuditKey

    public init(node: AuditNode, key: StoredAuditKey) {
        self.node = node
        self.key = key
    }
}

/// The records of all nodes that use this ledger, for reading. Each node writes its own only.
public protocol NodeRecords: Sendable {
    /// The nodes that the ledger knows in whatever way, this one among them, by their names; at most 1,024.
    func nodes() async throws(LedgerFailure) -> [AuditNode]

    /// A node's chain; without a record where the ledger knows no such node.
    func chain(of node: AuditNode) -> any ChainReading

    /// The keys that seal other nodes' records, planned ones too: by node, in the order in which they were planned.
    func auditKeysOfOtherNodes() async throws(LedgerFailure) -> [NodeAuditKey]

    /// A node's records about audit keys: prepared, pinned and conflicting ones. The oldest first.
    func auditKeyEvents(of node: AuditNode) async throws(LedgerFailure) -> [StoredRecord]
}

extension OneNodeLedger {
    public func nodes() async throws(LedgerFailure) -> [AuditNode] { [try await head().node] }

    public func chain(of node: AuditNode) -> any ChainReading { self }

    public func auditKeysOfOtherNodes() async throws(LedgerFailure) -> [NodeAuditKey] { [] }

    /// There is no other node that this one would have to know the keys of.
    public func auditKeyEvents(of node: AuditNode) async throws(LedgerFailure) -> [StoredRecord] { [] }
}

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

extension SingleNodeLedger {
    public func nodes() async throws(LedgerFailure) -> [AuditNode] { [try await head().node] }

    public func chain(of node: AuditNode) -> any ChainReading { self }

    public func auditKeysOfOtherNodes() async throws(LedgerFailure) -> [NodeAuditKey] { [] }

    /// There is no other node that this one would have to know the keys of.
    public func auditKeyEvents(of node: AuditNode) async throws(LedgerFailure) -> [StoredRecord] { [] }
}

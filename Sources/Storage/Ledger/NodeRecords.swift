public import AuditChain

/// A key that seals a node's records, as listed in the ledger. The list is not authenticated: any account that can
/// write to the ledger can change it.
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

    /// Returns an empty list. These records serve to find other nodes' keys, and this ledger has no other node.
    public func auditKeyEvents(of node: AuditNode) async throws(LedgerFailure) -> [StoredRecord] { [] }
}

public import AuditChain
public import PaymentToken

/// The keys and approvals that may have changed, on this node or another.
public struct AdministrativeUpdates: Sendable, Equatable {
    /// Keys whose records have changed; nil if any may have, because earlier changes are unknown.
    public var keys: Set<PublicKeyHash>?
    /// Requests of this node, approved on another node, for operations that only this node can carry out. It has not
    /// carried them out yet.
    public var approvals: [ApprovalIdentifier]

    public init(keys: Set<PublicKeyHash>? = nil, approvals: [ApprovalIdentifier] = []) {
        self.keys = keys
        self.approvals = approvals
    }

    public var isEmpty: Bool { keys?.isEmpty == true && approvals.isEmpty }
}

extension SingleNodeLedger {
    public func administrativeUpdates() -> AsyncStream<AdministrativeUpdates> {
        AsyncStream { $0.finish() }
    }
}

public import AuditChain
public import PaymentToken

/// The keys and approvals that may have changed, on this node or another.
public struct AdministrativeUpdates: Sendable, Equatable {
    /// The keys whose records have changed. Nil if earlier changes are unknown, so that any key may have changed.
    public var keys: Set<PublicKeyHash>?
    /// Requests that were made on this node and approved on another, for operations that only this node can carry out
    /// and has not carried out yet.
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

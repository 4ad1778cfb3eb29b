public import AuditChain
public import PaymentToken

/// What may have changed about keys and approvals, whoever changed it.
public struct AdministrativeUpdates: Sendable, Equatable {
    /// Keys whose records have changed; nil: any may have, since what came before is not known.
    public var keys: Set<PublicKeyHash>?
    /// Approvals of this node's own matters that a second person gave on another node, and that wait to be carried out here.
    public var approvals: [ApprovalIdentifier]

    public init(keys: Set<PublicKeyHash>? = nil, approvals: [ApprovalIdentifier] = []) {
        self.keys = keys
        self.approvals = approvals
    }

    /// Nobody needs to be told.
    public var isEmpty: Bool { keys?.isEmpty == true && approvals.isEmpty }
}

extension SingleNodeLedger {
    public func administrativeUpdates() -> AsyncStream<AdministrativeUpdates> {
        AsyncStream { $0.finish() }
    }
}

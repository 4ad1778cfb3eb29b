public import Foundation

/// The 202 answer of an operation that waits for a second person.
public struct PendingAnswer: Codable, Sendable, Equatable {
    /// `pending`.
    public var status: String
    /// The approval's name: `paytokenctl approval approve` takes it.
    public var approval: String
    public var expires: Date
    /// The state in which the key waits; absent where no key of the ledger is concerned.
    public var keyState: String?

    public init(approval: String, expires: Date, keyState: String? = nil) {
        status = "pending"
        self.approval = approval
        self.expires = expires
        self.keyState = keyState
    }
}

/// One approval as `GET /v1/approvals` and decisions show it.
public struct ApprovalSummary: Codable, Sendable, Equatable {
    /// 16 hex characters.
    public var approval: String
    /// The operation's name in the record, such as `key_destroy`.
    public var operation: String
    /// `pending`, `approved` (an import that waits for its requester, or what the node that it names has still to do), `done`, `rejected`, `withdrawn` or `expired`.
    public var status: String
    /// Base64 of 32 bytes; absent where no key is concerned.
    public var publicKeyHash: String?
    /// Whose key it is; absent where none is concerned, or the key is not here yet.
    public var merchantIdentifier: String?
    /// The key's state when it was asked for; an approval serves only while it is that.
    public var keyState: String?
    public var reason: String
    /// The access rule's name and the uid of who asked.
    public var requestedBy: String
    /// The node on which it was asked for: what is that node's own matter is carried out there. Absent where one host alone uses the
    /// ledger.
    public var node: String?
    public var requester: UInt32
    /// Where they had logged in under another one, as their process said: without one it can give itself any.
    public var requesterLoginUid: UInt32?
    public var requestedAt: Date
    public var expires: Date
    /// The uid of who decided, and when.
    public var decidedBy: UInt32?
    public var decidedAt: Date?

    public init(
        approval: String, operation: String, status: String, publicKeyHash: String?, merchantIdentifier: String?,
        keyState: String?, reason: String, requestedBy: String, node: String? = nil, requester: UInt32,
        requesterLoginUid: UInt32? = nil,
        requestedAt: Date, expires: Date, decidedBy: UInt32?, decidedAt: Date?
    ) {
        self.approval = approval
        self.operation = operation
        self.status = status
        self.publicKeyHash = publicKeyHash
        self.merchantIdentifier = merchantIdentifier
        self.keyState = keyState
        self.reason = reason
        self.requestedBy = requestedBy
        self.node = node
        self.requester = requester
        self.requesterLoginUid = requesterLoginUid
        self.requestedAt = requestedAt
        self.expires = expires
        self.decidedBy = decidedBy
        self.decidedAt = decidedAt
    }
}

/// The 200 answer of `POST /v1/approvals/{id}`.
public struct ApprovalDecisionAnswer: Codable, Sendable, Equatable {
    public var approval: ApprovalSummary
    /// The key as it stands after the operation; absent where none is concerned or nothing was carried out.
    public var key: KeySummary?

    public init(approval: ApprovalSummary, key: KeySummary?) {
        self.approval = approval
        self.key = key
    }
}

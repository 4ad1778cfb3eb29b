public import Foundation

/// The 202 answer of an operation that waits for a second person.
public struct PendingAnswer: Codable, Sendable, Equatable {
    /// Always `pending`.
    public var status: String
    /// The approval's identifier, which `paytokenctl approval approve` takes.
    public var approval: String
    public var expires: Date
    /// The key's state while the operation waits; absent if the operation concerns no key of the ledger.
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
    /// The approval's identifier, 16 hex characters.
    public var approval: String
    /// The operation's name in the record, such as `key_destroy`.
    public var operation: String
    /// `pending`, `approved`, `done`, `rejected`, `withdrawn` or `expired`. An approval stays `approved` until the
    /// operation is carried out: an import when its requester repeats the request, another node's operation on that node.
    public var status: String
    /// Base64 of 32 bytes; absent if no key is concerned.
    public var publicKeyHash: String?
    /// The merchant of the key; absent if no key is concerned, or if the key has not been imported yet.
    public var merchantIdentifier: String?
    /// The key's state at the time of the request. The approval is valid only while the key is in this state.
    public var keyState: String?
    /// The HSM token that would seal the record. Present only in lists, for an open request for another audit key on the
    /// answering node.
    public var token: String?
    /// True, in such a list, if the request says that the present audit key is lost. Absent otherwise.
    public var lost: Bool?
    public var reason: String
    /// The name of the access rule that matched the requester.
    public var requestedBy: String
    /// The node that received the request. It also carries the operation out if that concerns its own HSM token, record or
    /// clock. Absent if a single host uses the ledger.
    public var node: String?
    public var requester: UInt32
    /// The requester's login uid; absent if it equals the uid. The kernel reports it, but a process that has none yet can
    /// set any value.
    public var requesterLoginUid: UInt32?
    public var requestedAt: Date
    public var expires: Date
    /// The uid of the person who decided; absent while no decision has been made.
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
    /// The key after the operation. Absent if the operation concerns no key, or has not been carried out.
    public var key: KeySummary?

    public init(approval: ApprovalSummary, key: KeySummary?) {
        self.approval = approval
        self.key = key
    }
}

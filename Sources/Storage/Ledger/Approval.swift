public import AccessControl
public import AuditChain
public import Foundation
public import MerchantKeys
public import PaymentToken

/// An operation that needs, or has received, a second person's approval. It contains no key material, only a digest of
/// the operation's parameters.
public struct Approval: Sendable, Equatable {
    public enum Status: String, Sendable, CaseIterable {
        case pending
        /// Approved but not carried out. For example, the daemon carries out an import only when the requester repeats
        /// the request, since the approval contains no key material.
        case approved
        /// Approved and carried out.
        case done
        case rejected
        /// Withdrawn by its requester.
        case withdrawn
        case expired
    }

    /// 8 random bytes.
    public let identifier: ApprovalIdentifier
    public let operation: ApprovalOperation
    /// SHA-256 of the operation's parameters. An operation with other parameters cannot use the approval.
    public let parameters: AuditDigest
    /// The key that the operation affects; nil if it affects none. `keyState` is the key's state at the time of the
    /// request.
    public let key: PublicKeyHash?
    public let keyState: KeyState?
    public let requester: ApprovalRequester
    /// The node on which the operation was requested. The ledger sets it when it stores the request; nil before.
    public internal(set) var node: String?
    /// The requester's reason, sanitised like all text in audit records.
    public let reason: AuditReason
    public let requestedAt: Date
    public let expires: Date
    public var status: Status
    /// The uid of the account that decided; nil while the request is undecided. ``decidedAt`` is the time of the
    /// decision.
    public var decidedBy: UInt32?
    public var decidedAt: Date?

    public init(
        identifier: ApprovalIdentifier, operation: ApprovalOperation, parameters: AuditDigest, key: PublicKeyHash?,
        keyState: KeyState?, requester: ApprovalRequester, reason: AuditReason, requestedAt: Date,
        expires: Date, status: Status = .pending, decidedBy: UInt32? = nil, decidedAt: Date? = nil
    ) {
        self.identifier = identifier
        self.operation = operation
        self.parameters = parameters
        self.key = key
        self.keyState = keyState
        self.requester = requester
        self.reason = reason
        self.requestedAt = requestedAt
        self.expires = expires
        self.status = status
        self.decidedBy = decidedBy
        self.decidedAt = decidedAt
    }

    /// Returns the status at `now`. A pending or approved operation whose time has passed counts as expired, even if
    /// the ledger has not recorded that yet.
    public func status(at now: Date) -> Status {
        switch status {
        case .pending, .approved: now < expires ? status : .expired
        case .done, .rejected, .withdrawn, .expired: status
        }
    }
}

extension ApprovalOperation {
    /// The operations on one node's own HSM token, ledger or clock. Only the node on which they were requested can
    /// perform them.
    public static let ofOneNode: Set<ApprovalOperation> = [
        .keyAdopt, .auditKeyChange, .ledgerAcceptRestore, .ledgerAcceptClock,
    ]
}

extension Approval {
    /// The maximum number of open requests of one uid on one node. Without it, one account could hide the requests of
    /// others among its own.
    static let openLimit = 20

    /// Returns the reason why the step is impossible now; nil if it is possible.
    ///
    /// - Parameters:
    ///   - node: the node on which the step is taken.
    ///   - keyState: returns the state of ``key`` in the step's transaction; called only if the step depends on it.
    package func conflict(
        with step: AdministrativeChange.ApprovalStep, at now: Date, on node: String, keyState: () throws -> KeyState?
    ) rethrows -> ApprovalConflict? {
        switch step {
        case .request: return nil
        case .approve(_, let person, _):
            if let conflict = undecidable(at: now) { return conflict }
            if let conflict = requesterConflict(with: person, on: node) { return conflict }
            guard key != nil else { return nil }
            let found = try keyState()
            return found == self.keyState ? nil : .keyChanged(from: self.keyState, to: found)
        case .reject: return undecidable(at: now)
        case .withdraw(_, let person):
            if let conflict = ended(at: now) { return conflict }
            return isRequester(person, on: node) ? nil : .anotherPerson
        case .use(_, let parameters, let person):
            return conflict(using: parameters, by: person, on: node, at: now)
        }
    }

    private func ended(at now: Date) -> ApprovalConflict? {
        switch status(at: now) {
        case .pending, .approved: nil
        case .expired: .expired
        case .done, .rejected, .withdrawn: .notPending(status)
        }
    }

    private func undecidable(at now: Date) -> ApprovalConflict? {
        ended(at: now) ?? (status == .pending ? nil : .notPending(status))
    }

    /// Returns the reason why this person cannot approve the request; nil if the person can.
    ///
    /// On one host, uids distinguish people. On another host, the same person may have a different uid, so the account
    /// names must differ as well. An unknown name does not count as different.
    public func requesterConflict(with person: PersonIdentities, on node: String) -> ApprovalConflict? {
        guard person.isAnother(than: requester.person) else { return .samePerson }
        guard let asked = self.node, asked != node else { return nil }
        guard let requesters = requester.person.accountNames else { return .requestersAccountUnknown(node: asked) }
        guard let approvers = person.accountNames else { return .accountUnknown(node: asked) }
        return approvers.isDisjoint(with: requesters) ? nil : .sameAccount(node: asked)
    }

    /// Returns true if the person is the requester. Only the uid and the host are compared. The login uid proves less,
    /// since some processes can set it to another person's.
    public func isRequester(_ person: PersonIdentities, on node: String) -> Bool {
        person.uid == requester.uid && (self.node ?? node) == node
    }

    /// Returns the reason why the requester cannot carry out this approved operation now; nil if they can.
    public func conflict(
        using parameters: AuditDigest, by person: PersonIdentities, on node: String, at now: Date
    ) -> ApprovalConflict? {
        switch status(at: now) {
        case .approved: break
        case .pending: return .notApproved
        case .expired: return .expired
        case .done, .rejected, .withdrawn: return .notPending(status)
        }
        guard isRequester(person, on: node) else { return .anotherPerson }
        return self.parameters == parameters ? nil : .otherParameters
    }
}

/// The account that requested an operation, as the kernel reported it. When the operation is approved, the access rules
/// are applied to this account again.
public struct ApprovalRequester: Sendable, Equatable {
    public let person: PersonIdentities
    /// The access rule's name, or the uid if the rule has no name; for display.
    public let name: String
    public let gid: UInt32
    /// Supplementary groups.
    public let groups: [UInt32]

    public init(person: PersonIdentities, name: String, gid: UInt32, groups: [UInt32]) {
        self.person = person
        self.name = name
        self.gid = gid
        self.groups = groups
    }

    public var uid: UInt32 { person.uid }

    /// The access rule's name; nil if the rule has no name, so that ``name`` is the uid.
    public var ruleName: String? { name == String(uid) ? nil : name }
}

/// The reason why an approval cannot be given or used.
public enum ApprovalConflict: Error, Sendable, Equatable, CustomStringConvertible {
    case unknown
    case expired
    /// The approval was already decided, withdrawn or used.
    case notPending(Approval.Status)
    /// The operation has not been approved yet.
    case notApproved
    case samePerson
    /// The approver is on a different node and has an account of the same name as an account of the requester. They may
    /// be the same person.
    case sameAccount(node: String)
    /// The approver is on a different node, and the approver's uid has no account there.
    case accountUnknown(node: String)
    /// The approver is on a different node, and the ledger lacks the requester's account names. A uid of the requester
    /// had no account, or an older version recorded the request.
    case requestersAccountUnknown(node: String)
    /// The requester's account already has this number of open requests, which is the maximum.
    case tooMany(Int)
    /// The caller is not the requester, who alone can withdraw or use the approval.
    case anotherPerson
    /// The key's state has changed since the request.
    case keyChanged(from: KeyState?, to: KeyState?)
    /// The operation's parameters differ from those that were approved.
    case otherParameters

    public var description: String {
        switch self {
        case .unknown: "There is no such approval. List the approvals to see those that exist."
        case .expired: "The approval has expired; request the operation again."
        case .notPending(let status): "The approval is \(status.rawValue), so it can no longer be decided or used."
        case .notApproved: "The operation is not approved yet: a second person must approve it."
        case .tooMany(let limit): "You already have \(limit) open requests; withdraw those that are not needed."
        case .samePerson: "The person who requested an operation cannot approve it; a second person must."
        case .sameAccount(let node):
            "An account with the same name as yours requested the operation on node \(node), and it may be yours. "
                + "A person with another account must approve it."
        case .accountUnknown(let node):
            "The operation was requested on node \(node), and one of your uids has no account on this node, so account names "
                + "cannot be compared. Approve it on \(node), or create an account for the uid here."
        case .requestersAccountUnknown(let node):
            "The operation was requested on node \(node), and the ledger lacks the requester's account name there, so no other "
                + "node can tell two persons apart. Approve it on \(node), or have the requester withdraw it and request it "
                + "again."
        case .anotherPerson: "Only the person who asked for the operation can do this, on the same node."
        case .keyChanged(let from, let to):
            "The key's state has changed since the operation was requested, from \(Self.name(from)) to "
                + "\(Self.name(to)); request it again."
        case .otherParameters:
            "The approval was given for another operation, for other parameters, or on a node with another version; "
                + "request a new one."
        }
    }

    private static func name(_ state: KeyState?) -> String { state?.rawValue ?? "none" }
}

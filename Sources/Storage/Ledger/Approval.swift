public import AccessControl
public import AuditChain
public import Foundation
public import MerchantKeys
public import PaymentToken

/// An operation that waits for a second person, or waited for one. It holds no key material: of the operation's
/// parameters only their digest.
public struct Approval: Sendable, Equatable {
    /// What became of it.
    public enum Status: String, Sendable, CaseIterable {
        case pending
        /// Permitted; an import still waits for its requester to repeat it.
        case approved
        /// Permitted and carried out.
        case done
        case rejected
        /// Taken back by its requester.
        case withdrawn
        case expired
    }

    /// 8 random bytes.
    public let identifier: ApprovalIdentifier
    public let operation: ApprovalOperation
    /// SHA-256 of the operation's parameters: what is carried out is what was approved.
    public let parameters: AuditDigest
    /// The key that it is about, and the state in which that was found; nil where there is none.
    public let key: PublicKeyHash?
    public let keyState: KeyState?
    public let requester: ApprovalRequester
    /// The node on which it was asked for, which the ledger writes; nil before.
    public internal(set) var node: String?
    /// Cleaned as records have it.
    public let reason: AuditReason
    public let requestedAt: Date
    public let expires: Date
    public var status: Status
    /// The account (uid) that decided, and when.
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

    /// As it stands at `now`: what was not decided in time is expired, whether or not anybody has noted it.
    public func status(at now: Date) -> Status {
        switch status {
        case .pending, .approved: now < expires ? status : .expired
        case .done, .rejected, .withdrawn, .expired: status
        }
    }
}

extension ApprovalOperation {
    /// Those that one node's own HSM token, ledger or clock is about: only that node can carry them out.
    public static let ofOneNode: Set<ApprovalOperation> = [
        .keyAdopt, .auditKeyChange, .ledgerAcceptRestore, .ledgerAcceptClock,
    ]
}

extension Approval {
    /// One account's requests must not push the others' out of sight, under whatever login uids they come.
    static let openLimit = 20

    /// Why a step cannot be taken with this approval now; nil when it can.
    ///
    /// - Parameters:
    ///   - node: on which the step is taken.
    ///   - keyState: of ``key``, in the transaction that takes the step; asked for only where it counts.
    func conflict(
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

    /// Why this person cannot approve it as the second one; nil when nothing is against it.
    ///
    /// On one host uids tell persons apart. Another host may have given the same person another uid: there the names of the
    /// accounts must differ as well, and a name that is not known does not differ.
    public func requesterConflict(with person: PersonIdentities, on node: String) -> ApprovalConflict? {
        guard person.isAnother(than: requester.person) else { return .samePerson }
        guard let asked = self.node, asked != node else { return nil }
        guard let requesters = requester.person.accountNames else { return .requestersAccountUnknown(node: asked) }
        guard let approvers = person.accountNames else { return .accountUnknown(node: asked) }
        return approvers.isDisjoint(with: requesters) ? nil : .sameAccount(node: asked)
    }

    /// Whether this is who asked. Only the account says so, on the host where it was asked: a login uid that both have says
    /// less, since a process can give itself somebody else's.
    private func isRequester(_ person: PersonIdentities, on node: String) -> Bool {
        person.uid == requester.uid && (self.node ?? node) == node
    }

    /// Why this approved operation cannot be carried out by its requester now; nil when it can.
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

/// Who asked for an operation, as the kernel said then: whether the same rules would still serve them is checked when
/// the operation is approved.
public struct ApprovalRequester: Sendable, Equatable {
    public let person: PersonIdentities
    /// The access rule's name, for people.
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

    /// The access rule's name; nil where the rule has none, and its callers go by their uids.
    public var ruleName: String? { name == String(uid) ? nil : name }
}

/// Why an approval does not serve.
public enum ApprovalConflict: Error, Sendable, Equatable, CustomStringConvertible {
    case unknown
    case expired
    /// It was decided, withdrawn or used before.
    case notPending(Approval.Status)
    /// An import that nobody has approved yet.
    case notApproved
    case samePerson
    /// An account of the person who decides has the same name as one of the requester's on the node where it was asked for.
    case sameAccount(node: String)
    /// The person who decides on another node has a uid without an account there.
    case accountUnknown(node: String)
    /// The ledger does not have the name of each of the requester's accounts: there was none, or an older version asked.
    case requestersAccountUnknown(node: String)
    /// The person has that many open requests already.
    case tooMany(Int)
    /// Only its requester can withdraw it or use it.
    case anotherPerson
    /// The key's state has changed since it was asked for.
    case keyChanged(from: KeyState?, to: KeyState?)
    /// It was given for something else.
    case otherParameters

    public var description: String {
        switch self {
        case .unknown: "There is no such approval; the list of approvals shows those there are."
        case .expired: "The approval has expired; ask for the operation again."
        case .notPending(let status): "The approval is \(status.rawValue) and cannot be decided or used any more."
        case .notApproved: "It is not approved yet: a second person must approve it."
        case .tooMany(let limit): "You have \(limit) requests open already; withdraw those that are not needed."
        case .samePerson: "Who asked for an operation cannot approve it; a second person must."
        case .sameAccount(let node):
            "It was asked for on the node \(node) by an account of the same name as yours, which may be yours; a person with "
                + "another account must approve it."
        case .accountUnknown(let node):
            "It was asked for on the node \(node). On another node only a person approves whose uids have accounts, since the "
                + "accounts' names must differ; approve it on \(node), or give the uid an account here."
        case .requestersAccountUnknown(let node):
            "It was asked for on the node \(node), and the ledger does not have the name of the requester's account there, "
                + "without which no other node can tell two persons apart. Approve it on \(node), or have the requester "
                + "withdraw it and ask again."
        case .anotherPerson: "Only the person who asked for the operation can do this, on the same node."
        case .keyChanged(let from, let to):
            "The key's state has changed since the operation was asked for, from \(Self.name(from)) to "
                + "\(Self.name(to)); ask for it again."
        case .otherParameters:
            "The approval was given for another operation or other parameters, or on a node of another version; "
                + "ask for a new one."
        }
    }

    private static func name(_ state: KeyState?) -> String { state?.rawValue ?? "none" }
}

public import AccessControl
public import AuditChain
public import Foundation
public import MerchantKeys

/// The state in which a key was when a change was decided, and must be when it is made: others may have changed it
/// meanwhile.
public enum KeyPrecondition: Sendable, Equatable {
    case any
    /// The ledger does not know the key.
    case absent
    case state(KeyState)

    public init(_ known: KeyRecord?) {
        self = known.map { .state($0.state) } ?? .absent
    }
}

/// Something that people do to keys and approvals: one transaction, together with its records.
public struct AdministrativeChange: Sendable {
    /// A key that changes in the same transaction as others, with its record.
    public struct KeyChange: Sendable {
        public let key: KeyRecord
        public let precondition: KeyPrecondition
        public let record: AuditRecord

        public init(_ key: KeyRecord, precondition: KeyPrecondition, record: AuditRecord) {
            self.key = key
            self.precondition = precondition
            self.record = record
        }
    }

    /// The present clock is taken for right: this node's records before this change say nothing about the time any more
    /// (``LedgerTimes/newestRecord``), and what was forgotten may be limited.
    public struct ClockChange: Sendable, Equatable {
        /// As it was found when the change was planned, and must be still.
        public let forgottenBefore: Date?
        /// From then on ``LedgerTimes/forgottenBefore``; earlier than it was. Nil leaves it. A shared ledger makes it later where its
        /// server's clock or another node's window asks for that.
        public internal(set) var servedFrom: Date?

        public init(forgottenBefore: Date?, servedFrom: Date?) {
            self.forgottenBefore = forgottenBefore
            self.servedFrom = servedFrom
        }
    }

    /// What happens to an approval.
    public enum ApprovalStep: Sendable, Equatable {
        /// It is asked for.
        case request(Approval)
        /// It is decided: another person, in time, and the key's state as it was.
        case approve(ApprovalIdentifier, by: PersonIdentities, executes: Bool)
        case reject(ApprovalIdentifier, by: PersonIdentities)
        /// By its requester.
        case withdraw(ApprovalIdentifier, by: PersonIdentities)
        /// The requester repeats an approved operation.
        case use(ApprovalIdentifier, parameters: AuditDigest, by: PersonIdentities)
    }

    /// The present, by which approvals expire.
    public var at: Date
    /// The key's new record; nil changes none.
    ///
    /// A known key keeps its merchant, algorithm, origin and time of creation; its state moves only as
    /// ``MerchantKeys/KeyState/canBecome(_:)`` permits.
    public var key: KeyRecord?
    /// As what the key must be found in this very transaction.
    public var precondition: KeyPrecondition
    public var approval: ApprovalStep?
    /// Written in the same transaction. A change of state is recorded with the state that the ledger had before.
    public var records: [AuditRecord]
    /// After ``key``, each with its own record after ``records``.
    public var furtherKeys: [KeyChange] = []
    /// A planned audit key that signs the checkpoints from now on; nil changes none.
    public var auditKey: StoredAuditKey?
    /// Takes back what a wrong clock made the ledger believe; nil changes nothing.
    public var clock: ClockChange?
    /// Takes a restored ledger into service; nil changes nothing.
    public var restore: Restore?
    /// A written and verified archive of this node's record; its own records are made with it. Nil archives nothing.
    public var archive: RecordArchive?

    public init(
        at: Date, key: KeyRecord? = nil, precondition: KeyPrecondition = .any, approval: ApprovalStep? = nil,
        records: [AuditRecord]
    ) {
        self.at = at
        self.key = key
        self.precondition = precondition
        self.approval = approval
        self.records = records
    }
}

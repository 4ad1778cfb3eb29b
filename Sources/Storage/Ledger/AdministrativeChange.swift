public import AccessControl
public import AuditChain
public import Foundation
public import MerchantKeys

/// The state that a change requires of its key. The ledger checks it in the change's transaction. Otherwise the change
/// could overwrite another one that was made after the caller read the key.
public enum KeyPrecondition: Sendable, Equatable {
    case any
    /// The ledger does not know the key.
    case absent
    case state(KeyState)

    public init(_ known: KeyRecord?) {
        self = known.map { .state($0.state) } ?? .absent
    }
}

/// An administrator's change to keys and approvals, made in one transaction with its audit records.
public struct AdministrativeChange: Sendable {
    /// A change of a key other than ``AdministrativeChange/key`` in the same transaction, with its own audit record.
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

    /// Accepts the current clock as correct. This node's earlier records no longer count as evidence of the time
    /// (``LedgerTimes/newestRecord``), and ``LedgerTimes/forgottenBefore`` may become an earlier time.
    public struct ClockChange: Sendable, Equatable {
        /// The value of ``LedgerTimes/forgottenBefore`` when the change was planned. The change is refused if the value
        /// now differs.
        public let forgottenBefore: Date?
        /// The new, earlier value of ``LedgerTimes/forgottenBefore``; nil leaves it unchanged. A shared ledger chooses
        /// a later time if its server's clock or another node's window requires one.
        public internal(set) var servedFrom: Date?

        public init(forgottenBefore: Date?, servedFrom: Date?) {
            self.forgottenBefore = forgottenBefore
            self.servedFrom = servedFrom
        }
    }

    /// A step in an approval's life.
    public enum ApprovalStep: Sendable, Equatable {
        /// Stores a new request for approval.
        case request(Approval)
        /// Approves the request. The person must not be the requester, the request must not have expired, and the key's
        /// state must be unchanged. If `executes` is true, this change also carries out the operation.
        case approve(ApprovalIdentifier, by: PersonIdentities, executes: Bool)
        case reject(ApprovalIdentifier, by: PersonIdentities)
        /// Withdraws the request; only its requester can.
        case withdraw(ApprovalIdentifier, by: PersonIdentities)
        /// Uses up an approval whose operation is carried out now, since its requester has repeated the request.
        case use(ApprovalIdentifier, parameters: AuditDigest, by: PersonIdentities)
    }

    /// A step in a renewal's life.
    public enum RenewalStep: Sendable {
        /// Stores a new renewal. Refused if the merchant has an open one of the same use and algorithm.
        case start(StoredRenewal)
        /// Stores an attempt at a change at Apple before its request is made. If the change has an approval, this uses it
        /// up in the same transaction; if the key must be active first, ``AdministrativeChange/key`` makes it so.
        ///
        /// - Parameters:
        ///   - previous: the certificate that wallets use, for an attempt to create one.
        ///   - repeatsEarlier: true if a person has decided to request a certificate although an earlier renewal of the key
        ///     may have led to one.
        case begin(RenewalAttempt, of: RenewalIdentifier, previous: String?, repeatsEarlier: Bool = false)
        /// Stores the answer to an attempt.
        ///
        /// - Parameters:
        ///   - code: Apple's status and code of a refusal.
        ///   - certificate: the created certificate in DER, with its id at Apple.
        case answer(
            RenewalAttemptId, of: RenewalIdentifier, Renewal.Attempt.Outcome, code: String?,
            certificate: (id: String, der: [UInt8])?)
        /// Stores the certificate request of the new key, in DER.
        case store(request: [UInt8], of: RenewalIdentifier)
        /// Stores the certificate that Apple's list shows.
        case found(id: String, certificate: [UInt8], of: RenewalIdentifier)
        case finish(RenewalIdentifier)
        case abandon(RenewalIdentifier)
    }

    /// The time of the change. Requests for approval whose deadline is at or before this time count as expired.
    public var at: Date
    /// The new record of a key; nil to change no key.
    ///
    /// A known key keeps its merchant, algorithm, origin and time of creation. Its state changes only as
    /// ``MerchantKeys/KeyState/canBecome(_:)`` permits.
    public var key: KeyRecord?
    /// The expected state of ``key``, checked in the same transaction.
    public var precondition: KeyPrecondition
    public var approval: ApprovalStep?
    /// The audit records, written in the same transaction. In a record of a state change, the ledger replaces the
    /// previous state by the state that it finds in the transaction.
    public var records: [AuditRecord]
    /// Further keys, changed after ``key``. Their records follow ``records``.
    public var furtherKeys: [KeyChange] = []
    /// A planned audit key that signs this node's audit checkpoints from now on; nil to keep the current one.
    public var auditKey: StoredAuditKey?
    /// Confirms the clock after it was wrong; nil to change nothing.
    public var clock: ClockChange?
    /// Accepts a restored ledger; nil to change nothing.
    public var restore: Restore?
    /// A written and verified archive of this node's records; its audit records are made in the same transaction. Nil
    /// to archive nothing.
    public var archive: RecordArchive?

    /// A step of a renewal; nil to change none.
    public var renewal: RenewalStep?

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

// The daemon's only store: claims, key records, approvals, audit records and audit checkpoints.
//
// Callers: `TokenDecryptor` claims every release here, the commands for keys and approvals change their rows here, and
// every audit record is appended here. For the guarantees, see `Ledger` below. The most important one: a single
// transaction claims a payment, checks the key's state and writes the audit record, and is durable before the caller
// receives an answer.
//
// Where to start: `Ledger` (this file), then Release.swift (claims and repeats), then one of the two engines. Each
// engine is a target: SQLiteLedger for one host, PostgreSQLLedger for several. This target has the parts that both
// engines share: types, SQL statements, and the rules for claims, approvals, changes and pruning. The queue to the single
// writer and the deadlines are in DatabaseKit. Both engines pass the same tests (Tests/Storage/LedgerTests/Protocol). The
// target OfflineLedger restores a ledger's file, and moves a file's content to a server.

public import AuditChain
public import Foundation
public import MerchantKeys
public import PaymentToken

/// The daemon's only store: the claims of released transactions, key records, approvals and the key-usage record.
///
/// Each engine is one target that implements this protocol. All calls are safe from any task and do not block Swift's
/// task threads. ``release(_:recording:)`` prevents a payment from being credited twice. It checks the key's state and
/// writes the claim in one transaction, which is durable before the verdict is returned. Calls that arrive during a
/// commit share the next commit.
///
/// Every call ends within `ledger.timeout`: if the disk or server has not responded by then, it throws `timedOut`. A
/// backup (``backup(to:)``) times out only after it has made no progress for that long. Every call throws `overloaded`
/// if too many calls are queued.
public protocol Ledger: AuditTrail {
    /// This node's name. The ledger stores it in every row that this node writes.
    var node: String { get }

    /// The engine's name for display, `sqlite` or `postgresql`.
    var engine: String { get }
    var schemaVersion: Int { get }
    /// The permitted but insecure settings of the ledger's server; empty for a ledger in a file.
    var insecureSettings: Set<InsecureLedgerSetting> { get }
    /// This daemon's lease of its node's name; nil for a ledger in a file, which has no leases.
    var lease: NodeLeaseStatus? { get }

    /// Reads the status of the ledger's server and of the nodes that share it; nil for a ledger in a file.
    func serverStatus() async throws(LedgerFailure) -> LedgerServer?

    /// Returns the number of synchronous standbys to which the ledger's server streams. Nil for a ledger in a file, or
    /// if the daemon's role lacks `pg_read_all_stats`.
    func synchronousStandbys() async throws(LedgerFailure) -> Int?

    /// Returns the bytes that are free for the daemon's account on the file system of the ledger's file; nil for a
    /// ledger on a server.
    func freeBytes() async throws(LedgerFailure) -> UInt64?

    /// Claims a transaction for release, or returns why it must not be released.
    ///
    /// - Parameter record: the audit record, written in the same transaction with the verdict as its outcome. Nil to
    ///   record nothing.
    /// - Throws: `unavailable` if the transaction did not become durable or its outcome is unknown. The claim may then
    ///   exist; the caller should repeat with the same reference.
    func release(_ release: Release, recording record: AuditRecord?) async throws(LedgerFailure) -> RecordedVerdict

    /// The counter of requests that may soon call ``release(_:recording:)``. The writer may delay a commit so that it
    /// includes their claims.
    var releasesUnderWay: ReleasesUnderWay { get }

    /// Determines whether the transaction may be released again, as ``release(_:recording:)`` would decide now. This
    /// call changes nothing and reads only the claim.
    func wouldRepeat(_ release: Release) async throws(LedgerFailure) -> Repeatability

    /// Returns true if this process remembers that all repeats of a transaction are used up. It reads memory only, so
    /// it is cheap enough for every request. After a restart, it returns false for such a transaction until the ledger
    /// refuses a repeat of it.
    func isUsedUp(_ transaction: TransactionIdentifier) -> Bool

    /// Counts a repeat that was decrypted and then refused because of the payment data. Such a repeat does not reach
    /// ``release(_:recording:)``, which counts all other repeats. Does nothing if the transaction has not been
    /// released, or if `release` is not a repeat of it.
    func countRefusedRepeat(_ release: Release) async throws(LedgerFailure)

    /// Records a signature, if the key may make it. The check of the key's use and state and the record are one
    /// transaction, which is durable before the verdict is returned. A signature without a granted verdict must not
    /// leave the process.
    ///
    /// - Parameter record: the audit record, written in the same transaction with the verdict as its outcome.
    /// - Throws: `unavailable` if the transaction did not become durable or its outcome is unknown.
    func record(_ signature: SignatureUse, recording record: AuditRecord) async throws(LedgerFailure)
        -> RecordedSignature

    /// Returns all key records, including destroyed keys, ordered by publicKeyHash.
    func keyRecords() async throws(LedgerFailure) -> [KeyRecord]

    /// Returns the uses of each key since `time` on all nodes: claims for a processing key, signatures for every other.
    /// Unused keys are omitted, and repeats do not count. The call reads every claim since `time`, so callers should
    /// request a few days at most.
    func usage(since time: Date) async throws(LedgerFailure) -> [PublicKeyHash: KeyUses]

    /// Returns the time of the key's last first release or signature since `time` and before `end`; nil if there was none.
    /// The call may read every claim of that period: a million take some seconds.
    ///
    /// - Parameter end: the time before which the use was; nil for no such limit.
    func lastUse(of key: PublicKeyHash, since time: Date, before end: Date?) async throws(LedgerFailure) -> Date?

    /// Returns one key's record; nil if the ledger does not know the key.
    func keyRecord(_ hash: PublicKeyHash) async throws(LedgerFailure) -> KeyRecord?

    /// Makes one small durable write, for the readiness check. Throws if the ledger cannot be written now.
    func probe() async throws(LedgerFailure)

    /// Removes claims that are older than the retention, unless the clock is unconfirmed
    /// (``ClaimPruningOutcome/clockUnconfirmed``).
    ///
    /// - Parameter now: the daemon's clock, which may be wrong.
    func prune(_ retention: ClaimRetention, now: Date) async throws(LedgerFailure) -> ClaimPruningOutcome

    /// Returns the times that this ledger records, for checking the clock.
    func times() async throws(LedgerFailure) -> LedgerTimes

    /// Returns the time of the newest release that is not a repeat, according to claims and records; nil if there is
    /// none. It confirms no clock: a message of Google Pay is released with a clock that is days wrong. The call may scan
    /// the records.
    func newestRelease() async throws(LedgerFailure) -> Date?

    /// Returns the time of the newest claim of Apple Pay; nil if there is none. That time has passed, however wrong the
    /// clock is, since Apple's signing time was within the window around it. The call may scan the claims.
    func newestConfirmedTime() async throws(LedgerFailure) -> Date?

    /// Returns, for each caller's uid, the time of its first release in this node's records of these sequences. Repeats
    /// do not count. The call reads every record in the range: ten thousand take about ten milliseconds.
    func firstReleases(in sequences: ClosedRange<Int>) async throws(LedgerFailure) -> [UInt32: AuditTime]

    /// Returns the proofs of a key since `time` on all nodes of the ledger, the newest first: the newest 1,000, if there
    /// are more. Refused requests that reached no HSM token are left out, and so are records that were archived and
    /// removed. The call reads the key's proofs only.
    func proofs(of key: PublicKeyHash, since time: Date) async throws(LedgerFailure) -> [KeyProof]

    // MARK: Renewals of certificates at Apple (``AdministrativeChange/renewal`` changes them)

    /// Returns a merchant's renewals, open or not; the newest first.
    func renewals(of merchant: String) async throws(LedgerFailure) -> [StoredRenewal]

    /// Returns the open renewals of all merchants. The call reads an index of open renewals only.
    func openRenewals() async throws(LedgerFailure) -> [StoredRenewal]

    /// Returns those of these nodes that have released a payment with a key since `time`. The call reads the newest
    /// releases first, down to `time` for a node without one.
    func nodes(
        _ nodes: Set<String>, releasedWith key: PublicKeyHash, since time: Date
    ) async throws(LedgerFailure) -> Set<String>

    // MARK: Backup and end

    /// Makes a consistent copy while the ledger is in use. The copy can later replace the ledger.
    ///
    /// - Parameter path: an absolute path at which no file exists. The copy is readable by its owner only and synced to
    ///   disk.
    func backup(to path: String) async throws(LedgerBackupError) -> BackupFile

    /// Waits at most `ledger.timeout` for current work, then closes the store. Later calls fail with `unavailable`.
    func close() async

    // MARK: Administrative changes

    /// Makes the whole change or none of it.
    ///
    /// - Returns: the sequences of the records, in order.
    /// - Throws:
    ///   - `conflict` if the key's change is not permitted.
    ///   - `approval` if the change's approval is not valid for it.
    ///   - `auditKeyConflict` if the audit key was not planned.
    ///   - `timesConflict` if ``LedgerTimes/forgottenBefore`` differs from the value in the change.
    ///   - `holdsConflict` if the holds of a restored ledger differ from those in the change.
    ///   - `windowOff` if a restored ledger cannot be accepted because a node's signing-time window is off or unknown.
    ///   - `archive` if the archive is not the next one.
    @discardableResult
    func apply(_ change: AdministrativeChange) async throws(LedgerFailure) -> [Int]

    /// Returns at most `limit` approvals. Open approvals come before ended ones, and within each group the newest come
    /// first. Ended approvals are kept until ``forgetApprovals(expiredBefore:keeping:)`` removes them.
    func approvals(limit: Int) async throws(LedgerFailure) -> [Approval]

    /// Returns the approval with this identifier; nil if there is none.
    func approval(_ identifier: ApprovalIdentifier) async throws(LedgerFailure) -> Approval?

    /// Marks approvals that were not decided or used in time as expired, and records each.
    ///
    /// - Returns: the number of expired approvals.
    @discardableResult
    func expireApprovals(now: Date) async throws(LedgerFailure) -> Int

    /// Removes ended approvals whose time to decide passed before `time`. Of the other ended approvals, it keeps only
    /// the `count` newest. The audit record keeps the outcome of each.
    ///
    /// - Returns: the number of removed approvals.
    @discardableResult
    func forgetApprovals(expiredBefore time: Date, keeping count: Int) async throws(LedgerFailure) -> Int

    // MARK: Changes by other nodes
    //
    // No release depends on these updates, since each release is decided from the store's current rows.

    /// Reports changes of keys and approvals within about a second, including this node's own. In the first element,
    /// and in the first after the store was unreachable, ``AdministrativeUpdates/keys`` is nil: any key may have
    /// changed. The stream ends when the ledger is closed, and immediately if a single node uses the ledger. Only one
    /// task may iterate it.
    func administrativeUpdates() -> AsyncStream<AdministrativeUpdates>

    // MARK: Restored ledgers
    //
    // A restored ledger may lack records that a node remembers. If a node detects this, no node releases anything until
    // an administrator accepts the ledger.

    /// True if other nodes use this ledger too. HSM tokens may then contain audit keys and heads of other nodes.
    var isShared: Bool { get }

    /// Reads from the store whether the ledger may release.
    func releaseStatus() async throws(LedgerFailure) -> LedgerReleaseStatus

    /// Puts the ledger on hold, so that no node releases anything. The hold is durable when the call returns. A second
    /// call replaces this node's earlier finding.
    func hold(_ finding: LedgerHold.Finding) async throws(LedgerFailure)

    /// Compares this node's chain, on the server that accepts writes, with the head that its HSM token remembers. If
    /// the chain continues from the head, the call records that this node has compared its chain on that server. If
    /// `remembered` is nil, the chain counts as continuing.
    func confirm(remembered: Checkpoint?) async throws(LedgerFailure) -> HeadComparison

    /// Sets the widest of this node's signing-time windows; nil while a window is off. Before the first call, no
    /// restored ledger can be accepted.
    func update(widestWindow: Duration?) async throws(LedgerFailure)

    // MARK: Audit keys
    //
    // The keys that sign this node's audit checkpoints. A key is planned here, then made in the HSM token under the
    // planned identifier, then confirmed here. If the process ends in between, the next start finds the planned key and
    // continues. The ledger thus knows every audit key in the HSM token.

    /// Returns the audit keys in the order in which they were planned. The last confirmed one signs.
    func auditKeys() async throws(LedgerFailure) -> [StoredAuditKey]

    /// Plans an audit key, durably when the call returns. Planning the same key again changes nothing.
    ///
    /// - Parameters:
    ///   - identifier: 16 bytes.
    ///   - hsmToken: the configured name of the HSM token that has the key, or will make it.
    /// - Throws: `auditKeyConflict` if the identifier is not 16 bytes long.
    func planAuditKey(identifier: [UInt8], in hsmToken: String?) async throws(LedgerFailure)

    /// Stores the configured name of the HSM token in which an audit key was found. The name is missing for keys of
    /// earlier versions, and outdated after the HSM token was given another name.
    func update(auditKey identifier: [UInt8], foundIn hsmToken: String) async throws(LedgerFailure)

    /// Records the public key of a planned key.
    ///
    /// - Parameters:
    ///   - publicKey: the form of `CheckpointKey.init(stored:)`.
    ///   - record: the audit record, written in the same transaction. Nil to record nothing.
    /// - Returns: the record's sequence. Nil if `record` is nil. Also nil if the key was already confirmed with this
    ///   public key; nothing is then written.
    /// - Throws: `auditKeyConflict` if the key was not planned or has a different public key.
    @discardableResult
    func confirmAuditKey(
        identifier: [UInt8], publicKey: [UInt8], recording record: AuditRecord?
    ) async throws(LedgerFailure) -> Int?

    // MARK: Keys and records of other nodes
    //
    // No release depends on these functions.

    /// Sets the keys that this node's HSM tokens contain, durably when the call returns. A key's destruction is
    /// complete only when every node that has the key has destroyed it.
    func update(heldKeys: Set<PublicKeyHash>) async throws(LedgerFailure)

    /// Returns the nodes that have each key, ordered by name. A node that is down is listed according to its last
    /// report.
    func keyHolders() async throws(LedgerFailure) -> [PublicKeyHash: [KeyHolder]]

    /// Returns every node that the ledger knows of, including this one, ordered by name; at most 1,024.
    func nodes() async throws(LedgerFailure) -> [AuditNode]

    /// Returns a node's chain for reading; each node writes only its own. The chain is empty if the ledger does not
    /// know the node.
    func chain(of node: AuditNode) -> any ChainReading

    /// Returns the audit keys of other nodes, including planned ones, ordered by node and then by the time of planning.
    func auditKeysOfOtherNodes() async throws(LedgerFailure) -> [NodeAuditKey]

    /// Returns a node's records about audit keys (prepared, trusted on first use, conflicting), oldest first.
    func auditKeyEvents(of node: AuditNode) async throws(LedgerFailure) -> [StoredRecord]

    // MARK: Archives of this node's records
    //
    // The oldest records of this node can be written to archive files and then removed here.
    //
    // ``apply(_:)`` records an archive with ``AdministrativeChange/archive``. The archive takes effect when an audit
    // checkpoint seals its record. Until then no record is removed, and exports still begin at the previous archive's
    // end. The archive's last record and its audit checkpoint stay, since the rest of the chain begins with them.

    /// Returns this node's archive that has no effect yet because its own record is not sealed; nil if there is none.
    func unsealedArchive() async throws(LedgerFailure) -> RecordArchive?

    /// Removes records and audit checkpoints before the last record of ``ChainReading/lastArchive()``, oldest first.
    ///
    /// - Parameter limit: the maximum number of records to remove in this call's transaction. Releases wait for it, so
    ///   callers should remove many records in several calls.
    /// - Returns: the number of removed records; 0 if none is left.
    func removeArchivedRecords(limit: Int) async throws(LedgerFailure) -> Int
}

extension Ledger {
    public var insecureSettings: Set<InsecureLedgerSetting> { [] }
    public var lease: NodeLeaseStatus? { nil }

    public func serverStatus() async throws(LedgerFailure) -> LedgerServer? { nil }

    public func synchronousStandbys() async throws(LedgerFailure) -> Int? { nil }

    public func freeBytes() async throws(LedgerFailure) -> UInt64? { nil }
}

/// An event of the writer, for metrics and logs. It is delivered on the writer's thread; for a dropped note, it may be
/// delivered on the thread that called ``AuditTrail/note(_:)``. The observer must not block.
public enum LedgerEvent: Sendable, Equatable {
    /// A batch with this number of writes became durable; `after` is the time from the batch's beginning to the end of
    /// its sync.
    case committed(writes: Int, after: Duration)
    /// This node's record is durable up to this sequence, including records that no caller waits for.
    case recorded(upTo: Int)
    /// A batch was not acknowledged. Writes of the batch that are then found in the store still succeed.
    case failed(writes: Int, reason: String)
    /// Audit records that no caller waits for (``AuditTrail/note(_:)``) were dropped because the ledger could not store
    /// them. The ledger records their number once it can write again.
    case dropped(notes: Int)
    /// The number of round trips that a batch made to its server, for engines that have one.
    case exchanged(roundTrips: Int)
    /// The result of reading back a commit whose acknowledgement was lost.
    case readBack(ReadBackOutcome)
    /// The store lacks data that this process has written. The process has now put all nodes on hold.
    case held(LedgerHold.Finding)
    /// The store is being opened, and waits for another daemon's lease of this node's name. That daemon may have ended
    /// without returning the lease.
    case waitsForNodeName(NodeNameHolder)
    /// A read of the claims of Google Pay messages has failed since the start, and is repeated until it succeeds. Until
    /// then, each first release of such a message waits for a read.
    case claimsUnread(reason: String)
}

/// The state of an unacknowledged commit, as read from the store. The metric `paytokend_ledger_reads_back_total` counts
/// each state.
public enum ReadBackOutcome: String, Sendable, CaseIterable {
    /// The commit was made and is as durable as an acknowledged one.
    case found
    /// The commit was not made and never will be.
    case absent
    /// The state could not be read in time.
    case unresolved
}

/// The host's name as the kernel reports it. It is not resolved to a full domain name, since a resolver may wait for
/// the network.
package enum HostName {
    package static var current: String {
        let text = (try? String(contentsOfFile: "/proc/sys/kernel/hostname", encoding: .utf8)) ?? ""
        let name = text.trimmingCharacters(in: .whitespacesAndNewlines)
        return AuditNode(name)?.name ?? "localhost"
    }
}

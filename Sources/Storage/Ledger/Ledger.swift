// The daemon's one store: claims, key records, approvals, the audit record and its checkpoints.
//
// Who calls it: `TokenDecryptor` claims every release here, the keys' and approvals' commands change their rows here, and
// whatever is recorded is appended here. What it guarantees: see `Ledger` below; above all that a transaction is claimed, its
// key's state checked and its audit record written in one transaction that is durable before anybody is answered.
//
// Where to start: `Ledger` (this file), then Release.swift (claims and repeats), and an engine: SQLite/SQLiteLedger.swift for one
// host, PostgreSQL/PostgreSQLLedger.swift for several. What stands outside their folders holds for every engine: the types, the
// rules by which claims, approvals, changes and pruning are decided, the way of writes to the one writer, and the deadlines. All
// engines keep the same promises (Tests/Storage/LedgerTests/Protocol).

public import AuditChain
public import Foundation
public import MerchantKeys
public import PaymentToken

/// The daemon's one store: which transaction was released to whom, what every key may do, and the record of it all.
///
/// An engine is one folder behind this protocol. All calls are safe from any task and block none of the threads that
/// Swift's tasks run on. What this protocol promises of ``release(_:recording:)`` is what keeps a payment from being credited
/// twice: the key's state is checked and the claim written in one transaction, which is durable before the verdict
/// is given. Calls that come while a commit is under way share the next one.
///
/// Every call answers within `ledger.timeout`, though its disk or server never does, and throws `timedOut` then; a copy
/// (``backup(to:)``) when it has made no progress for that long. Every call throws `overloaded` when too many wait already.
public protocol Ledger: AuditTrail {
    /// This node's name, as it stands in every row that this node writes.
    var node: String { get }

    /// `sqlite` or `postgresql`, for people.
    var engine: String { get }
    var schemaVersion: Int { get }
    /// The ledger where it is in a file: a file system can be full.
    var file: SQLiteLedger? { get }
    /// The ledger where it is on a server, which tells status and metrics more.
    var database: PostgreSQLLedger? { get }

    /// Claims a transaction for release, or says why it must not be released.
    ///
    /// - Parameter record: written in the same transaction, with the verdict as its outcome. Nil records nothing.
    /// - Throws: `unavailable` when nothing could be made durable, or when it cannot be known whether it was. The
    ///   claim may exist then: the caller repeats with the same reference.
    func release(_ release: Release, recording record: AuditRecord?) async throws(LedgerFailure) -> RecordedVerdict

    /// Whoever may ask for a release soon says so here, so that a commit can wait for it.
    var releasesUnderWay: ReleasesUnderWay { get }

    /// Whether ``release(_:recording:)`` would find a repeat now. Changes nothing, and decides nothing: the claim does.
    func wouldRepeat(_ release: Release) async throws(LedgerFailure) -> Repeatability

    /// Whether all repeats of a transaction are known to be used up, by this process's memory alone: it costs nothing, so
    /// every request can be asked for. False for what was used up before the start, until that is asked for once more.
    func isUsedUp(_ transaction: TransactionIdentifier) -> Bool

    /// Counts a repeat that was opened and then refused for what was found inside, so that no ``release(_:recording:)``
    /// counts it. Does nothing when the transaction is not released yet, or this would be no repeat of it.
    func countRefusedRepeat(_ release: Release) async throws(LedgerFailure)

    /// Records a signature that was made with an identity key, if the key may sign: its state and the record are one
    /// transaction, durable before the verdict is given. A signature without a granted verdict must not leave.
    ///
    /// - Parameter record: written in the same transaction, with the verdict as its outcome.
    /// - Throws: `unavailable` when nothing could be made durable, or when it cannot be known whether it was.
    func record(_ signature: SignatureUse, recording record: AuditRecord) async throws(LedgerFailure)
        -> RecordedSignature

    /// Every key that the ledger knows, destroyed ones too, by publicKeyHash.
    func keyRecords() async throws(LedgerFailure) -> [KeyRecord]

    /// How often each key was used since `time`, on all nodes: claims for a processing key, signatures of an identity key;
    /// unused keys are left out. Repeats do not count. It looks at every claim of that time, so not at many days of them.
    func usage(since time: Date) async throws(LedgerFailure) -> [PublicKeyHash: KeyUses]

    /// Whether a key has released or signed anything since then. May look through all claims since.
    func wasUsed(_ key: PublicKeyHash, since time: Date) async throws(LedgerFailure) -> Bool

    /// One of them; nil when the ledger does not know the key.
    func keyRecord(_ hash: PublicKeyHash) async throws(LedgerFailure) -> KeyRecord?

    /// Makes one small durable write, for readiness.
    func probe() async throws(LedgerFailure)

    /// Removes claims that nobody can need any more, as far as the clock can be believed.
    ///
    /// - Parameter now: by the daemon's clock, which may be wrong.
    func prune(_ retention: ClaimRetention, now: Date) async throws(LedgerFailure) -> ClaimPruningOutcome

    /// What stands in this ledger about the time, for a look at the clock.
    func times() async throws(LedgerFailure) -> LedgerTimes

    /// When a transaction was released last, for the first time, by claims and record; nil when none was. May look
    /// through the record.
    func newestRelease() async throws(LedgerFailure) -> Date?

    /// The times of the first release to each uid, by this node's records of these sequences. Repeats do not
    /// count. It reads each of them: ten thousand take some ten milliseconds.
    func firstReleases(in sequences: ClosedRange<Int>) async throws(LedgerFailure) -> [UInt32: AuditTime]

    /// Makes a consistent copy while all goes on, which can be taken into service in the ledger's place.
    ///
    /// - Parameter path: absolute; nothing may be there yet. The file is for its owner alone and has reached the disk.
    func backup(to path: String) async throws(LedgerBackupError) -> BackupFile

    /// Waits for what is under way, at most `ledger.timeout`, and gives the store back. Calls made later fail as
    /// `unavailable`.
    func close() async

    // MARK: What people do to keys and approvals
    //
    // What people do to keys and approvals.

    /// Makes the change, or nothing of it.
    ///
    /// - Returns: the records' sequences, in their order.
    /// - Throws: `conflict` when the key's change is not permitted, `approval` when its approval does not serve,
    ///   `auditKeyConflict` when the audit key was not planned, `timesConflict` when what was forgotten is not as planned,
    ///   `holdsConflict` and `windowOff` when a restored ledger cannot be accepted so, `archive` when it is not the next one.
    @discardableResult
    func apply(_ change: AdministrativeChange) async throws(LedgerFailure) -> [Int]

    /// Approvals, those still open first, then the newest first, at most `limit`. Those that have ended are here until
    /// ``forgetApprovals(expiredBefore:keeping:)`` removes them.
    func approvals(limit: Int) async throws(LedgerFailure) -> [Approval]

    /// Nil when there is none of this name.
    func approval(_ identifier: ApprovalIdentifier) async throws(LedgerFailure) -> Approval?

    /// Notes and records what was not decided in time.
    ///
    /// - Returns: how many there were.
    @discardableResult
    func expireApprovals(now: Date) async throws(LedgerFailure) -> Int

    /// Removes those that have ended and could not have been decided since `time`, and of the others that have ended the
    /// oldest beyond `count`. The record keeps what became of each.
    ///
    /// - Returns: how many there were.
    @discardableResult
    func forgetApprovals(expiredBefore time: Date, keeping count: Int) async throws(LedgerFailure) -> Int

    // MARK: How a node learns what others did; no release depends on it
    //
    // How a node learns what others did. No release depends on it: each is decided in the store.

    /// What has changed, this node's own changes among it, within about a second. The first says that anything may have; so does the one
    /// after the store could not be reached. It ends when the ledger is closed, and at once where one node alone uses the ledger.
    /// Whoever iterates must be the only one.
    func administrativeUpdates() -> AsyncStream<AdministrativeUpdates>

    // MARK: Restored ledgers
    //
    // What all nodes have to know of a ledger that may be older than it was.

    /// Whether other nodes use this ledger too. Then HSM tokens may have audit keys and heads of nodes that are none of ours.
    var isShared: Bool { get }

    /// Whether the ledger may release, read anew.
    func releaseStatus() async throws(LedgerFailure) -> LedgerReleaseStatus

    /// Has every node hold from now on. Durable when it answers; again it replaces this node's former finding.
    func hold(_ finding: LedgerHold.Finding) async throws(LedgerFailure)

    /// Compares this node's chain with what its HSM token remembers of it, on the server that takes the writes, and notes that
    /// it has compared there when they agree. Nil: the token remembers nothing.
    func confirm(remembered: Checkpoint?) async throws(LedgerFailure) -> HeadComparison

    /// The widest of this node's signing-time windows in force; nil while one is off. Before it is told no restored ledger is
    /// accepted.
    func note(widestWindow: Duration?) async throws(LedgerFailure)

    // MARK: Audit keys
    //
    // Which keys sign this node's checkpoints. A key is planned here first, then made in the token under the planned identifier,
    // then confirmed here: where that is interrupted, the next start finds the plan and goes on, and no audit key in the token is
    // unknown here.

    /// In the order in which they were planned; the last confirmed one signs.
    func auditKeys() async throws(LedgerFailure) -> [StoredAuditKey]

    /// Durable when it answers. Planning the same key again changes nothing.
    ///
    /// - Parameter identifier: 16 bytes.
    /// - Throws: `auditKeyConflict` for another size.
    func planAuditKey(identifier: [UInt8]) async throws(LedgerFailure)

    /// Records the public key of a planned key.
    ///
    /// - Parameters:
    ///   - publicKey: the uncompressed point on P-256, 65 bytes.
    ///   - record: written in the same transaction. Nil records nothing.
    /// - Returns: the record's sequence; nil as well when the key was confirmed with this public key before, and then
    ///   nothing is written.
    /// - Throws: `auditKeyConflict` when the key was not planned or has another public key.
    @discardableResult
    func confirmAuditKey(
        identifier: [UInt8], publicKey: [UInt8], recording record: AuditRecord?
    ) async throws(LedgerFailure) -> Int?

    // MARK: What other nodes have
    //
    // Nothing is released by it.

    /// This node's HSM tokens hold these keys and no others. Durable when it answers. A key's destruction is not over before
    /// the last holder has done it.
    func note(heldKeys: Set<PublicKeyHash>) async throws(LedgerFailure)

    /// The holders of every key that some node holds, by the nodes' names. A node that has been away says what it said before.
    func keyHolders() async throws(LedgerFailure) -> [PublicKeyHash: [KeyHolder]]

    /// The nodes that the ledger knows in whatever way, this one among them, by their names; at most 1,024.
    func nodes() async throws(LedgerFailure) -> [AuditNode]

    /// A node's chain, for reading: each node writes its own only. Without a record where the ledger knows no such node.
    func chain(of node: AuditNode) -> any ChainReading

    /// The keys that seal other nodes' records, planned ones too: by node, in the order in which they were planned.
    func auditKeysOfOtherNodes() async throws(LedgerFailure) -> [NodeAuditKey]

    /// A node's records about audit keys: prepared, pinned and conflicting ones. The oldest first.
    func auditKeyEvents(of node: AuditNode) async throws(LedgerFailure) -> [StoredRecord]

    // MARK: Archives of this node's record
    //
    // Beginnings of this node's record that were written to files of their own, and their removal.
    //
    // An archive is recorded by ``apply(_:)`` with ``AdministrativeChange/archive``. It counts from the checkpoint on that
    // seals its record: until then nothing is removed, and exports begin where they did. Its last record and that one's checkpoint
    // stay: with them begins what is left.

    /// The archive whose record no checkpoint seals yet; nil when there is none.
    func unsealedArchive() async throws(LedgerFailure) -> RecordArchive?

    /// Removes records and checkpoints before the last record of ``ChainReading/lastArchive()``, the oldest first.
    ///
    /// - Parameter limit: how many records in this one transaction, so that releases come between.
    /// - Returns: how many records there were; 0 when none is left.
    func removeArchivedRecords(limit: Int) async throws(LedgerFailure) -> Int
}

extension Ledger {
    public var file: SQLiteLedger? { nil }
    public var database: PostgreSQLLedger? { nil }
}

/// What the writer did, for metrics and logs. It is told on the writer's thread, or on the one that
/// noted what was dropped: whoever listens must not block.
public enum LedgerEvent: Sendable, Equatable {
    /// A batch of `writes` became durable, `after` this long from its beginning to the end of its sync.
    case committed(writes: Int, after: Duration)
    /// This node's record is durable up to this sequence, whoever wrote it and whether anybody waited for it.
    case recorded(upTo: Int)
    /// A batch was not acknowledged. Those of its writes that are found in the store are answered all the same.
    case failed(writes: Int, reason: String)
    /// Notes were dropped, since the ledger could not take them. Their number is recorded when it can again.
    case dropped(notes: Int)
    /// A batch made so many round trips to its server; told by engines that have one.
    case exchanged(roundTrips: Int)
    /// What became of a commit whose acknowledgement got lost.
    case readBack(ReadBackOutcome)
    /// The store is older than what this process has written to it; all nodes hold from now on.
    case held(LedgerHold.Finding)
    /// The store is being opened, and another daemon has this node's name or has ended without giving it back: that one's lease
    /// is waited for.
    case awaitsName(NodeNameHolder)
}

/// What the store says of a commit that was not acknowledged; `paytokend_ledger_reads_back_total{outcome}`.
public enum ReadBackOutcome: String, Sendable, CaseIterable {
    /// It stands, and is durable wherever it has to be.
    case found
    /// It never took place, and never will.
    case absent
    /// Neither could be learnt in time.
    case unresolved
}

/// The name that the kernel has for this machine; asking the resolver could wait for a network.
enum HostName {
    static var current: String {
        let text = (try? String(contentsOfFile: "/proc/sys/kernel/hostname", encoding: .utf8)) ?? ""
        let name = text.trimmingCharacters(in: .whitespacesAndNewlines)
        return AuditNode(name)?.name ?? "localhost"
    }
}

public import AuditChain
package import DatabaseKit
import Dispatch
import Foundation
public import Ledger
import Locks
public import PaymentToken
public import PostgreSQLClient

/// The ledger in a PostgreSQL database that several hosts share; a transaction is released once across all of them.
///
/// It has four sessions with the primary, each on its own thread. The first writes, the second reads the data that
/// decisions need, the third runs searches, and the fourth follows other nodes' changes. A session that ends is
/// reopened without a restart.
///
/// Start with PostgreSQLWriter.swift (how writes share a commit), PostgreSQLBatch.swift (how releases are
/// decided), PostgreSQLDoubt.swift (commits that were not acknowledged), PostgreSQLNodeLease.swift (why no other daemon
/// writes under this node's name), PostgreSQLFollower.swift (other nodes' changes), PostgreSQLTables.swift.
public final class PostgreSQLLedger: StoredLedger {
    public let node: String
    public let engine = "postgresql"
    public let schemaVersion = PostgreSQLTables.version

    let settings: Settings
    let writer: PostgreSQLWriter
    public let releasesUnderWay = ReleasesUnderWay()
    let reader: PostgreSQLReader
    let searcher: PostgreSQLReader
    private let claimLookups: PostgreSQLClaimLookups
    let follower: PostgreSQLFollower
    let deadlines: LedgerDeadlines
    package let records: RecordStatements
    package var repeatFor: Duration { settings.repeatFor }
    let firstSight = FirstSight()
    private let facts: NewestServerFacts
    private let usedUp = UsedUpRepeats()

    public struct Settings: Sendable, Equatable {
        public var url: PostgreSQLURL
        /// The file with the role's password on one line, read for each connection. Nil uses peer authentication, a
        /// certificate, or a service file's password.
        public var passwordFile: String?
        /// This host's name among the hosts that share the ledger: 1 to 64 letters, digits, dots, hyphens and
        /// underscores.
        public var node: String
        /// The daemon's version, which other nodes' status shows.
        public var version: String
        /// The period after a transaction's release within which the same caller can receive the payment data again
        /// with the same reference; zero to permit no repeat.
        public var repeatFor: Duration
        /// The maximum number of writes queued for the writer; further writes throw `overloaded`.
        public var waiting: Int
        /// The maximum duration of a call, after which it throws `timedOut`.
        public var timeout: Duration
        /// The duration of the node's lease. If a daemon ends without returning the lease, no other daemon can take the
        /// node's name for this long.
        public var lease: Duration
        /// True to make ``Ledger/probe()`` fail while the server names no synchronous standby.
        public var requiresStandby: Bool
        /// The time that a statement waits for another session's lock. Nil sets a quarter of ``timeout``, which leaves
        /// time to answer the callers.
        var lockTimeout: Duration?
        /// True if the follower's session listens for notifications of other nodes' changes. The follower checks for
        /// changes every second in any case.
        var listens = true

        public init(
            url: PostgreSQLURL, passwordFile: String? = nil, node: String, version: String = "",
            repeatFor: Duration = .seconds(86_400), waiting: Int = 1024, timeout: Duration = .seconds(10),
            lease: Duration = .seconds(15), requiresStandby: Bool = false
        ) {
            self.url = url
            self.passwordFile = passwordFile
            self.node = node
            self.version = version
            self.repeatFor = repeatFor
            self.waiting = waiting
            self.timeout = timeout
            self.lease = lease
            self.requiresStandby = requiresStandby
        }
    }

    /// Opens a ledger that `ledger create` has made, and takes the node's name. If another daemon has not returned its
    /// lease of the name, the call waits until that lease ends. If the other daemon renews its lease, the call throws
    /// `nodeInUse`.
    ///
    /// - Parameter observe: receives the ledger's events (``LedgerEvent``), on the writer's thread; it must not block.
    public static func open(
        _ settings: Settings, observe: @escaping @Sendable (LedgerEvent) -> Void = { _ in }
    ) async throws(LedgerOpeningError) -> PostgreSQLLedger {
        let ledger = try await onThread { () throws(LedgerOpeningError) in
            try PostgreSQLLedger(blocking: settings, observe: observe)
        }
        ledger.keepRenewing()
        return ledger
    }

    private init(
        blocking settings: Settings, observe: @escaping @Sendable (LedgerEvent) -> Void
    ) throws(LedgerOpeningError) {
        guard let node = AuditNode(settings.node) else { throw .nodeName(settings.node) }
        let (facts, server) = (NewestServerFacts(), settings.url.server)
        let deadlines = LedgerDeadlines(timeout: settings.timeout)
        let hosts = PostgreSQLHosts(
            settings.url, passwordFile: settings.passwordFile, timeout: settings.timeout,
            application: "paytokend \(settings.node)")
        let writing = Self.session(
            hosts, settings,
            [
                ("lock_timeout", Self.milliseconds(settings.lockTimeout ?? settings.timeout / 4)),
                // A daemon that stops inside a transaction must not keep its name locked for longer than its lease.
                ("idle_in_transaction_session_timeout", Self.milliseconds(settings.lease / 2)),
                // Batches find their rows by key. Without this setting, a plan that was made while the tables were
                // empty would scan whole tables.
                ("enable_seqscan", "off"),
                // Plan each prepared statement only once. Otherwise, in every batch, the server would make a new plan
                // for the statement that reads the keys.
                ("plan_cache_mode", "force_generic_plan"),
            ], facts)
        let lease: PostgreSQLNodeLease
        do {
            let connection = try writing.open(until: .now + settings.timeout)
            // Check the role's rights now. Otherwise a missing right would be discovered only by a release that fails.
            let missing = try PostgreSQLSchema.missingRights(connection, until: .now + settings.timeout)
            guard missing.isEmpty else { throw LedgerOpeningError.missingRights(server: server, missing: missing) }
            if let holder = try Self.holder(of: settings.node, connection, timeout: settings.timeout) {
                observe(.waitsForNodeName(holder))
            }
            lease = try PostgreSQLNodeLease.take(settings, connection)
        } catch {
            throw LedgerOpeningError(of: error, server: server)
        }
        let reading = [
            ("default_transaction_read_only", "on"),
            // Read pages of results in an index's order, even if the server's statistics of a table that has just grown
            // are out of date. A plan that sorts the remaining rows would read all of them for each page.
            ("enable_seqscan", "off"), ("enable_bitmapscan", "off"),
        ]
        reader = PostgreSQLReader(
            Self.session(hosts, settings, reading, facts), label: "ledger.postgresql.reader", deadlines: deadlines)
        claimLookups = PostgreSQLClaimLookups(reader, deadlines, repeatFor: settings.repeatFor)
        searcher = PostgreSQLReader(
            Self.session(hosts, settings, reading, facts), label: "ledger.postgresql.searcher", deadlines: deadlines)
        follower = PostgreSQLFollower(
            Self.session(hosts, settings, reading, facts), node: settings.node, timeout: settings.timeout,
            listens: settings.listens)
        writer = PostgreSQLWriter(
            writing, lease: lease, node: node, settings: settings, reader: reader, deadlines: deadlines,
            releases: releasesUnderWay, observe: observe)
        self.node = node.name
        self.settings = settings
        self.deadlines = deadlines
        self.facts = facts
        records = RecordStatements(node: node)
    }

    private static func session(
        _ hosts: PostgreSQLHosts, _ settings: Settings, _ further: [(name: String, value: String)],
        _ facts: NewestServerFacts
    ) -> LedgerSession {
        PostgreSQLSession(
            hosts,
            // With `statement_timeout` the server ends statements that it still runs for an abandoned session. This
            // setting does not limit a commit's wait for a standby.
            settings: [("statement_timeout", milliseconds(settings.timeout))] + further,
            further: [
                PostgreSQLStatement("SELECT system_identifier::text, \(timeline) FROM pg_control_system()")
            ]
        ) { connection, results, _ in
            guard connection.facts.reachesStandby || !settings.requiresStandby else {
                throw LedgerOpeningError.cannotOpen(
                    path: settings.url.server,
                    reason:
                        "synchronous_commit is neither on nor remote_apply for the role \(connection.facts.role), and "
                        + "ledger.require_standby requires commits that reach the standby's disk. Reset it for the role, the "
                        + "database or the server.")
            }
            if let row = results[0].rows.first {
                connection.facts.server = ServerIdentity(
                    systemIdentifier: try row.text(0), timeline: try row.integer(1))
            }
            facts.set(connection.facts)
        }
    }

    /// The SQL expression for the server's timeline, from the name of the current WAL file. The control file would show
    /// a promotion only after PostgreSQL's next checkpoint.
    private static let timeline = "('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int::bigint"

    private static func milliseconds(_ duration: Duration) -> String {
        "\(max(1, min(StoredTime.milliseconds(duration), Int64(Int32.max))))ms"
    }

    /// Renews the lease while no batch renews it, until this object is deallocated.
    private func keepRenewing() {
        let pause = Double(StoredTime.milliseconds(settings.lease)) / 3000
        DispatchQueue.global().asyncAfter(deadline: .now() + pause) { [weak self] in
            guard let self else { return }
            if writer.lease.status.age * 3 >= settings.lease { writer.renew() }
            keepRenewing()
        }
    }

    /// The insecure settings in force, as found by the newest session.
    public var insecureSettings: Set<InsecureLedgerSetting> { facts.current.insecureSettings }

    /// The state of this daemon's lease.
    public var lease: NodeLeaseStatus? { writer.lease.status }

    package func read<T: Sendable>(
        _ body: @escaping @Sendable (any StoredQueries) throws -> T
    ) async throws(LedgerFailure) -> T { try await reader.read { try body($0) } }

    package func search<T: Sendable>(
        _ body: @escaping @Sendable (any StoredQueries) throws -> T
    ) async throws(LedgerFailure) -> T { try await searcher.read { try body($0) } }

    public func wouldRepeat(_ release: Release) async throws(LedgerFailure) -> Repeatability {
        try await claimLookups.repeatability(of: release)
    }

    public func release(
        _ release: Release, recording record: AuditRecord?
    ) async throws(LedgerFailure) -> RecordedVerdict {
        try release.requireNames()
        let decision = try await writer.write { .release(release, record, answer: $0) }
        if decision.isUsedUp { usedUp.insert(release.transactionId) }
        return RecordedVerdict(decision.verdict, sequence: decision.line?.sequence)
    }

    public func record(
        _ signature: SignatureUse, recording record: AuditRecord
    ) async throws(LedgerFailure) -> RecordedSignature {
        let decision = try await writer.write { .signature(signature, record, answer: $0) }
        return RecordedSignature(decision.verdict, sequence: decision.line?.sequence)
    }

    public func isUsedUp(_ transaction: TransactionIdentifier) -> Bool { usedUp.contains(transaction) }

    public func countRefusedRepeat(_ release: Release) async throws(LedgerFailure) {
        if try await writer.write({ .countRefusedRepeat(release, answer: $0) }) { usedUp.insert(release.transactionId) }
    }

    public func probe() async throws(LedgerFailure) {
        let (isStandbyNamed, isHeld) = try await writer.write { .probe(answer: $0) }
        facts.set(isStandbyNamed: isStandbyNamed)
        guard isStandbyNamed || !settings.requiresStandby else {
            throw .unavailable(
                reason:
                    "The server names no synchronous standby (synchronous_standby_names), and ledger.require_standby "
                    + "requires one.")
        }
        if isHeld, let obstacle = try await releaseStatus().obstacle { throw .unavailable(reason: obstacle) }
    }

    public func close() async {
        // Only this process knows how many records of `note(_:)` were dropped. The probe's commit stores their number
        // before the process ends.
        if writer.writes.hasDropped { try? await probe() }
        try? await deadlines.answer { (caller: LedgerCall<Void>) in
            writer.close { caller.resume(.success(())) }
        }
        follower.close()
        reader.close()
        searcher.close()
    }

    public func administrativeUpdates() -> AsyncStream<AdministrativeUpdates> { follower.follow() }

    public func backup(to path: String) async throws(LedgerBackupError) -> BackupFile {
        throw .unavailable(
            reason: "it is in PostgreSQL, so copy it with PostgreSQL's tools: pg_basebackup with its log, or pg_dump.")
    }
}

/// The newest facts about the server that a session of this ledger has reported.
private final class NewestServerFacts: Sendable {
    private let state = Mutex(PostgreSQLSessionFacts())

    var current: PostgreSQLSessionFacts { state.withLock { $0 } }

    func set(_ facts: PostgreSQLSessionFacts) { state.withLock { $0 = facts } }

    func set(isStandbyNamed: Bool) { state.withLock { $0.isStandbyNamed = isStandbyNamed } }
}

typealias LedgerSession = PostgreSQLSession<PostgreSQLSchema>

extension PostgreSQLLedger {
    /// Returns the number of synchronous standbys to which the server streams; nil if the daemon's role lacks
    /// `pg_read_all_stats`.
    public func synchronousStandbys() async throws(LedgerFailure) -> Int? {
        try await reader.read { queries in
            let row = try queries.rows(
                """
                SELECT pg_has_role('pg_read_all_stats', 'USAGE'),
                    (SELECT count(*) FROM pg_stat_replication
                     WHERE state = 'streaming' AND sync_state IN ('sync', 'quorum'))
                """, []
            ).first
            guard let row, try row.boolean(0) else { return nil }
            return Int(try row.integer(1))
        }
    }

    /// Reads the server's and the nodes' status now.
    public func serverStatus() async throws(LedgerFailure) -> LedgerServer? {
        let (standbys, nodes, timeline) = try await reader.read { queries in
            let results = try queries.results([
                PostgreSQLStatement("SELECT current_setting('synchronous_standby_names')"),
                PostgreSQLStatement(
                    """
                    SELECT n.name, n.version, floor(extract(epoch FROM n.seen_at) * 1000)::bigint,
                        n.lease_until >= clock_timestamp(),
                        (n.system_identifier, n.timeline) IS NOT DISTINCT FROM (h.system_identifier, h.timeline)
                    FROM node AS n CROSS JOIN this_server() AS h ORDER BY n.name
                    """),
                PostgreSQLStatement("SELECT \(Self.timeline)"),
            ])
            let nodes = try results[1].rows.map { row in
                LedgerServer.Node(
                    name: try row.text(0), version: try row.text(1), lastSeen: try row.date(2),
                    isLeased: try row.boolean(3), hasCompared: try row.boolean(4))
            }
            return (
                try results[0].rows.first?.text(0) ?? "", nodes, Int(try results[2].rows.first?.integer(0) ?? 0)
            )
        }
        let facts = facts.current
        return LedgerServer(
            host: facts.host, database: facts.database, role: facts.role, serverVersion: facts.serverVersion,
            systemIdentifier: facts.server?.systemIdentifier ?? "", timeline: timeline,
            standbys: standbys.isEmpty ? nil : standbys, schemaVersion: schemaVersion, nodes: nodes)
    }
}

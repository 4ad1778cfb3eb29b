import AuditChain
import Foundation
import Ledger
import Locks
import PaymentToken
import PostgreSQLClient

/// Reports other nodes' changes to keys and approvals. The follower has its own session and thread. It reads the
/// changes once a second, and immediately after a notification from the server. If a notification is lost, the report
/// is at most a second late.
final class PostgreSQLFollower: Sendable {
    /// The channel that is notified of changes to key records and approvals.
    static let channel = "paytokend_administration"

    /// The pause between two checks.
    private static let pause = Duration.seconds(1)

    private let session: LedgerSession
    private let node: String
    private let timeout: Duration
    /// True if the session listens for notifications. Tests set it to false to test the check that runs every second.
    private let listens: Bool
    private let isClosed = Atomic(false)

    init(_ session: LedgerSession, node: String, timeout: Duration, listens: Bool = true) {
        self.session = session
        self.node = node
        self.timeout = timeout
        self.listens = listens
    }

    func follow() -> AsyncStream<AdministrativeUpdates> {
        AsyncStream { continuation in
            continuation.onTermination = { [weak self] _ in self?.close() }
            Thread.detachNewThread { [self] in
                run { continuation.yield($0) }
                continuation.finish()
            }
        }
    }

    /// Ends the thread within a second.
    func close() {
        isClosed.store(true, ordering: .relaxed)
    }

    private func run(_ tell: (AdministrativeUpdates) -> Void) {
        // The number of the last change that was read. Nil after a reconnection: changes in between are unknown, and a
        // promoted server may assign lost numbers again.
        var position: Int64?
        while !isClosed.load(ordering: .relaxed) {
            let deadline = ContinuousClock.now + timeout
            do {
                if !session.isConnected { position = nil }
                let connection = try session.current(until: deadline)
                let (news, next) = try readUpdates(after: position, connection, until: deadline)
                if !news.isEmpty { tell(news) }
                position = next
                try connection.awaitNotification(until: .now + Self.pause)
            } catch {
                // Do not report the fault here, since the writer reports it with its next batch.
                session.drop()
                Thread.sleep(forTimeInterval: Self.pause / .seconds(1))
            }
        }
        session.drop()
    }

    private func readUpdates(
        after position: Int64?, _ connection: PostgreSQLConnection, until deadline: ContinuousClock.Instant
    ) throws -> (AdministrativeUpdates, Int64) {
        var statements = [
            PostgreSQLStatement(
                """
                SELECT public_key_hash, change FROM merchant_key
                WHERE change > coalesce($1, (SELECT coalesce(max(change), 0) - 1 FROM merchant_key)) ORDER BY change
                """, [.integer(position)]),
            PostgreSQLStatement(
                """
                SELECT identifier FROM approval WHERE status = 'approved' AND node = $1 AND operation = ANY ($2)
                    AND expires_at > present() ORDER BY requested_at
                """, [.text(node), .texts(ApprovalOperation.ofOneNode.map(\.rawValue))]),
        ]
        // Listen before reading. Otherwise the server would send no notification of a change between the read and
        // LISTEN.
        if position == nil, listens { statements.insert(PostgreSQLStatement("LISTEN \(Self.channel)"), at: 0) }
        let results = try connection.exchange(statements, until: deadline).suffix(2)
        let (changes, approvals) = (results[results.startIndex], results[results.startIndex + 1])
        let keys = try changes.rows.map { try $0.publicKeyHash(0) }
        let news = AdministrativeUpdates(
            keys: position == nil ? nil : Set(keys),
            approvals: try approvals.rows.compactMap { ApprovalIdentifier(bytes: try $0.bytes(0)) })
        return (news, try changes.rows.last?.integer(1) ?? position ?? 0)
    }
}

extension PostgreSQLTables {
    /// The part of schema version 2 that lets each node detect changes by other nodes.
    static let following = [
        // Change numbers follow the order of commits, since each change to a key record calls `exclude_releases`, which
        // admits one change at a time.
        "ALTER TABLE merchant_key ADD COLUMN change bigint NOT NULL DEFAULT 0",
        "CREATE SEQUENCE key_change",
        "CREATE INDEX merchant_key_by_change ON merchant_key (change)",
        """
        CREATE FUNCTION number_key_change() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
        SET search_path = paytokend, pg_temp AS $$
        BEGIN
            NEW.change := nextval('key_change');
            RETURN NEW;
        END $$
        """,
        """
        CREATE TRIGGER number_change BEFORE INSERT OR UPDATE ON merchant_key
        FOR EACH ROW EXECUTE FUNCTION number_key_change()
        """,
        // Do not notify in a release's transaction, since a notification makes all commits of the database wait for
        // each other.
        """
        CREATE FUNCTION notify_administration() RETURNS trigger LANGUAGE plpgsql
        SET search_path = paytokend, pg_temp AS $$
        BEGIN
            PERFORM pg_notify('\(PostgreSQLFollower.channel)', '');
            RETURN NULL;
        END $$
        """,
        """
        CREATE TRIGGER notify_change AFTER INSERT OR UPDATE ON merchant_key
        FOR EACH STATEMENT EXECUTE FUNCTION notify_administration()
        """,
        """
        CREATE TRIGGER notify_change AFTER INSERT OR UPDATE ON approval
        FOR EACH STATEMENT EXECUTE FUNCTION notify_administration()
        """,
    ]
}

import AuditChain
import DatabaseKit
import Foundation
import Ledger
import MerchantKeys
import PaymentToken
import PostgreSQLClient

/// The writes of one transaction, with the data that is needed to answer them if its commit is not acknowledged.
final class PostgreSQLWriteGroup {
    /// 16 random bytes that the transaction writes into the node's row. If the commit's acknowledgement is lost, these
    /// bytes show whether the commit was made.
    let identifier = Release.randomIdentifier()
    let writes: [PostgreSQLWrite]
    let deadline: ContinuousClock.Instant
    /// The head of the chain before the transaction. ``end`` is the head after it.
    private(set) var start: ChainHead?
    private(set) var end: ChainHead?
    /// The index of the statement that waits for other nodes' claims, among all statements sent at the beginning of the
    /// transaction. Nil if the batch inserts no claims.
    private(set) var claims: Int?
    /// The results of ``PostgreSQLBatch/opening``; empty if the writes are not batched.
    private var opened: [PostgreSQLResult] = []
    private(set) var decisions: [BatchedDecision] = []
    /// The server on which the transaction began.
    private var server: ServerIdentity?
    /// True once the outcome of a commit in doubt has been reported. Later reads of that outcome report nothing.
    private var isReadBackObserved = false

    init(_ writes: [PostgreSQLWrite], until deadline: ContinuousClock.Instant) {
        self.writes = writes
        self.deadline = deadline
    }

    /// Returns a group with the same writes and a new identifier, for another transaction.
    func retried() -> PostgreSQLWriteGroup { PostgreSQLWriteGroup(writes, until: deadline) }

    func begin(_ writer: PostgreSQLWriter, _ connection: PostgreSQLConnection) throws -> PostgreSQLTransaction {
        server = connection.facts.server
        let transaction: PostgreSQLTransaction
        if case .ownTransaction(let excludesReleases, _) = writes[0].work {
            (transaction, _) = try PostgreSQLTransaction.begin(
                writer.lease, writer.node, connection, excludesReleases: excludesReleases, until: deadline)
        } else {
            let opening = batch(writer).opening
            // `opening` does not include the statements that begin every transaction.
            let hasClaims = opening.count > PostgreSQLBatch.insertion
            claims = hasClaims ? PostgreSQLTransaction.beginning + PostgreSQLBatch.insertion : nil
            (transaction, opened) = try PostgreSQLTransaction.begin(
                writer.lease, writer.node, connection, further: opening, until: deadline)
        }
        start = transaction.start
        return transaction
    }

    func decide(_ transaction: PostgreSQLTransaction, _ writer: PostgreSQLWriter) throws {
        if case .ownTransaction(_, let perform) = writes[0].work {
            decisions = [BatchedDecision(answer: try perform(transaction))]
        } else {
            decisions = try batch(writer).decide(opened, transaction)
        }
        end = transaction.head
    }

    private func batch(_ writer: PostgreSQLWriter) -> PostgreSQLBatch {
        PostgreSQLBatch(
            writes: writes.compactMap { if case .batched(let write) = $0.work { write } else { nil } },
            node: writer.node.name, repeatFor: writer.repeatFor, server: server)
    }

    func answer() {
        for decision in decisions { decision.answer() }
    }

    func observe(readBack outcome: ReadBackOutcome, _ observe: (LedgerEvent) -> Void) {
        guard !isReadBackObserved else { return }
        isReadBackObserved = true
        observe(.readBack(outcome))
    }

    /// Answers the writes after their transaction was found despite a lost acknowledgement. A granted use fails if
    /// `serves` returns false for it.
    func answer(asLongAs serves: (GrantedUse) -> Bool) {
        for (write, decision) in zip(writes, decisions) {
            if let use = decision.granted, !serves(use) {
                write.fail(
                    .unavailable(
                        reason:
                            "Its key's state changed, or a node put releases on hold, before it was known that the release "
                            + "or signature was written."))
            } else {
                decision.answer()
            }
        }
    }
}

/// A release or a signature that a transaction granted.
enum GrantedUse {
    case release(Release)
    case signature(SignatureUse)

    var publicKeyHash: PublicKeyHash {
        switch self {
        case .release(let release): release.publicKeyHash
        case .signature(let signature): signature.publicKeyHash
        }
    }

    func isPermitted(by key: KeyEligibility?) -> Bool {
        switch self {
        case .release(let release): key?.decrypts(for: release.wallet, at: release.at) == true
        case .signature(let signature): key?.signs(as: signature.use, at: signature.at) == true
        }
    }
}

// A commit is in doubt if it was not acknowledged, was cancelled, or came with a warning. A new session with the
// primary reads back the commit's outcome. The new session first locks the node's row, which the session that sent the
// commit keeps locked until its transaction has ended. If the commit is then absent, it will never appear. If the commit
// is present, it may be on that server only, for example after a cancelled wait for the standby or a crash. The commit
// counts as made once a later commit in the same WAL is acknowledged without a warning.
//
// Until then, no other write is sent. A session whose standby is unavailable keeps waiting on the server and keeps its
// locks. The next session waits for these locks and sends no commit before it has them. A server thus never has more
// than two such sessions: one that waits for the standby, and one that waits for the first.
extension PostgreSQLWriter {
    /// Reads back a commit in doubt and answers its writes. Writes that were not committed are done again.
    ///
    /// - Returns: true if no commit is in doubt any longer; false at the deadline.
    func resolveDoubt(until deadline: ContinuousClock.Instant) -> Bool {
        var pause = Duration.milliseconds(20)
        while let group = doubt {
            do {
                try resolve(group, until: deadline)
            } catch {
                // The commit remains in doubt, and the next session reads it back again.
                session.drop()
                guard .now + pause < deadline else {
                    // Report the outcome as unresolved. The callers receive no other answer, even if the outcome is
                    // found later.
                    group.observe(readBack: .unresolved, observe)
                    return false
                }
                Thread.sleep(forTimeInterval: Double(StoredTime.milliseconds(pause)) / 1000)
                pause = min(pause * 2, .milliseconds(500))
            }
        }
        return true
    }

    private func resolve(_ group: PostgreSQLWriteGroup, until deadline: ContinuousClock.Instant) throws {
        guard let start = group.start, let end = group.end else {
            doubt = nil
            return
        }
        let connection = try session.current(until: deadline)
        let hashes = Array(Set(group.decisions.compactMap(\.granted?.publicKeyHash)))
        let (transaction, results): (PostgreSQLTransaction, [PostgreSQLResult])
        do {
            (transaction, results) = try PostgreSQLTransaction.begin(
                lease, node, connection, further: [PostgreSQLBatch.keys(hashes)], until: deadline)
        } catch let error where error is LedgerFailure || error is UnreadableColumn {
            let failure = LedgerFailure(error)
            // Another daemon has taken the node's name, or the schema has changed. Either way, this process can no
            // longer determine the commit's outcome.
            doubt = nil
            group.observe(readBack: .unresolved, observe)
            refuse(group.writes, failure)
            throw failure
        } catch let rolledBack as DatabaseRolledBack {
            doubt = nil
            group.observe(readBack: .unresolved, observe)
            refuse(group.writes, hold(rolledBack.finding))
            throw rolledBack
        }
        let isPresent = transaction.lastBatch == group.identifier
        let isConsistent = transaction.start == (isPresent ? end : start)
        let keys = try KeyEligibilityRow.all(results[0].rows)
        // The transaction keeps the last batch's identifier, so that the batch in doubt can still be found.
        try connection.commit(transaction.closing(lease, batch: nil), until: deadline)
        doubt = nil
        lease.renewed()
        guard isConsistent else {
            group.observe(readBack: .unresolved, observe)
            // Check the chain as every batch does. Otherwise a restored database would be detected, and all nodes put
            // on hold, only by the next batch.
            do {
                try checked(transaction)
            } catch let rolledBack as DatabaseRolledBack {
                return refuse(group.writes, hold(rolledBack.finding))
            } catch {
                return refuse(group.writes, LedgerFailure(error))
            }
            return refuse(group.writes, .unavailable(reason: "Its audit record does not end where it should."))
        }
        lastEnd.set([transaction.start])
        group.observe(readBack: isPresent ? .found : .absent, observe)
        guard isPresent else {
            uncommittedWrites += group.writes.filter { $0.begin() }
            return
        }
        if end != start { observe(.recorded(upTo: end.sequence)) }
        // Check `hasHold`, not `isHeld`. After a standby's promotion, `isHeld` is true until all live nodes have
        // compared their chains on the promoted server. The claims are valid nevertheless: the server on which they
        // were made had lost nothing, and the promoted server has them too. If a node has put releases on hold, no
        // claim is valid.
        group.answer { !transaction.hasHold && $0.isPermitted(by: keys[$0.publicKeyHash]) }
    }
}

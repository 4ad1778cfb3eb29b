import AuditChain
import DatabaseKit
import Foundation
import MerchantKeys
import PaymentToken
import PostgreSQLClient

/// The writes of one transaction, on their way.
final class PostgreSQLUnit {
    /// 16 random bytes, which the commit leaves in the node's row: by them it is found when its acknowledgement gets lost.
    let identifier = Release.randomIdentifier()
    let writes: [PostgreSQLWrite]
    let deadline: ContinuousClock.Instant
    /// Where the chain ends before and after it.
    private(set) var start: ChainHead?
    private(set) var end: ChainHead?
    /// Where among the statements of the beginning is the one that waits for other nodes' claims; nil without one.
    private(set) var claims: Int?
    /// The batch's results until it is decided.
    private var opened: [PostgreSQLResult] = []
    private(set) var decisions: [BatchedDecision] = []
    /// The server on which it was begun.
    private var server: ServerIdentity?
    /// Whether it was told what became of its commit, which was in doubt: once, however often it is looked for.
    private var isReadBackObserved = false

    init(_ writes: [PostgreSQLWrite], until deadline: ContinuousClock.Instant) {
        self.writes = writes
        self.deadline = deadline
    }

    /// The same writes under another name, for another transaction.
    func retried() -> PostgreSQLUnit { PostgreSQLUnit(writes, until: deadline) }

    func begin(_ writer: PostgreSQLWriter, _ connection: PostgreSQLConnection) throws -> PostgreSQLTransaction {
        server = connection.server
        let transaction: PostgreSQLTransaction
        if case .alone(let excludesReleases, _) = writes[0].work {
            (transaction, _) = try PostgreSQLTransaction.begin(
                writer.lease, writer.node, connection, excludesReleases: excludesReleases, until: deadline)
        } else {
            let opening = batch(writer).opening
            // Behind what begins every transaction.
            let hasClaims = opening.count > PostgreSQLBatch.insertion
            claims = hasClaims ? PostgreSQLTransaction.beginning + PostgreSQLBatch.insertion : nil
            (transaction, opened) = try PostgreSQLTransaction.begin(
                writer.lease, writer.node, connection, further: opening, until: deadline)
        }
        start = transaction.start
        return transaction
    }

    func decide(_ transaction: PostgreSQLTransaction, _ writer: PostgreSQLWriter) throws {
        if case .alone(_, let perform) = writes[0].work {
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

    /// After the acknowledgement got lost and the transaction was found: what was granted counts only if its key serves still.
    func answer(asLongAs serves: (GrantedUse) -> Bool) {
        for (write, decision) in zip(writes, decisions) {
            if let use = decision.granted, !serves(use) {
                write.fail(
                    .unavailable(
                        reason:
                            "Its key's state changed, or a node held all releases, before it was known that the release "
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
        case .release(let release): key?.decrypts(at: release.at) == true
        case .signature(let signature): key?.signs(at: signature.at) == true
        }
    }
}

// A commit that was not acknowledged, that was cancelled, or that came with a warning is in doubt. What became of it is asked on
// another session with the primary. There the node's row is locked first: the session in doubt holds that lock until its
// transaction has ended, so from then on what is absent is absent for good. What is present may stand on that server only, as
// after a wait for the standby that was cancelled, or after a crash: it counts when one more commit, behind it in the same log, is
// acknowledged without a warning.
//
// Until then nothing else is sent. A session whose standby is away goes on waiting on the server, with its locks; the next one
// waits for these locks and sends no commit of its own before it has them. So there are never more than two on a server: one
// that waits for the standby, and one that waits for it.
extension PostgreSQLWriter {
    /// Finds out what became of a commit in doubt, and answers its writes; what did not take place is done anew.
    ///
    /// - Returns: whether nothing is in doubt any more. False at the deadline.
    func settle(until deadline: ContinuousClock.Instant) -> Bool {
        var pause = Duration.milliseconds(20)
        while let unit = doubt {
            do {
                try settle(unit, until: deadline)
            } catch {
                // Whatever it was: the next session finds the same doubt.
                slot.drop()
                guard .now + pause < deadline else {
                    // Its callers hear nothing else any more, whatever is found later.
                    unit.observe(readBack: .unresolved, observe)
                    return false
                }
                Thread.sleep(forTimeInterval: Double(StoredTime.milliseconds(pause)) / 1000)
                pause = min(pause * 2, .milliseconds(500))
            }
        }
        return true
    }

    private func settle(_ unit: PostgreSQLUnit, until deadline: ContinuousClock.Instant) throws {
        guard let start = unit.start, let end = unit.end else {
            doubt = nil
            return
        }
        let connection = try slot.current(until: deadline)
        let hashes = Array(Set(unit.decisions.compactMap(\.granted?.publicKeyHash)))
        let (transaction, results): (PostgreSQLTransaction, [PostgreSQLResult])
        do {
            (transaction, results) = try PostgreSQLTransaction.begin(
                lease, node, connection, further: [PostgreSQLBatch.keys(hashes)], until: deadline)
        } catch let error where error is LedgerFailure || error is UnreadableColumn {
            let failure = LedgerFailure(error)
            // The name is another's, or the schema: this process cannot answer any more.
            doubt = nil
            unit.observe(readBack: .unresolved, observe)
            refuse(unit.writes, failure)
            throw failure
        } catch let behind as DatabaseRolledBack {
            doubt = nil
            unit.observe(readBack: .unresolved, observe)
            refuse(unit.writes, hold(behind.finding))
            throw behind
        }
        let isPresent = transaction.lastBatch == unit.identifier
        let isConsistent = transaction.start == (isPresent ? end : start)
        let keys = try KeyEligibilityRow.all(results[0].rows)
        // It keeps the name of the batch in doubt, so that it would be found once more.
        let closed = try connection.exchange(
            transaction.closing(lease, batch: nil) + [PostgreSQLStatement("COMMIT", prepared: "commit")],
            until: deadline)
        guard closed.last?.tag == "COMMIT", !connection.hasWarned else {
            throw LedgerFailure.unavailable(reason: "PostgreSQL warned at the commit.")
        }
        doubt = nil
        lease.renewed()
        guard isConsistent else {
            unit.observe(readBack: .unresolved, observe)
            // Every later batch finds the same, and says it.
            do {
                try checked(transaction)
            } catch let behind as DatabaseRolledBack {
                return refuse(unit.writes, hold(behind.finding))
            } catch {
                return refuse(unit.writes, LedgerFailure(error))
            }
            return refuse(unit.writes, .unavailable(reason: "Its audit record does not end where it should."))
        }
        lastEnd.set([transaction.start])
        unit.observe(readBack: isPresent ? .found : .absent, observe)
        guard isPresent else {
            backlog += unit.writes.filter { $0.begin() }
            return
        }
        if end != start { observe(.recorded(upTo: end.sequence)) }
        // On a server that was promoted meanwhile the claim counts although not all nodes have compared: it was made where nothing was
        // lost, and stands here. Where a node has found something lost it does not.
        unit.answer { !transaction.hasHold && $0.isPermitted(by: keys[$0.publicKeyHash]) }
    }
}

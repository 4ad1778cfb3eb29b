import AuditChain
import DatabaseKit
import Dispatch
import Foundation
import MerchantKeys
import PaymentToken
import PostgreSQLClient

/// A write that waits for the writer, and how its owner hears of it. Exactly one of its ways to answer is taken, once.
struct PostgreSQLWrite: QueuedWrite {
    enum Work: Sendable {
        /// Shares its transaction with others.
        case batched(BatchedWrite)
        /// Has a transaction of its own.
        ///
        /// - Parameter perform: decides and writes; what it gives back answers once the transaction is durable. Called
        ///   again when the first transaction did not take place.
        case alone(excludesReleases: Bool, perform: @Sendable (PostgreSQLTransaction) throws -> @Sendable () -> Void)
    }

    let begin: @Sendable () -> Bool
    let work: Work
    let fail: @Sendable (LedgerFailure) -> Void
}

extension PostgreSQLWrite {
    /// - Parameter refusals: by the releases' attempts.
    fileprivate func answer(_ refusals: [[UInt8]: ReleaseVerdict], orFail failure: LedgerFailure) {
        guard case .batched(.release(let release, _, let answer)) = work, let verdict = refusals[release.attempt] else {
            return fail(failure)
        }
        answer(ReleaseDecision(verdict: verdict, line: nil))
    }

    /// One that nobody waits for.
    init(unawaited write: BatchedWrite, fail: @escaping @Sendable (LedgerFailure) -> Void = { _ in }) {
        self.init(begin: { true }, work: .batched(write), fail: fail)
    }
}

/// The one writer: takes what waits, commits it as one transaction in two round trips, and then answers each. Administrative
/// writes have transactions of their own.
///
/// Its state is used on its own queue only. What becomes of a commit that is not acknowledged is in PostgreSQLDoubt.swift.
final class PostgreSQLWriter: @unchecked Sendable {
    let writes: CommitQueue<PostgreSQLWrite>
    let lease: PostgreSQLNodeLease
    let node: AuditNode
    let repeatFor: Duration
    let timeout: Duration
    let observe: @Sendable (LedgerEvent) -> Void
    /// Reads for those whose writes fail: a refusal needs no write.
    let reader: PostgreSQLReader
    let lastEnd = LastWrittenHead()
    let queue = DispatchQueue(label: "ledger.postgresql.writer")

    // On the queue only.
    let slot: PostgreSQLSlot
    /// A commit that was not acknowledged, until it is known what became of it.
    var doubt: PostgreSQLUnit?
    /// What a commit that did not take place has left to be done.
    var backlog: [PostgreSQLWrite] = []
    /// What every batch of a daemon from before the restore finds, once all nodes hold for it.
    var heldFor: LedgerHold.Finding?

    init(
        _ slot: PostgreSQLSlot, lease: PostgreSQLNodeLease, node: AuditNode, settings: PostgreSQLLedger.Settings,
        reader: PostgreSQLReader, deadlines: LedgerDeadlines, releases: ReleasesUnderWay,
        observe: @escaping @Sendable (LedgerEvent) -> Void
    ) {
        self.slot = slot
        self.lease = lease
        self.node = node
        self.reader = reader
        self.observe = observe
        repeatFor = settings.repeatFor
        timeout = settings.timeout
        writes = CommitQueue(capacity: settings.waiting, deadlines: deadlines, releases: releases, observe: observe) {
            PostgreSQLWrite(unawaited: .record($0, answer: { _ in }), fail: $1)
        }
    }

    /// Waits for the commit and its answer, at most until the deadline.
    ///
    /// - Parameter lost: called when nothing was written and the deadline had passed, so that nobody hears of it otherwise.
    func write<Answer: Sendable>(
        lost: @escaping @Sendable () -> Void = {},
        _ make: (_ answer: @escaping @Sendable (Answer) -> Void) -> BatchedWrite
    ) async throws(LedgerFailure) -> Answer {
        try await writes.write(start: start) { (caller: LedgerCall<Answer>) in
            PostgreSQLWrite(
                begin: caller.begin, work: .batched(make { caller.resume(.success($0)) }),
                fail: { if !caller.resume(.failure($0)) { lost() } })
        }
    }

    /// - Parameter excludesReleases: no node's batch is under way while it is made: for changes of keys and of what is forgotten.
    func administer<Answer: Sendable>(
        excludingReleases excludesReleases: Bool = false,
        _ work: @escaping @Sendable (PostgreSQLTransaction) throws -> Answer
    ) async throws(LedgerFailure) -> Answer {
        try await writes.write(start: start) { (caller: LedgerCall<Answer>) in
            PostgreSQLWrite(
                begin: caller.begin,
                work: .alone(
                    excludesReleases: excludesReleases,
                    perform: { transaction in
                        let answer = try work(transaction)
                        return { caller.resume(.success(answer)) }
                    }),
                fail: { caller.resume(.failure($0)) })
        }
    }

    func note(_ record: AuditRecord) {
        writes.note(start: start) { PostgreSQLWrite(unawaited: .record(record, answer: { _ in }), fail: $0) }
    }

    /// Has the node's row renewed with the next batch, where there is none by itself.
    func renew() {
        if case .begins = writes.enter(PostgreSQLWrite(unawaited: .probe(answer: { _ in })), isNote: true) { start() }
    }

    private func start() {
        queue.async { [self] in
            while let batch = writes.next() {
                perform(batch)
                while !backlog.isEmpty {
                    let left = backlog
                    backlog = []
                    perform(left)
                }
            }
        }
    }

    /// Units in their order: neighbours that can share a transaction do.
    private func perform(_ batch: [PostgreSQLWrite]) {
        var shared: [PostgreSQLWrite] = []
        func performShared() {
            if !shared.isEmpty { perform(PostgreSQLUnit(shared, until: .now + timeout)) }
            shared = []
        }
        for write in batch {
            switch write.work {
            case .batched: shared.append(write)
            case .alone:
                performShared()
                perform(PostgreSQLUnit([write], until: .now + timeout))
            }
        }
        performShared()
    }

    private func perform(_ unit: PostgreSQLUnit, isRepeated: Bool = false) {
        guard settle(until: .now + timeout / 2) else {
            return refuse(
                unit.writes,
                .unavailable(
                    reason: "PostgreSQL has not acknowledged an earlier commit, and nothing is sent before it does."))
        }
        let started = ContinuousClock.now
        let wasConnected = slot.isConnected
        do {
            let connection = try slot.current(until: unit.deadline)
            let before = connection.roundTrips
            let transaction = try unit.begin(self, connection)
            try checked(transaction)
            try unit.decide(transaction, self)
            try transaction.finish()
            try commit(unit, transaction, connection)
            lastEnd.set([transaction.head])
            lease.renewed()
            observe(.exchanged(roundTrips: connection.roundTrips - before))
            observe(.committed(writes: unit.writes.count, after: started.duration(to: .now)))
            if unit.end != unit.start { observe(.recorded(upTo: transaction.head.sequence)) }
            unit.answer()
        } catch let error as CommitInDoubt {
            slot.drop()
            if let start = unit.start, let end = unit.end { lastEnd.set([start, end]) }
            observe(.failed(writes: unit.writes.count, reason: error.failure.description))
            doubt = unit
            _ = settle(until: unit.deadline)
        } catch {
            fail(unit, error, isRepeated: isRepeated || !wasConnected)
        }
    }

    /// Nothing of the unit was committed, and nothing will be.
    private func fail(_ unit: PostgreSQLUnit, _ error: any Error, isRepeated: Bool) {
        switch error {
        case let behind as DatabaseRolledBack:
            rollBack()
            return refuse(unit.writes, hold(behind.finding))
        case PostgreSQLFailure.lost:
            slot.drop()
            // The server may have been restarted since the last batch.
            if !isRepeated, unit.deadline > .now { return perform(unit.retried(), isRepeated: true) }
        case PostgreSQLFailure.late: slot.drop()
        case PostgreSQLFailure.refused(let state, let statement):
            rollBack()
            if [.deadlock, .serializationFailure].contains(state), !isRepeated {
                return perform(unit.retried(), isRepeated: true)
            }
            let isOneRow = state.blamesTheRow || (state == .lockNotAvailable && statement == unit.claims)
            if isOneRow, unit.writes.count > 1 {
                // Each by itself: one row that cannot be written, or a claim that another node's session in doubt holds, is
                // that one's affair.
                for write in unit.writes { perform(PostgreSQLUnit([write], until: unit.deadline)) }
                return
            }
            if state.isPassing || state == .readOnly { slot.drop() }
        default: rollBack()
        }
        let failure = LedgerFailure(error)
        if case .unavailable(let reason) = failure {
            observe(.failed(writes: unit.writes.count, reason: reason))
        }
        refuse(unit.writes, failure)
    }

    private func rollBack() {
        guard slot.isConnected, let connection = try? slot.current(until: .now) else { return }
        let ended = try? connection.exchange([PostgreSQLStatement("ROLLBACK")], until: .now + min(timeout, .seconds(1)))
        if ended == nil { slot.drop() }
    }

    /// - Throws: ``CommitInDoubt`` once the commit may have taken place and was not acknowledged; anything else means that
    ///   it did not.
    private func commit(
        _ unit: PostgreSQLUnit, _ transaction: PostgreSQLTransaction, _ connection: PostgreSQLConnection
    ) throws {
        let statements =
            transaction.closing(lease, batch: unit.identifier) + [PostgreSQLStatement("COMMIT", prepared: "commit")]
        let results: [PostgreSQLResult]
        do throws(PostgreSQLFailure) {
            results = try connection.exchange(statements, until: unit.deadline)
        } catch {
            if case .refused(_, let statement) = error, statement < statements.count - 1 { throw error }
            throw CommitInDoubt(failure: error.failure)
        }
        guard results.last?.tag == "COMMIT" else {
            throw LedgerFailure.unavailable(reason: "PostgreSQL rolled the transaction back.")
        }
        // Such as a wait for the standby that was cancelled: then the commit stands on this server only.
        guard !connection.hasWarned else {
            throw CommitInDoubt(failure: .unavailable(reason: "PostgreSQL warned at the commit."))
        }
    }

    /// After a failure: refusals that what stands in the database justifies by itself have their own code; the others fail.
    func refuse(_ writes: [PostgreSQLWrite], _ failure: LedgerFailure) {
        var releases: [Release] = []
        for write in writes {
            if case .batched(.release(let release, _, _)) = write.work { releases.append(release) }
        }
        guard case .unavailable = failure, !releases.isEmpty else {
            for write in writes { write.fail(failure) }
            return
        }
        let asked = releases
        let claims = PostgreSQLClaims(repeatFor: repeatFor)
        reader.read(
            { try claims.refusals(of: asked, $0) },
            then: { result in
                let refusals = (try? result.get()) ?? [:]
                for write in writes { write.answer(refusals, orFail: failure) }
            })
    }

    /// Waits for what is under way, gives the node's name back, and ends the session.
    func close(then: @escaping @Sendable () -> Void) {
        writes.close()
        queue.async { [self] in
            if doubt == nil, let connection = try? slot.current(until: .now + min(timeout, .seconds(2))) {
                _ = try? connection.exchange([lease.end], until: .now + min(timeout, .seconds(2)))
            }
            slot.drop()
            then()
        }
    }
}

/// A commit may have taken place, and was not acknowledged, or not without a warning.
struct CommitInDoubt: Error {
    let failure: LedgerFailure
}

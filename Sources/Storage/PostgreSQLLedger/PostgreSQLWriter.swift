import AuditChain
import DatabaseKit
import Dispatch
import Foundation
import Ledger
import MerchantKeys
import PaymentToken
import PostgreSQLClient

/// A queued write with the callbacks that answer its caller. The writer calls exactly one of them, once.
struct PostgreSQLWrite: QueuedWrite {
    enum Work: Sendable {
        /// A write that shares its transaction with others.
        case batched(BatchedWrite)
        /// A write with its own transaction.
        ///
        /// - Parameter perform: decides and writes. The returned closure answers the caller once the transaction is
        ///   durable. The writer calls `perform` again if the first transaction was not committed.
        case ownTransaction(
            excludesReleases: Bool, perform: @Sendable (PostgreSQLTransaction) throws -> @Sendable () -> Void)
    }

    let begin: @Sendable () -> Bool
    let work: Work
    let fail: @Sendable (LedgerFailure) -> Void
}

extension PostgreSQLWrite {
    /// Answers a release with its verdict in `refusals`, if there is one. Otherwise fails the write with `failure`.
    ///
    /// - Parameter refusals: the verdicts on the refused releases. The keys are the releases' ``Release/attempt``.
    fileprivate func answer(_ refusals: [[UInt8]: ReleaseVerdict], orFail failure: LedgerFailure) {
        guard case .batched(.release(let release, _, let answer)) = work, let verdict = refusals[release.attempt] else {
            return fail(failure)
        }
        answer(ReleaseDecision(verdict: verdict, line: nil))
    }

    /// Makes a write that no caller waits for.
    init(unawaited write: BatchedWrite, fail: @escaping @Sendable (LedgerFailure) -> Void = { _ in }) {
        self.init(begin: { true }, work: .batched(write), fail: fail)
    }
}

/// The single writer. It takes the queued writes, commits them as one transaction in two round trips, and then answers
/// each. Administrative writes have their own transactions.
///
/// Sendable because its state is used only on its own queue. PostgreSQLDoubt.swift handles commits that are not acknowledged.
final class PostgreSQLWriter: @unchecked Sendable {
    let writes: CommitQueue<PostgreSQLWrite>
    let lease: PostgreSQLNodeLease
    let node: AuditNode
    let repeatFor: Duration
    let timeout: Duration
    let observe: @Sendable (LedgerEvent) -> Void
    /// Reads the claims of releases whose batch failed. A release that the database's content already rules out is then
    /// refused, which needs no write.
    let reader: PostgreSQLReader
    let lastEnd = LastWrittenHead()
    let queue = DispatchQueue(label: "ledger.postgresql.writer")

    // The following properties are used only on `queue`.
    let session: LedgerSession
    /// A commit that was not acknowledged, until its outcome is known.
    var doubt: PostgreSQLWriteGroup?
    /// The writes of a commit that was in doubt and turned out not to have been made. The next batch repeats them.
    var uncommittedWrites: [PostgreSQLWrite] = []
    /// The finding for which this process has put all nodes on hold. If the database was restored to a state before
    /// this daemon's start, every batch makes the same finding. The hold is then stored only once.
    var heldFor: LedgerHold.Finding?

    init(
        _ session: LedgerSession, lease: PostgreSQLNodeLease, node: AuditNode, settings: PostgreSQLLedger.Settings,
        reader: PostgreSQLReader, deadlines: LedgerDeadlines, releases: ReleasesUnderWay,
        observe: @escaping @Sendable (LedgerEvent) -> Void
    ) {
        self.session = session
        self.lease = lease
        self.node = node
        self.reader = reader
        self.observe = observe
        repeatFor = settings.repeatFor
        timeout = settings.timeout
        writes = CommitQueue(
            capacity: settings.waiting, deadlines: deadlines, moment: releases.worthWaiting(with:),
            counting: { dropped, fail in
                PostgreSQLWrite(
                    unawaited: .record(.dropped(dropped.count, since: dropped.since), answer: { _ in }), fail: fail)
            }, observeDrop: { observe(.dropped(notes: 1)) })
    }

    /// Queues a write and waits for its answer until the deadline.
    ///
    /// - Parameter lost: called if nothing was written and the deadline has passed, since the caller then no longer
    ///   receives the failure.
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

    /// - Parameter excludesReleases: true to keep all nodes' batches out during the work, for changes to keys and
    ///   release limits.
    func administer<Answer: Sendable>(
        excludingReleases excludesReleases: Bool = false,
        _ work: @escaping @Sendable (PostgreSQLTransaction) throws -> Answer
    ) async throws(LedgerFailure) -> Answer {
        try await writes.write(start: start) { (caller: LedgerCall<Answer>) in
            PostgreSQLWrite(
                begin: caller.begin,
                work: .ownTransaction(
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

    /// Queues a probe to renew the lease. The probe makes a batch necessary, and every batch renews the lease.
    func renew() {
        if case .begins = writes.enter(PostgreSQLWrite(unawaited: .probe(answer: { _ in })), isNote: true) { start() }
    }

    private func start() {
        queue.async { [self] in
            while let batch = writes.next() {
                perform(batch)
                while !uncommittedWrites.isEmpty {
                    let left = uncommittedWrites
                    uncommittedWrites = []
                    perform(left)
                }
            }
        }
    }

    /// Runs the writes in order. Adjacent writes share a transaction if possible.
    private func perform(_ batch: [PostgreSQLWrite]) {
        var shared: [PostgreSQLWrite] = []
        func performShared() {
            if !shared.isEmpty { perform(PostgreSQLWriteGroup(shared, until: .now + timeout)) }
            shared = []
        }
        for write in batch {
            switch write.work {
            case .batched: shared.append(write)
            case .ownTransaction:
                performShared()
                perform(PostgreSQLWriteGroup([write], until: .now + timeout))
            }
        }
        performShared()
    }

    private func perform(_ group: PostgreSQLWriteGroup, isRepeated: Bool = false) {
        guard resolveDoubt(until: .now + timeout / 2) else {
            return refuse(
                group.writes,
                .unavailable(
                    reason: "PostgreSQL has not acknowledged an earlier commit. Nothing is written until it does."))
        }
        let started = ContinuousClock.now
        let wasConnected = session.isConnected
        do {
            let connection = try session.current(until: group.deadline)
            let before = connection.roundTrips
            let transaction = try group.begin(self, connection)
            try checked(transaction)
            try group.decide(transaction, self)
            try transaction.finish()
            try connection.commit(transaction.closing(lease, batch: group.identifier), until: group.deadline)
            lastEnd.set([transaction.head])
            lease.renewed()
            observe(.exchanged(roundTrips: connection.roundTrips - before))
            observe(.committed(writes: group.writes.count, after: started.duration(to: .now)))
            if group.end != group.start { observe(.recorded(upTo: transaction.head.sequence)) }
            group.answer()
        } catch let error as CommitInDoubt {
            session.drop()
            if let start = group.start, let end = group.end { lastEnd.set([start, end]) }
            let failure = LedgerFailure.unavailable(reason: error.reason)
            observe(.failed(writes: group.writes.count, reason: failure.description))
            doubt = group
            _ = resolveDoubt(until: group.deadline)
        } catch {
            fail(group, error, isRepeated: isRepeated || !wasConnected)
        }
    }

    /// Handles an error that shows that no write of the group was or will be committed.
    private func fail(_ group: PostgreSQLWriteGroup, _ error: any Error, isRepeated: Bool) {
        switch error {
        case let rolledBack as DatabaseRolledBack:
            rollBack()
            return refuse(group.writes, hold(rolledBack.finding))
        case PostgreSQLFailure.lost:
            session.drop()
            // The session may have ended since the last batch, for example because the server restarted. Try once with
            // a new one.
            if !isRepeated, group.deadline > .now { return perform(group.retried(), isRepeated: true) }
        case PostgreSQLFailure.late: session.drop()
        case PostgreSQLFailure.refused(let state, let statement):
            rollBack()
            if [.deadlock, .serializationFailure].contains(state), !isRepeated {
                return perform(group.retried(), isRepeated: true)
            }
            let isOneRow = state.blamesTheRow || (state == .lockNotAvailable && statement == group.claims)
            if isOneRow, group.writes.count > 1 {
                // Repeat each write alone. Otherwise all writes would fail because of one row that cannot be written,
                // or because of one claim that an unfinished transaction of another node keeps locked.
                for write in group.writes { perform(PostgreSQLWriteGroup([write], until: group.deadline)) }
                return
            }
            if state.endsUse { session.drop() }
        default: rollBack()
        }
        let failure = LedgerFailure(error)
        if case .unavailable(let reason) = failure {
            observe(.failed(writes: group.writes.count, reason: reason))
        }
        refuse(group.writes, failure)
    }

    private func rollBack() { session.rollBack(until: .now + min(timeout, .seconds(1))) }

    /// Answers writes after a failure. If the failure is `unavailable`, the releases that the stored claims, keys and
    /// limits rule out receive their refusals. All other writes fail.
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

    /// Waits for current work, returns the lease of the node's name, and ends the session.
    func close(then: @escaping @Sendable () -> Void) {
        writes.close()
        queue.async { [self] in
            if doubt == nil, let connection = try? session.current(until: .now + min(timeout, .seconds(2))) {
                _ = try? connection.exchange([lease.end], until: .now + min(timeout, .seconds(2)))
            }
            session.drop()
            then()
        }
    }
}

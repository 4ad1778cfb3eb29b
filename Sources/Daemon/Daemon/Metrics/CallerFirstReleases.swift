import AuditChain
import FairShares
import Foundation
import Ledger
import Logging
import Synchronization

/// Since when each caller's uid has released payment tokens, by the record of this node: a caller that never did before is worth
/// a look.
///
/// The record has no index of callers, since every release would pay for it. So the record is read once for each uid, from its
/// beginning to the uid's first release, after the uid's first release since the start: beside the payment, which never waits
/// for it, in short pages with pauses, one uid at a time. A million records take some seconds.
final class CallerFirstReleases: Sendable {
    /// More uids are not looked for: each has a series.
    static let mostCallers = 1_000

    private struct State {
        /// Looked for, or being looked for.
        var known: Set<UInt32> = []
        /// After a fault: not before.
        var notBefore: ContinuousClock.Instant?
    }

    private static let page = 10_000
    private static let pauseAfterFault = Duration.seconds(10)
    private let ledger: any Ledger
    private let instruments: Instruments
    private let logger: Logger
    private let now: @Sendable () -> ContinuousClock.Instant
    private let state = Mutex(State())
    private let lock = AsyncLock()

    init(
        ledger: any Ledger, instruments: Instruments, logger: Logger,
        now: @escaping @Sendable () -> ContinuousClock.Instant = { .now }
    ) {
        self.ledger = ledger
        self.instruments = instruments
        self.logger = logger
        self.now = now
    }

    /// How many uids have been looked for, or are.
    var searched: Int { state.withLock { $0.known.count } }

    /// A release to this uid has been recorded. Costs a look into a set, but for the first one.
    ///
    /// - Returns: the search that this began, if any.
    @discardableResult
    func released(to uid: UInt32) -> Task<Void, Never>? {
        let isNew = state.withLock { state in
            guard !state.known.contains(uid), state.known.count < Self.mostCallers,
                state.notBefore.map({ now() >= $0 }) ?? true
            else { return false }
            state.known.insert(uid)
            return true
        }
        return isNew ? Task(priority: .background) { await search(uid) } : nil
    }

    private func search(_ uid: UInt32) async {
        await lock.acquire()
        defer { lock.release() }
        do throws(LedgerFailure) {
            if let first = try await firstRelease(to: uid) {
                return instruments.callerFirstRelease.set([String(uid)], to: Double(first.milliseconds) / 1000)
            }
        } catch {
            logger.warning(
                "when a caller's first release was could not be looked up; it is tried again at its next release",
                metadata: ["uid": "\(uid)", "reason": "\(error)"])
        }
        state.withLock { state in
            state.known.remove(uid)
            state.notBefore = now() + Self.pauseAfterFault
        }
    }

    private func firstRelease(to uid: UInt32) async throws(LedgerFailure) -> AuditTime? {
        let last = try await ledger.head().sequence
        for first in stride(from: 1, through: last, by: Self.page) {
            let page = first...min(last, first + Self.page - 1)
            let began = ContinuousClock.now
            if let time = try await ledger.firstRelease(to: uid, in: page) { return time }
            // Half of the time is left to those who wait for the disk.
            try? await Task.sleep(for: began.duration(to: .now))
        }
        return nil
    }
}

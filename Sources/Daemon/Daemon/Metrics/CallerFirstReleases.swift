import AuditChain
import FairShares
import Foundation
import Ledger
import Logging
import Synchronization

/// Since when each caller's uid has released payment tokens, by the record of this node: a caller that never did before is worth
/// a look.
///
/// The record has no index of callers, since every release would pay for it. So the record is read from its beginning, once for
/// all uids, and no further than to the first release of the uid that is looked for: after that uid's first release since the
/// start, alongside the payment, which never waits for it, in short pages with pauses. A million records take some seconds.
final class CallerFirstReleases: Sendable {
    /// More uids are not looked for: each has a series.
    static let mostCallers = 1_000

    private struct State {
        /// Looked for, or being looked for.
        var known: Set<UInt32> = []
        /// After a fault: not before.
        var notBefore: ContinuousClock.Instant?
        /// The first releases in the records up to `read`. One search at a time changes it.
        var found: [UInt32: AuditTime] = [:]
        var read = 0
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
        var last: Int?
        while true {
            let (time, read) = state.withLock { ($0.found[uid], $0.read) }
            if let time { return time }
            let end = if let last { last } else { try await ledger.head().sequence }
            guard read < end else { return nil }
            last = end
            let page = read + 1...min(end, read + Self.page)
            let began = ContinuousClock.now
            let releases = try await ledger.firstReleases(in: page)
            state.withLock { state in
                state.found.merge(releases) { earlier, _ in earlier }
                state.read = page.upperBound
            }
            // Half of the time is left to those who wait for the disk.
            try? await Task.sleep(for: began.duration(to: .now))
        }
    }
}

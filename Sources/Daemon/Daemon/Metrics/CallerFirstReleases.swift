import AuditChain
import FairShares
import Foundation
import Ledger
import Logging
import Synchronization

/// Shows the time of each caller uid's first release in this node's record: a new caller deserves attention.
///
/// The record has no index of callers, since every release would pay for it. So the record is read from its beginning,
/// once for all uids, and only up to the first release of the requested uid. This happens after that uid's first
/// release since the start, in short pages with pauses. The payment never waits for it. A million records take some
/// seconds.
final class CallerFirstReleases: Sendable {
    /// The largest number of uids, since each has its own series.
    static let maximumCallers = 1_000

    private struct State {
        /// The uids with a finished or running search.
        var known: Set<UInt32> = []
        /// The time before which no search starts, after a fault.
        var notBefore: ContinuousClock.Instant?
        /// The first releases in the records up to `read`. Searches run one at a time.
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

    /// The number of uids with a finished or running search.
    var searched: Int { state.withLock { $0.known.count } }

    /// Notes a durable release to this uid. After the first one for a uid, this is a set lookup.
    ///
    /// - Returns: the search that this call started, if any.
    @discardableResult
    func released(to uid: UInt32) -> Task<Void, Never>? {
        let isNew = state.withLock { state in
            guard !state.known.contains(uid), state.known.count < Self.maximumCallers,
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
                "a caller's first release could not be looked up; retrying at its next release",
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
            // Half of the time is left to other users of the disk.
            try? await Task.sleep(for: began.duration(to: .now))
        }
    }
}

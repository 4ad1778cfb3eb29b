import AuditChain
import FairShares
import Foundation
import Ledger
import Locks
import Logging

/// Provides a metric with the time of the first release to each uid in this node's record, so that an alert can report a
/// new caller.
///
/// The record has no index by caller, since each release would have to maintain it. Therefore the first release to a
/// uid after the daemon's start begins a search. The search reads the record from its beginning until it finds the
/// first release to that uid. Later searches begin where the last one ended, and use the releases found before. A
/// search reads short pages with pauses, and no payment waits for it. A million records take some seconds.
final class CallerFirstReleases: Sendable {
    /// The maximum number of uids in the metric, since each has its own time series.
    static let maximumCallers = 1_000

    private struct State {
        /// The uids whose first release has been found or is being searched for.
        var known: Set<UInt32> = []
        /// The time until which no search starts, because the last one failed; nil if no search has failed.
        var notBefore: ContinuousClock.Instant?
        /// The time of the first release to each uid in the records up to the sequence ``read``.
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
    /// Allows one search at a time.
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

    /// The number of uids whose first release has been found or is being searched for.
    var searched: Int { state.withLock { $0.known.count } }

    /// Starts the search for this uid's first release, unless it was started before. Called after each durable release.
    ///
    /// - Returns: the search that this call started; nil if it started none.
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
            // The pause is as long as the reading took, so that the disk is free for others half of the time.
            try? await Task.sleep(for: began.duration(to: .now))
        }
    }
}

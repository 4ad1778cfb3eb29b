import DaemonAPI
import Encodings
import Foundation
import Ledger
import Refusals

/// The daemon's clock, compared with what the ledger says about the time.
///
/// A wrong clock shows in payments as refusals only. Behind, it makes all payment tokens come from the future. If it was
/// ahead at an earlier start, young claims may have been pruned, and payment tokens are refused as replays for as long as
/// it was ahead.
struct LedgerClock: Sendable {
    let ledger: any Ledger
    let clock: WallClock
    /// The widest signing-time window of the configuration in force; nil when one is off.
    let widestWindow: @Sendable () -> Duration?

    /// What one comparison found.
    struct Comparison: Sendable, Equatable {
        let now: Date
        let times: LedgerTimes
        /// Nil when one is off.
        let window: Duration?

        /// By how much the clock is behind the newest record or what is forgotten; 0 when it is behind neither.
        var secondsBehind: Double {
            [times.newestRecord, times.forgottenBefore].compactMap { $0?.timeIntervalSince(now) }.reduce(0, max)
        }

        /// The clock's time, or the later one that the ledger has seen: a clock that was set back makes no key decrypt again.
        var confirmed: Date { now.addingTimeInterval(secondsBehind) }

        /// The newest record, when the clock is further behind it than clocks differ.
        var recordAhead: Date? {
            times.newestRecord.flatMap { $0.timeIntervalSince(now) > tolerance ? $0 : nil }
        }

        /// Before when every payment token is refused, when that lies ahead.
        var forgottenAhead: Date? { times.forgottenBefore.flatMap { $0 > now ? $0 : nil } }

        /// How far clocks may differ: the window, or the usual one where it is off.
        var tolerance: TimeInterval { (window ?? .seconds(300)) / .seconds(1) }
    }

    func compare() async throws(LedgerFailure) -> Comparison {
        let times = try await ledger.times()
        return Comparison(now: clock.now(), times: times, window: widestWindow())
    }
}

extension LedgerClock.Comparison {
    /// Why payments are refused by the clock; none when it agrees with the ledger.
    var reasons: [ReadinessAnswer.Reason] {
        [restoreReason, forgottenReason, behindReason].compactMap { $0 }
    }

    private var restoreReason: ReadinessAnswer.Reason? {
        guard let fence = times.restoreFence, fence > now else { return nil }
        return ReadinessAnswer.Reason(
            component: "ledger", code: RefusalCode.transactionReplayed.rawValue,
            message: "An older ledger was taken into service, and payment tokens that were signed before "
                + "\(RFC3339.string(fence)) are refused, since they may have been released before. Payments are served "
                + "again from then on, without anybody's doing.")
    }

    private var forgottenReason: ReadinessAnswer.Reason? {
        guard let forgotten = forgottenAhead else { return nil }
        let refused =
            "The clock says \(RFC3339.string(now)), and payment tokens that were signed before "
            + "\(RFC3339.string(forgotten)) are refused as replays, since their claims may have been pruned. "
        let todo =
            forgotten.timeIntervalSince(now) <= tolerance
            ? "Payments are served again from then on, without anybody's doing."
            : "If the clock is behind, set it. If it is right, it was ahead when claims were pruned: "
                + "POST /v1/ledger/accept-clock takes that back."
        return reason(.transactionReplayed, refused + todo)
    }

    private var behindReason: ReadinessAnswer.Reason? {
        guard let newest = recordAhead else { return nil }
        return reason(
            .signingTimeOutsideWindow,
            "The clock says \(RFC3339.string(now)), and the ledger's newest record is of \(RFC3339.string(newest)). If the "
                + "clock is behind, set it: payments are refused until then. If it is right, it was ahead when that was "
                + "recorded: POST /v1/ledger/accept-clock says so.")
    }

    private func reason(_ code: RefusalCode, _ message: String) -> ReadinessAnswer.Reason {
        ReadinessAnswer.Reason(component: "clock", code: code.rawValue, message: message)
    }
}

/// Where the daemon's one notion of the present comes from, so that tests can stand at any time.
struct WallClock: Sendable {
    let now: @Sendable () -> Date

    static let system = WallClock { Date() }
}

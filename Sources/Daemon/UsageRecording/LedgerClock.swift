package import DaemonAPI
import Encodings
package import Foundation
package import Ledger
import Refusals

/// Compares the daemon's clock with the times in the ledger.
///
/// Callers notice a wrong clock only by refusals. While the clock is late, all payment tokens appear to be signed in
/// the future. If the clock was ahead in the past, recent claims may have been pruned. After the clock is corrected,
/// the daemon refuses payment tokens that were signed before ``LedgerTimes/forgottenBefore`` as replays.
package struct LedgerClock: Sendable {
    package let ledger: any Ledger
    package let clock: WallClock
    /// Returns the widest signing-time window of the configuration in force; nil while a window is off.
    let widestWindow: @Sendable () -> Duration?

    package init(ledger: any Ledger, clock: WallClock, widestWindow: @escaping @Sendable () -> Duration?) {
        (self.ledger, self.clock, self.widestWindow) = (ledger, clock, widestWindow)
    }

    /// The result of comparing the clock with the ledger's times.
    package struct Comparison: Sendable, Equatable {
        package let now: Date
        package let times: LedgerTimes
        /// The widest signing-time window; nil if a window is off.
        package let window: Duration?

        /// The seconds by which the clock is earlier than the newest record, or than ``LedgerTimes/forgottenBefore`` if
        /// that is later. 0 if the clock is later than both.
        package var secondsBehind: Double {
            [times.newestRecord, times.forgottenBefore].compactMap { $0?.timeIntervalSince(now) }.reduce(0, max)
        }

        /// The clock's time, or the latest time in the ledger if that is later. With this time, a clock that is set
        /// back cannot make a deactivated key decrypt again.
        package var confirmed: Date { now.addingTimeInterval(secondsBehind) }

        /// The time of the newest record, if it is later than the clock by more than ``tolerance``.
        package var recordAhead: Date? {
            times.newestRecord.flatMap { $0.timeIntervalSince(now) > tolerance ? $0 : nil }
        }

        /// The signing time before which every payment token is refused, if it is later than the clock.
        package var forgottenAhead: Date? { times.forgottenBefore.flatMap { $0 > now ? $0 : nil } }

        /// The permitted difference between clocks in seconds: the widest window, or 5 minutes if a window is off.
        var tolerance: TimeInterval { (window ?? .seconds(300)) / .seconds(1) }
    }

    package func compare() async throws(LedgerFailure) -> Comparison {
        let times = try await ledger.times()
        return Comparison(now: clock.now(), times: times, window: widestWindow())
    }
}

extension LedgerClock.Comparison {
    /// The reasons why the clock makes the daemon refuse payments; empty if the clock agrees with the ledger.
    package var reasons: [ReadinessAnswer.Reason] {
        [restoreReason, forgottenReason, lateClockReason].compactMap { $0 }
    }

    private var restoreReason: ReadinessAnswer.Reason? {
        guard let fence = times.restoreFence, fence > now else { return nil }
        return ReadinessAnswer.Reason(
            component: "ledger", code: RefusalCode.transactionReplayed.rawValue,
            message: "An older ledger was taken into service. Payment tokens signed before "
                + "\(RFC3339.string(fence)) are refused, since they may have been released before. Payments are served "
                + "again from then on without further action.")
    }

    private var forgottenReason: ReadinessAnswer.Reason? {
        guard let forgotten = forgottenAhead else { return nil }
        let refused =
            "The clock says \(RFC3339.string(now)), and payment tokens signed before "
            + "\(RFC3339.string(forgotten)) are refused as replays, since their claims may have been pruned. "
        let todo =
            forgotten.timeIntervalSince(now) <= tolerance
            ? "Payments are served again from then on without further action."
            : "If the clock is behind, set it. If it is right, it was ahead when claims were pruned: correct that with "
                + "POST /v1/ledger/accept-clock."
        return reason(.transactionReplayed, refused + todo)
    }

    private var lateClockReason: ReadinessAnswer.Reason? {
        guard let newest = recordAhead else { return nil }
        return reason(
            .signingTimeOutsideWindow,
            "The clock says \(RFC3339.string(now)), but the ledger's newest record is of \(RFC3339.string(newest)). If "
                + "the clock is behind, set it: payments are refused until then. If it is right, it was ahead when that "
                + "was recorded: accept it with POST /v1/ledger/accept-clock.")
    }

    private func reason(_ code: RefusalCode, _ message: String) -> ReadinessAnswer.Reason {
        ReadinessAnswer.Reason(component: "clock", code: code.rawValue, message: message)
    }
}

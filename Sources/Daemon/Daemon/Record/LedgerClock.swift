import DaemonAPI
import Encodings
import Foundation
import Ledger
import Refusals

/// Compares the daemon's clock with the times in the ledger.
///
/// A caller sees a wrong clock only as refusals. If the clock is late, all payment tokens appear to be signed in the
/// future. If it was ahead at an earlier start, recent claims may have been pruned. Payment tokens are then refused as
/// replays for as long as the clock was ahead.
struct LedgerClock: Sendable {
    let ledger: any Ledger
    let clock: WallClock
    /// The widest signing-time window of the configuration in force; nil when one is off.
    let widestWindow: @Sendable () -> Duration?

    /// The result of one comparison.
    struct Comparison: Sendable, Equatable {
        let now: Date
        let times: LedgerTimes
        /// The widest signing-time window; nil when a window is off.
        let window: Duration?

        /// The time by which the clock is behind the newest record or the limit of forgotten claims; 0 when it is
        /// behind neither.
        var secondsBehind: Double {
            [times.newestRecord, times.forgottenBefore].compactMap { $0?.timeIntervalSince(now) }.reduce(0, max)
        }

        /// The clock's time, or the later one that the ledger has seen, so that setting the clock back makes no key
        /// decrypt again.
        var confirmed: Date { now.addingTimeInterval(secondsBehind) }

        /// The newest record, if it is ahead of the clock by more than the tolerance.
        var recordAhead: Date? {
            times.newestRecord.flatMap { $0.timeIntervalSince(now) > tolerance ? $0 : nil }
        }

        /// The time before which every payment token is refused, if it is ahead of the clock.
        var forgottenAhead: Date? { times.forgottenBefore.flatMap { $0 > now ? $0 : nil } }

        /// The permitted difference between clocks: the window, or the default window if it is off.
        var tolerance: TimeInterval { (window ?? .seconds(300)) / .seconds(1) }
    }

    func compare() async throws(LedgerFailure) -> Comparison {
        let times = try await ledger.times()
        return Comparison(now: clock.now(), times: times, window: widestWindow())
    }
}

extension LedgerClock.Comparison {
    /// The reasons why the clock makes the daemon refuse payments; none when it agrees with the ledger.
    var reasons: [ReadinessAnswer.Reason] {
        [restoreReason, forgottenReason, behindReason].compactMap { $0 }
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

    private var behindReason: ReadinessAnswer.Reason? {
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

/// The source of the present time, replaceable in tests.
struct WallClock: Sendable {
    let now: @Sendable () -> Date

    static let system = WallClock { Date() }
}

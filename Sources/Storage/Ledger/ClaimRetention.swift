import DatabaseKit
public import Foundation

/// The age after which a claim can be forgotten without risking a second release of its payment token.
public struct ClaimRetention: Sendable, Equatable {
    /// The age, counted from the claim, after which a claim is no longer needed.
    public let age: Duration

    /// Computes the age. A claim is kept for the configured retention, and for as long as its payment token could be
    /// accepted again, within the repeat period or the signing-time windows. A window admits signing times in the
    /// future as well as in the past. A payment token released now may therefore be accepted for up to twice the
    /// window.
    ///
    /// - Parameters:
    ///   - retainClaims: the configured retention; nil to keep claims for ever.
    ///   - windows: the signing-time windows of verification and of every access rule; nil for a window that is off.
    /// - Returns: nil if claims must never be pruned. This is the case if a parameter is unlimited (nil), since a
    ///   payment token can then always be accepted.
    public init?(retainClaims: Duration?, repeatFor: Duration, windows: [Duration?]) {
        guard let retainClaims, !windows.isEmpty else { return nil }
        var age = max(retainClaims, repeatFor)
        for window in windows {
            guard let window else { return nil }
            age = max(age, window * 2)
        }
        self.age = age
    }
}

extension ClaimRetention {
    /// Returns the retention for a ledger shared with a node whose signing-time window is `window` milliseconds.
    package func covering(window: Int64) -> ClaimRetention { ClaimRetention(age: max(age, .milliseconds(window * 2))) }

    private init(age: Duration) { self.age = age }
}

/// The result of ``Ledger/prune(_:now:)``.
public enum ClaimPruningOutcome: Sendable, Equatable {
    /// Claims were removed, all made before `before`.
    case pruned(count: Int, before: Date)
    /// Nothing was removed, because the clock is more than ``ClaimRetention/longestLead`` ahead of the newest claim of
    /// Apple Pay, or there is none, and the clock may be wrong. If the clock is correct, the next release of Apple Pay
    /// confirms it. If the clock is wrong, no such release occurs, since every payment token is outside the signing-time
    /// window.
    case clockUnconfirmed
}

extension ClaimRetention {
    /// The longest lead of the clock over the newest claim at which claims are still pruned.
    ///
    /// A first release of Apple Pay requires a signing time, signed by Apple, within the window around the clock. Apple
    /// thus confirms the time of each such claim, but of nothing else in the ledger. A message of Google Pay is accepted
    /// with a clock that is days wrong, so the newest claim is always one of Apple Pay. The limit does not delay the
    /// pruning of a ledger with daily releases. A ledger without new claims does not grow, so its pruning can wait.
    public static let longestLead = Duration.seconds(86_400)

    /// The claims that may be forgotten now. Times are in milliseconds (``StoredTime``).
    package enum Plan: Equatable {
        case nothingToForget(before: Int64)
        case clockUnconfirmed
        /// Removes the claims made before `claimsBefore`. The ledger may then lack claims of payment tokens signed
        /// before `paymentTokensSignedBefore`.
        case forget(claimsBefore: Int64, paymentTokensSignedBefore: Int64)
    }

    /// Decides which claims may be forgotten.
    ///
    /// - Parameters:
    ///   - now: the daemon's clock, which may be wrong.
    ///   - oldest: the time of the oldest claim; nil if there is none.
    ///   - ahead: the maximum, in milliseconds, by which a released payment token was signed later than it was claimed.
    ///   - newest: reads the time of the newest claim of Apple Pay since a time; nil if there is none. It is called only if
    ///     a claim is old enough to be forgotten.
    package func plan(
        now: Date, oldestClaim oldest: Int64?, signedAhead ahead: Int64,
        newestClaim newest: (_ since: Int64) throws -> Int64?
    ) rethrows -> Plan {
        let (present, age) = (StoredTime.milliseconds(now), StoredTime.milliseconds(age))
        guard let oldest, oldest < present - age else { return .nothingToForget(before: present - age) }
        guard let newest = try newest(present - StoredTime.milliseconds(Self.longestLead)) else {
            return .clockUnconfirmed
        }
        // If the clock is ahead of the newest claim, use the time of the newest claim instead: Apple confirms that
        // time, but nothing confirms the clock. However wrong the clock is, each claim is thus kept while the window
        // admits its payment token.
        //
        // A payment token is signed at most one window after its claim, and the age is at least two windows. If a
        // window was once wider or off while the clock was slow, the payment token may have been signed later, by up to
        // `ahead`. Claims are then kept longer, by the difference between `ahead` and half the age.
        let end = min(present, newest) - age
        return .forget(claimsBefore: end - max(0, ahead - age / 2), paymentTokensSignedBefore: end + age / 2)
    }
}

extension ClaimRetention.Plan {
    /// The maximum number of claims removed in one transaction. It is small, so that releases need not wait long.
    private static let stepSize = 500

    /// Carries out the plan. If the task is cancelled, the rest is left to the next pruning.
    ///
    /// - Parameter forget: removes at most `limit` claims made before the first time, and returns their number. In the
    ///   same transaction it records that claims of payment tokens signed before the second time may be missing.
    package func carryOut(
        _ forget: (
            _ claimsBefore: Int64, _ paymentTokensSignedBefore: Int64, _ limit: Int
        ) async throws(LedgerFailure) -> Int
    ) async throws(LedgerFailure) -> ClaimPruningOutcome {
        switch self {
        case .nothingToForget(let time): return .pruned(count: 0, before: StoredTime.date(time))
        case .clockUnconfirmed: return .clockUnconfirmed
        case .forget(let claims, let paymentTokens):
            var total = 0
            while !Task.isCancelled {
                let began = ContinuousClock.now
                let removed = try await forget(claims, paymentTokens, Self.stepSize)
                total += removed
                if removed < Self.stepSize { break }
                // Releases are committed during this pause. The removal is not urgent, so the pause is twice as long as
                // the step.
                try? await Task.sleep(for: began.duration(to: .now) * 2)
            }
            return .pruned(count: total, before: StoredTime.date(claims))
        }
    }
}

/// The times in the ledger that limit releases and with which the clock is checked.
public struct LedgerTimes: Sendable, Equatable {
    /// The time of this node's newest record since the clock was last accepted; nil if there is none.
    public var newestRecord: Date?
    /// Payment tokens signed before this time are refused if no claim is found, since their claims may have been
    /// pruned. Nil if no claims were pruned.
    public var forgottenBefore: Date?
    /// The fence. Payment tokens signed before this time are refused if no claim is found, since a restored ledger may
    /// lack their claims. Nil if no restored ledger was accepted.
    public var restoreFence: Date?

    public init(newestRecord: Date? = nil, forgottenBefore: Date? = nil, restoreFence: Date? = nil) {
        self.newestRecord = newestRecord
        self.forgottenBefore = forgottenBefore
        self.restoreFence = restoreFence
    }
}

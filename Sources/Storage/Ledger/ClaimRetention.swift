import DatabaseKit
public import Foundation

/// After what time a claim can be forgotten without a token being released twice.
public struct ClaimRetention: Sendable, Equatable {
    /// A claim older than this is not needed any more.
    public let age: Duration

    /// A claim must outlive every way in which its token could be accepted again: the time that the configuration
    /// asks for, the time in which it can be repeated, and the signing-time windows. A window admits signing times in
    /// the future as far as in the past, so a token released now may be accepted until twice the window has passed.
    ///
    /// - Parameters:
    ///   - retainClaims: nil keeps them for ever.
    ///   - windows: the signing-time windows of verification and of every access rule; nil is one that is off.
    /// - Returns: nil when claims are never pruned: without an end to one of these, a token is good for ever.
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
    /// The same for a ledger of several nodes, of which one has the given window.
    func covering(window: Int64) -> ClaimRetention { ClaimRetention(age: max(age, .milliseconds(window * 2))) }

    private init(age: Duration) { self.age = age }
}

/// What became of a ``Ledger/prune(_:now:)``.
public enum ClaimPruningOutcome: Sendable, Equatable {
    /// So many claims were removed; all were made before this time.
    case pruned(count: Int, before: Date)
    /// There are claims to remove by the clock, but it is more than ``ClaimRetention/longestLead`` ahead of the newest
    /// claim: nothing vouches for it. The next release does, when the clock is right; with a wrong one there is none,
    /// since all tokens are outside the signing-time window.
    case clockUnconfirmed(newestClaim: Date)
}

extension ClaimRetention {
    /// How far the clock may be ahead of the newest claim when claims are pruned.
    ///
    /// A first release took place while the token's signing time, which Apple signed, was within the window of the clock:
    /// so each claim's time is vouched for by Apple, and nothing else in the ledger is. A ledger that grows has new
    /// claims; one that does not grow can wait.
    public static let longestLead = Duration.seconds(86_400)

    /// What may be forgotten now. Times are in milliseconds, ``StoredTime``.
    enum Plan: Equatable {
        case nothing(before: Int64)
        case clockUnconfirmed(newestClaim: Int64)
        /// Claims made before the first go, and with them what is known of payment tokens that were signed before the
        /// second.
        case forget(claimsBefore: Int64, paymentTokensSignedBefore: Int64)
    }

    /// - Parameters:
    ///   - now: by the daemon's clock, which may be wrong.
    ///   - newest: when the newest claim was made, and `oldest` the oldest; nil when there is none.
    ///   - ahead: by how much a released token's signing time was ahead of the clock that claimed it, at most.
    func plan(now: Date, newestClaim newest: Int64?, oldestClaim oldest: Int64?, signedAhead ahead: Int64) -> Plan {
        let (present, age) = (StoredTime.milliseconds(now), StoredTime.milliseconds(age))
        guard let newest, let oldest, oldest < present - age else { return .nothing(before: present - age) }
        guard present - newest <= StoredTime.milliseconds(Self.longestLead) else {
            return .clockUnconfirmed(newestClaim: newest)
        }
        // By the newest claim where the clock is ahead of it: Apple vouches for that time, and for the clock's nobody does.
        // However wrong the clock, nothing is forgotten then that the window still admits.
        // A claim's payment token was signed at most one window after it was claimed, and the age is at least two of them.
        // When a window was wider once, or off, and the clock behind, it was later: the claims stay for so much longer.
        let end = min(present, newest) - age
        return .forget(claimsBefore: end - max(0, ahead - age / 2), paymentTokensSignedBefore: end + age / 2)
    }
}

extension ClaimRetention.Plan {
    /// How many claims go in one transaction: few, so that releases come between.
    private static let stepSize = 500

    /// Forgets what is to be forgotten.
    ///
    /// - Parameter forget: removes that many claims at most, made before the first time, in one transaction with the note that
    ///   claims of payment tokens signed before the second may be gone. Gives how many it removed.
    func carryOut(
        _ forget: (
            _ claimsBefore: Int64, _ paymentTokensSignedBefore: Int64, _ limit: Int
        ) async throws(LedgerFailure) -> Int
    ) async throws(LedgerFailure) -> ClaimPruningOutcome {
        switch self {
        case .nothing(let time): return .pruned(count: 0, before: StoredTime.date(time))
        case .clockUnconfirmed(let newest): return .clockUnconfirmed(newestClaim: StoredTime.date(newest))
        case .forget(let claims, let paymentTokens):
            var total = 0
            while true {
                let removed = try await forget(claims, paymentTokens, Self.stepSize)
                total += removed
                if removed < Self.stepSize { return .pruned(count: total, before: StoredTime.date(claims)) }
            }
        }
    }
}

/// What stands in a ledger about the time.
public struct LedgerTimes: Sendable, Equatable {
    /// The newest of this node's records, of those since the clock was last accepted; nil when there is none.
    public var newestRecord: Date?
    /// Tokens that were signed before this are refused where no claim is found, since theirs may have been pruned; nil
    /// when none were.
    public var forgottenBefore: Date?
    /// The same for tokens whose claims a restored ledger may lack, since it was accepted; nil when none was.
    public var restoreFence: Date?

    public init(newestRecord: Date? = nil, forgottenBefore: Date? = nil, restoreFence: Date? = nil) {
        self.newestRecord = newestRecord
        self.forgottenBefore = forgottenBefore
        self.restoreFence = restoreFence
    }
}

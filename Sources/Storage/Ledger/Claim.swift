import DatabaseKit

/// The answer to whether a released transaction may be released again to the same caller.
public enum Repeatability: Sendable, Equatable {
    /// The transaction was not released, so there is nothing to repeat.
    case unclaimed
    case no
    case yes
    /// A repeat, but ``Release/maximumRepeats`` repeats were already released.
    case tooOften
    /// A repeat, but the last release was by an attempt that this attempt does not name.
    case byOther

    package var verdict: ReleaseVerdict {
        switch self {
        case .no, .unclaimed: .replayed
        case .yes: .repeated
        case .tooOften: .repeatedTooOften
        case .byOther: .releasedByOther
        }
    }
}

/// A stored claim of a released transaction. ``repeatability(of:within:)`` decides for every engine whether a further
/// ``Release`` is a repeat.
package struct Claim: Sendable {
    package let caller: String
    package let referenceDigest: [UInt8]?
    package let contentDigest: [UInt8]
    /// The identifier of the attempt that made the claim (``StoredAttempt``). `repeatAttempt` is the identifier of the
    /// last released repeat; nil if there is none.
    package let attempt: [UInt8]
    package var repeatAttempt: [UInt8]?
    /// The time of the claim in milliseconds (``StoredTime``).
    package let claimedAt: Int64
    package var repeats: Int

    package init(
        caller: String, referenceDigest: [UInt8]?, contentDigest: [UInt8], attempt: [UInt8],
        repeatAttempt: [UInt8]? = nil, claimedAt: Int64, repeats: Int
    ) {
        (self.caller, self.referenceDigest, self.contentDigest) = (caller, referenceDigest, contentDigest)
        (self.attempt, self.repeatAttempt, self.claimedAt) = (attempt, repeatAttempt, claimedAt)
        self.repeats = repeats
    }

    /// True if no further repeat is possible.
    package var isUsedUp: Bool { repeats >= Release.maximumRepeats }

    /// Determines whether `release` is a permitted repeat. A repeat has the same caller, reference and signed content,
    /// and arrives at most `repeatFor` after the claim. A named repeat must also name the attempt that it follows.
    package func repeatability(of release: Release, within repeatFor: Duration) -> Repeatability {
        guard repeatFor > .zero, let referenceDigest, referenceDigest == release.referenceDigest,
            caller == release.caller, contentDigest == release.contentDigest,
            StoredTime.milliseconds(release.at) - claimedAt <= StoredTime.milliseconds(repeatFor)
        else { return .no }
        guard follows(release) else { return .byOther }
        return isUsedUp ? .tooOften : .yes
    }

    private func follows(_ release: Release) -> Bool {
        guard let named = release.named else { return true }
        let last = repeatAttempt ?? attempt
        // This attempt may itself have made the last release, if the commit was not acknowledged. It then follows no
        // other attempt and need not name one.
        if last == release.attempt { return true }
        return StoredAttempt.name(in: last).map(named.after.contains) ?? false
    }
}

import Foundation

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

/// Times as the engines store them: whole milliseconds since 1970, UTC.
enum StoredTime {
    static func milliseconds(_ date: Date) -> Int64 { Int64((date.timeIntervalSince1970 * 1000).rounded(.down)) }

    static func date(_ milliseconds: Int64) -> Date { Date(timeIntervalSince1970: Double(milliseconds) / 1000) }

    static func milliseconds(_ duration: Duration) -> Int64 {
        duration.components.seconds * 1000 + duration.components.attoseconds / 1_000_000_000_000_000
    }
}

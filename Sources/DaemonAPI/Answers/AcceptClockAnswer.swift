public import Foundation

/// The body of `POST /v1/ledger/accept-clock`: the present clock is taken for right.
public struct AcceptClockAnswer: Codable, Sendable, Equatable {
    /// `accepted`, or `unchanged` in a dry run.
    public var status: String
    /// What the daemon's clock says: look at it in a dry run, before it is accepted.
    public var clock: Date
    /// The newest record's time, which a clock that was ahead wrote; absent or null when the clock is not behind it.
    public var newestRecord: Date?
    /// Tokens signed before this were refused until now; absent or null when none were.
    public var forgottenBefore: Date?
    /// Tokens signed before this are refused from now on (in a dry run: would be), later ones are served; absent or null
    /// when that does not change.
    public var servedFrom: Date?

    public init(status: String, clock: Date, newestRecord: Date?, forgottenBefore: Date?, servedFrom: Date?) {
        self.status = status
        self.clock = clock
        self.newestRecord = newestRecord
        self.forgottenBefore = forgottenBefore
        self.servedFrom = servedFrom
    }
}

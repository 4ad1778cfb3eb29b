/// The body of `POST /v1/ledger/accept-restore`: an older ledger is in service.
public struct AcceptRestoreAnswer: Codable, Sendable, Equatable {
    /// `accepted`.
    public var status: String
    /// Where the ledger's record ended before this was recorded in it; 0 for an empty one.
    public var ledgerSequence: Int
    /// The record that the token remembered; absent or null when it remembered none.
    public var tokenSequence: Int?

    public init(status: String = "accepted", ledgerSequence: Int, tokenSequence: Int?) {
        self.status = status
        self.ledgerSequence = ledgerSequence
        self.tokenSequence = tokenSequence
    }
}

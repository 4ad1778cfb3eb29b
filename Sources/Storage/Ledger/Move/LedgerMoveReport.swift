public import Foundation
public import MerchantKeys
public import PaymentToken

/// What a move has carried over, or would.
public struct LedgerMoveReport: Sendable, Equatable {
    /// A key whose record differs between the file and the database.
    public struct DifferingKey: Sendable, Equatable {
        public let publicKeyHash: PublicKeyHash
        public let inFile: KeyState
        public let inDatabase: KeyState
        /// The stricter of the two.
        public let becomes: KeyState
    }

    public enum Status: String, Sendable {
        /// Looked at only.
        case possible
        /// The database has it, and the file is marked.
        case moved
        /// The file serves again, as far as this move is concerned.
        case givenUp = "given_up"
    }

    public var status = Status.possible
    public let path: String
    public let server: String
    /// Under which the record goes on.
    public let node: String
    /// In the file.
    public var records = 0
    public var checkpoints = 0
    public var claims = 0
    /// Claims of transactions that the database has a claim of another node for: nobody can repeat those any more.
    public var claimsInBoth = 0
    public var keys = 0
    public var differingKeys: [DifferingKey] = []
    public var approvals = 0
    /// The later of the two: payment tokens that were signed before it and have no claim are refused. Nil: none.
    public var forgottenBefore: Date?
    /// The later of the two.
    public var restoreFence: Date?
    /// What the connection with the database lacks.
    public var insecureSettings: Set<InsecureLedgerSetting> = []

    init(path: String, server: String, node: String) {
        (self.path, self.server, self.node) = (path, server, node)
    }
}

/// How far a move is.
public enum LedgerMoveProgress: Sendable, Equatable {
    case verified(records: Int, of: Int)
    case copied(records: Int, of: Int)
    case claims(Int, of: Int)
}

/// The moments at which tests have a move end as a killed process does. In this order.
enum LedgerMoveMoment: Sendable, CaseIterable {
    /// Both sides were looked at.
    case looked
    /// The database knows that the node is being moved.
    case begun
    /// Part of the records is there.
    case recordsCopied
    /// Part of the claims is there.
    case claimsCopied
    /// The file does not serve any more.
    case marked
    /// All is sent but the commit by which the database accepts it.
    case accepting
    /// The database has accepted.
    case accepted
    /// The file says so.
    case done
}

struct LedgerMoveFaults: Sendable {
    var reached: @Sendable (LedgerMoveMoment) throws -> Void = { _ in }
    /// Rows in one transaction.
    var page = 1000
}

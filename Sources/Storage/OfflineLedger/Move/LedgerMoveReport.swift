public import Foundation
public import Ledger
public import MerchantKeys
public import PaymentToken
import PostgreSQLLedger
import SQLiteLedger

/// The result of a move, or of the checks before it.
public struct LedgerMoveReport: Sendable, Equatable {
    /// A key whose record differs between the file and the database.
    public struct DifferingKey: Sendable, Equatable {
        public let publicKeyHash: PublicKeyHash
        public let inFile: KeyState
        public let inDatabase: KeyState
        /// The key's state after the move: the stricter of its states in the file and in the database.
        public let becomes: KeyState
    }

    public enum Status: String, Sendable {
        /// Both sides were checked; nothing was moved.
        case possible
        /// The database has accepted the node, and the file is marked.
        case moved
        /// The move was cancelled, and the file serves again.
        case givenUp = "given_up"
    }

    public var status = Status.possible
    public let path: String
    public let server: String
    /// The node's name, under which the record continues.
    public let node: String
    /// The number of records in the file.
    public var records = 0
    public var checkpoints = 0
    public var claims = 0
    /// The number of claims whose transactions another node has claimed in the database. These can no longer be
    /// repeated.
    public var claimsInBoth = 0
    public var keys = 0
    public var differingKeys: [DifferingKey] = []
    public var approvals = 0
    /// The later of the signing-time limits for forgotten claims in the file and in the database; nil if neither has
    /// one. Payment tokens that were signed earlier and have no claim are refused.
    public var forgottenBefore: Date?
    /// The later of the fences in the file and in the database; nil if neither has one.
    public var restoreFence: Date?
    /// The protections that the connection to the database lacks.
    public var insecureSettings: Set<InsecureLedgerSetting> = []

    init(path: String, server: String, node: String) {
        (self.path, self.server, self.node) = (path, server, node)
    }
}

public enum LedgerMoveProgress: Sendable, Equatable {
    case verified(records: Int, of: Int)
    case copied(records: Int, of: Int)
    case claims(Int, of: Int)
}

/// The points, in order, at which tests end a move as if the process were killed.
enum LedgerMoveMoment: Sendable, CaseIterable {
    /// Both sides have been checked.
    case checked
    /// The database has noted that the node is being moved.
    case begun
    /// Part of the records have been copied.
    case recordsCopied
    /// Part of the claims have been copied.
    case claimsCopied
    /// The file no longer serves.
    case marked
    /// Everything has been sent except the commit by which the database accepts the node.
    case accepting
    /// The database has accepted the node.
    case accepted
    /// The file is marked as moved.
    case done
}

struct LedgerMoveFaults: Sendable {
    var reached: @Sendable (LedgerMoveMoment) throws -> Void = { _ in }
    /// The number of records or claims that one transaction copies.
    var page = 1000
}

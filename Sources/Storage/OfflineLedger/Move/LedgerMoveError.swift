public import Ledger
import PostgreSQLLedger
import SQLiteLedger

/// The reason why a ledger's file was not moved, with the steps already begun and the remedy.
public enum LedgerMoveError: Error, Sendable, Equatable, CustomStringConvertible {
    /// There is no file at this path.
    case noFile(path: String)
    /// The file is in use, not private, not a ledger, or cannot be opened.
    case file(LedgerOpeningError)
    /// The file belongs to another account than the caller's; the daemon's account must run the move.
    case anotherAccount(path: String)
    /// An older program wrote the file; this version's daemon upgrades it when it starts.
    case olderFile(path: String, found: Int, known: Int)
    /// A renewal of a certificate is open in the file.
    case openRenewal(path: String, merchant: String)
    /// The file is a backup or was restored from one, and the restore is not accepted.
    case restored(path: String)
    /// The node's chain in the file is incomplete or damaged.
    case brokenChain(path: String, fault: String)
    /// The database is unreachable, not a ledger, has another schema, or belongs to another role.
    case database(LedgerOpeningError)
    /// A daemon with this node's name uses the database.
    case nodeInUse(node: String, server: String)
    /// The database has records or audit keys of a node with this name, and they are not from this file.
    case nodeKnown(node: String, server: String)
    /// The file was moved, or is being moved, to another ledger.
    case elsewhere(path: String, server: String)
    /// Both sides have the same key for different merchants, algorithms or uses.
    case key(hash: String, KeyRecordConflict)
    /// The database has accepted the file, so the move cannot be cancelled.
    case accepted(path: String, server: String)
    /// Another program is moving a file of this node, or has cancelled the move.
    case overtaken(node: String)
    /// The move was interrupted. Completed steps remain, and file and database do not both serve.
    case brokenOff(reason: String)

    public var description: String {
        switch self {
        case .noFile(let path): "There is no file \(path)."
        case .file(let error): error.description
        case .anotherAccount(let path):
            "\(path) belongs to another account than the one that runs this command. Run the command as the daemon's account, "
                + "for example with sudo -u paytokend."
        case .olderFile(let path, let found, let known):
            "The ledger \(path) has schema \(found), and only schema \(known) is moved. Start this version's daemon on it once "
                + "to upgrade it, stop the daemon, and repeat the move."
        case .openRenewal(let path, let merchant):
            "The ledger \(path) has an open renewal of \(merchant), which is not moved. Start the daemon, finish the renewal or "
                + "abandon it (rotate renew --abandon), stop the daemon, and repeat the move."
        case .restored(let path):
            "The ledger \(path) is a backup or was restored from one, and lacks later releases. Put a backup in the "
                + "ledger's place, start the daemon on it with --await-restore, accept it, stop the daemon, and then move it."
        case .brokenChain(let path, let fault):
            "The record in \(path) is incomplete or damaged, so nothing was moved. \(fault)"
        case .database(let error): error.description
        case .nodeInUse(let node, let server):
            "A daemon is node \(node) of the ledger on \(server). Stop it; each host needs its own node name."
        case .nodeKnown(let node, let server):
            "The ledger on \(server) already has records or audit keys of a node \(node) that are not from this move. Two chains "
                + "cannot be merged, so nothing was moved."
        case .elsewhere(let path, let server):
            "The ledger \(path) is being moved to \(server), or was moved there. The named database is another ledger or an earlier "
                + "copy of that one. Name the right one."
        case .key(let hash, let conflict):
            "The key \(hash) is in both ledgers, and its records cannot be merged. \(conflict)"
        case .accepted(let path, let server):
            "\(server) has accepted \(path), so the move cannot be cancelled. Repeat the move to complete it."
        case .overtaken(let node):
            "Another program is moving a file of node \(node), or has cancelled its move. Find out who runs it before you repeat."
        case .brokenOff(let reason):
            "The move was interrupted: \(reason) Nothing is lost, and file and database do not both serve. Repeat the command to continue."
        }
    }
}

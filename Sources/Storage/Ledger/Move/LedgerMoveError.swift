/// Why a ledger's file was not moved. Each says whether something was begun and what to do.
public enum LedgerMoveError: Error, Sendable, Equatable, CustomStringConvertible {
    /// There is no such file, or it is none.
    case noFile(path: String)
    /// The file is in use, not private, not a ledger, or cannot be opened.
    case file(LedgerOpeningError)
    /// The file belongs to another account, which the daemon runs as.
    case anotherAccount(path: String)
    /// The file was written by an older program; the present one upgrades it at a daemon's start.
    case olderFile(path: String, found: Int, known: Int)
    /// The file is a backup, or was restored from one, and nobody has accepted that.
    case restored(path: String)
    /// The node's chain in the file is not whole.
    case brokenChain(path: String, fault: String)
    /// The database cannot be reached, is no ledger, has another schema, or belongs to another role.
    case database(LedgerOpeningError)
    /// A daemon of this name works with the database.
    case nodeInUse(node: String, server: String)
    /// The database has records or audit keys of a node of this name, which are not from this file.
    case nodeKnown(node: String, server: String)
    /// The file was moved, or is on its way, to another ledger.
    case elsewhere(path: String, server: String)
    /// The two have one key for different merchants or with different algorithms.
    case key(hash: String, KeyRecordConflict)
    /// The database has accepted the file: it cannot be taken back.
    case accepted(path: String, server: String)
    /// Somebody else moves a file of this node, or takes it back.
    case overtaken(node: String)
    /// It broke off; what is done stays, and nothing serves twice.
    case brokenOff(reason: String)

    public var description: String {
        switch self {
        case .noFile(let path): "There is no file \(path)."
        case .file(let error): error.description
        case .anotherAccount(let path):
            "\(path) belongs to another account than the one that runs this command. Run it as the daemon's, as in sudo -u "
                + "paytokend."
        case .olderFile(let path, let found, let known):
            "The ledger \(path) has schema \(found), and only schema \(known) is moved. Start this version's daemon on it once, "
                + "and stop it again."
        case .restored(let path):
            "The ledger \(path) is a backup, or was restored from one, and has forgotten what was released since. Put a backup in the "
                + "ledger's place, start the daemon on it with --await-restore, accept it, stop the daemon, and move it then."
        case .brokenChain(let path, let fault):
            "The record in \(path) is not whole, so nothing was moved. \(fault)"
        case .database(let error): error.description
        case .nodeInUse(let node, let server):
            "A daemon is node \(node) of the ledger on \(server). Stop it; each host needs a name of its own."
        case .nodeKnown(let node, let server):
            "The ledger on \(server) has records or audit keys of a node \(node) already that are not of this move, and two chains "
                + "cannot become one. Nothing was moved."
        case .elsewhere(let path, let server):
            "The ledger \(path) is on its way to \(server), or was moved there, and the one that was named is another ledger, or a copy from "
                + "before. Name that one."
        case .key(let hash, let conflict):
            "The key \(hash) is in both ledgers, and they cannot become one. \(conflict)"
        case .accepted(let path, let server):
            "\(server) has taken over \(path), so it cannot be taken back. Repeat the move, which completes it."
        case .overtaken(let node):
            "Another program moves a file of the node \(node), or has taken it back. Look who does it."
        case .brokenOff(let reason):
            "The move broke off: \(reason) Nothing is lost and nothing serves twice. Repeat the command: it goes on where it was."
        }
    }
}

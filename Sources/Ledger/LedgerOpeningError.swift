/// Why a ledger is not taken into service. Each says what was wrong, with what, and what to do.
public enum LedgerOpeningError: Error, Sendable, Equatable, CustomStringConvertible {
    case noDirectory(path: String)
    /// The directory's or the file's owner, mode or type lets others change or read the ledger.
    case notPrivate(path: String, why: String)
    /// Another process has it.
    case inUse(path: String)
    /// It was written by a newer program.
    case newerSchema(path: String, found: Int, known: Int)
    /// A database, but not one of ours; or no database at all.
    case notALedger(path: String)
    case anotherNode(path: String, recorded: String, configured: String)
    /// 1 to 64 letters, digits, dots, hyphens and underscores.
    case nodeName(String)
    /// The engine does not promise durability here.
    case notDurable(path: String, why: String)
    case cannotOpen(path: String, reason: String)
    /// A full disk, a read-only one, an I/O error, a lock: it may open later with the same configuration.
    case notNow(path: String, reason: String)

    public var description: String {
        switch self {
        case .noDirectory(let path):
            "The ledger's directory \(path) does not exist. Make it for the daemon's account: "
                + "install -d -m 0700 -o paytokend \(path)"
        case .notPrivate(let path, let why):
            "The ledger would not be private: \(path) \(why)."
        case .inUse(let path):
            "Another process uses the ledger \(path). One daemon has one ledger; stop the other, or give this one a "
                + "ledger of its own."
        case .newerSchema(let path, let found, let known):
            "The ledger \(path) has schema \(found), which a newer paytokend wrote; this one knows schemas up to "
                + "\(known). Run the newer program, or take back a copy from before the upgrade."
        case .notALedger(let path):
            "\(path) is not a ledger of paytokend. Name another file in ledger.url."
        case .anotherNode(let path, let recorded, let configured):
            "The ledger \(path) belongs to node \(recorded), and the configuration calls this node \(configured). "
                + "Set ledger.node to \(recorded) or leave it out."
        case .nodeName(let name):
            "ledger.node has \(name.utf8.count) bytes or characters that are not taken: use 1 to 64 letters, digits, "
                + "dots, hyphens and underscores."
        case .notDurable(let path, let why):
            "The ledger \(path) would not survive a loss of power: \(why). Put it on a local file system."
        case .cannotOpen(let path, let reason):
            "The ledger \(path) cannot be opened: \(reason)"
        case .notNow(let path, let reason):
            "The ledger \(path) cannot be opened now: \(reason) Look at the room on its disk, then start again."
        }
    }
}

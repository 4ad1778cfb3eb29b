public import AuditChain
import DatabaseKit
import Encodings
import GRDB
public import MerchantKeys
import PostgreSQLClient
import SQLiteFiles

/// Why the ledger did not do what it was asked.
public enum LedgerFailure: Error, Sendable, Equatable, CustomStringConvertible {
    /// It cannot be written or read now: a full disk, a read-only one, a lock, an I/O error. It may work again at
    /// the next call, without a restart. The reason is for the log; it carries no value of any row.
    case unavailable(reason: String)
    /// It did not answer within `ledger.timeout`: a disk that hangs, a file that another program keeps locked.
    ///
    /// - Parameter mayStand: whether what was asked for may have been written, or be written yet. Otherwise it was not
    ///   begun, and never will be.
    case timedOut(after: Duration, mayStand: Bool)
    /// More waits for the writer than may wait. Nothing was written.
    case overloaded
    /// The change of a key's record is not permitted.
    case conflict(KeyRecordConflict)
    /// The approval does not serve for the change.
    case approval(ApprovalConflict)
    /// The checkpoint names a record that this ledger does not hold.
    case foreignCheckpoint
    /// The audit key was never planned, has another public key already, or its identifier or its public key is none.
    case auditKeyConflict
    /// The archive is not the next one of this record.
    case archive(ArchiveConflict)
    /// Something else was forgotten than the change of the clock was planned for.
    case timesConflict
    /// Other nodes have found the ledger behind than those that the acceptance of a restored ledger was for.
    case holdsConflict
    /// A signing-time window of these nodes is off, or they have not told it: nothing bounds what a restored ledger forgot.
    case windowOff(nodes: [String])

    public var description: String {
        switch self {
        case .unavailable(let reason): "The ledger is unavailable: \(reason)"
        case .timedOut(let timeout, _):
            "The ledger has not answered within \(timeout) (ledger.timeout). Look at its disk and at other programs that "
                + "use its file, or at its server and its synchronous standby."
        case .overloaded: "More requests wait for the ledger than may wait. Repeat with the same reference."
        case .conflict(let conflict): conflict.description
        case .approval(let conflict): conflict.description
        case .foreignCheckpoint: "The checkpoint names a record that this ledger does not hold; it was not stored."
        case .auditKeyConflict: "The audit key is not the one that this ledger has planned; it was not recorded."
        case .archive(let conflict): conflict.description
        case .timesConflict: "Claims were pruned between the look at the clock and its acceptance; ask again."
        case .holdsConflict: "What the nodes have found changed between the look at it and its acceptance; ask again."
        case .windowOff(let nodes):
            "A signing_time_window is off, or was never told, on \(nodes.joined(separator: ", ")): nothing bounds when the "
                + "payment tokens were signed whose claims are lost. Set it there, at least until the ledger is accepted."
        }
    }
}

extension LedgerFailure: StoreFailure {
    /// Only SQLite's code and its fixed sentence: a statement's values stay out of logs.
    package init(_ error: any Error) {
        switch error {
        case let error as LedgerFailure: self = error
        case let error as KeyRecordConflict: self = .conflict(error)
        case let error as ApprovalConflict: self = .approval(error)
        case let error as DatabaseError:
            self = .unavailable(reason: "SQLite says \(error.extendedResultCode).")
        case let error as DatabaseFileReplaced: self = .unavailable(reason: error.description)
        case is TransactionLeftOpen:
            self = .unavailable(reason: "A transaction that failed cannot be rolled back.")
        case let error as PostgreSQLFailure: self = error.failure
        case let error as UnreadableColumn:
            self = .unavailable(
                reason:
                    "Column \(error.column + 1) of a row is not what this version knows: another program changed the ledger."
            )
        default: self = .unavailable(reason: "\(type(of: error)).")
        }
    }
}

/// Why a key's record was not changed.
public enum KeyRecordConflict: Error, Sendable, Equatable, CustomStringConvertible {
    /// The key is recorded for another merchant; that never changes.
    case anotherMerchant
    /// The key is recorded with another algorithm, which no key can change.
    case anotherAlgorithm
    /// The key is recorded for the other use; that never changes.
    case anotherUse
    /// The merchant has as many active identity keys as Apple lets be active.
    case tooManyIdentities
    case transition(from: KeyState, to: KeyState)
    /// Somebody else changed the key's state after this change was decided and before it was made.
    case changedMeanwhile

    public var description: String {
        switch self {
        case .anotherMerchant:
            "The ledger records this key for another merchant, and a key's merchant never changes. "
                + "Use a new key for this merchant."
        case .anotherAlgorithm:
            "The ledger records this key with another algorithm."
        case .anotherUse:
            "The ledger records this key for another use: a key decrypts payments or signs for sessions, one of them for ever."
        case .tooManyIdentities:
            "The merchant has \(KeyRecord.mostActiveIdentities) active identity keys, which is the most; retire one first."
        case .changedMeanwhile:
            "Somebody else changed the key's state meanwhile; read it and decide again."
        case .transition(let from, let to):
            "A key that is \(from.rawValue) cannot become \(to.rawValue)."
        }
    }
}

extension KeyRecord {
    /// As many Merchant Identity certificates may be active at Apple at a time for one merchant.
    public static let mostActiveIdentities = 3

    /// What the ledger keeps when `self` is recorded over `known`.
    func replacing(_ known: KeyRecord?) throws(KeyRecordConflict) -> KeyRecord {
        guard let known else { return self }
        guard known.merchantIdentifier == merchantIdentifier else { throw .anotherMerchant }
        guard known.algorithm == algorithm else { throw .anotherAlgorithm }
        guard known.use == use else { throw .anotherUse }
        guard known.state == state || known.state.canBecome(state) else {
            throw .transition(from: known.state, to: state)
        }
        var next = known
        (next.state, next.cutOff) = (state, cutOff)
        return next
    }
}

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
    /// The database server cannot be reached or takes no sessions or no writes now.
    case unreachable(server: String, reason: String)
    /// Another daemon has this node's name, and renews its hold on it.
    case nodeInUse(node: String, server: String)
    /// There is a database, but no schema of ours in it.
    case noSchema(server: String)
    /// The daemon's role cannot do all that it has to.
    case missingRights(server: String, missing: String)
    /// An older program made the schema, and the daemon's role cannot change it.
    case olderSchema(server: String, found: Int, known: Int)
    /// The schema is about to be upgraded, and daemons of these nodes still write to the older one.
    case nodesServe(server: String, nodes: [String])
    /// A restore from a copy broke off halfway; the former ledger is at `aside`.
    case restoreBrokenOff(path: String, aside: String)
    /// The file's content is on its way into a database, and the file does not know whether it has been taken over there.
    case moving(path: String, server: String)
    /// The file's content was moved into a database, and goes on there.
    case moved(path: String, server: String, node: String)

    public var description: String {
        switch self {
        case .noDirectory(let path):
            "The ledger's directory \(path) does not exist. Make it for the daemon's account: "
                + "install -d -m 0700 -o paytokend \(ShellWord.of(path))"
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
        case .unreachable(let server, let reason):
            "The ledger on \(server) cannot be opened now: \(reason) Look at the server."
        case .nodeInUse(let node, let server):
            "Another daemon is node \(node) of the ledger on \(server). Give each host a ledger.node of its own, or stop the "
                + "other daemon."
        case .noSchema(let server):
            "There is no ledger on \(server). Make it with an account that may create a schema there."
        case .missingRights(let server, let missing):
            "The daemon's role lacks rights in the ledger on \(server): \(missing). Grant them with its owner's account."
        case .olderSchema(let server, let found, let known):
            "The ledger on \(server) has schema \(found), and this program needs schema \(known). Nothing was changed. Upgrade "
                + "it with its owner's account, once the daemons of all hosts are stopped or wait for it as this one does."
        case .nodesServe(let server, let nodes):
            "The ledger on \(server) was not upgraded: daemons of \(nodes.joined(separator: ", ")) serve with its older schema, "
                + "and would release nothing more. Stop them, or start the newer program there, which waits for the upgrade. After "
                + "a crash a node counts as serving for the rest of its lease."
        case .restoreBrokenOff(let path, let aside):
            "A restore of the ledger \(path) broke off, and \(aside) is the former ledger. Repeat it. "
                + "Nothing is released before."
        case .moving(let path, let server):
            "The ledger \(path) is being moved to \(server), and only a look there tells whether it was taken over: repeat "
                + "the move, or take it back. It does not serve before."
        case .moved(let path, let server, let node):
            "The ledger \(path) was moved to \(server) and never serves again. Name that database in ledger.url, with "
                + "ledger.node: \(node)."
        }
    }
}

/// An operation of a ledger's owner on a ledger without a daemon.
public enum LedgerOperation: String, Sendable {
    case create
    case restore
    case move
}

extension LedgerOpeningError {
    /// The operation after which the ledger opens; nil where none helps.
    public var remedy: LedgerOperation? {
        switch self {
        case .noSchema, .missingRights, .olderSchema: .create
        case .restoreBrokenOff: .restore
        case .moving: .move
        default: nil
        }
    }
}

/// A copy of the ledger, as it stands on the disk.
public struct BackupFile: Sendable, Equatable {
    public let path: String
    /// The file's size in bytes.
    public let bytes: Int
    /// SHA-256 of the file.
    public let digest: AuditDigest
    /// The last record in the copy; 0 when there is none.
    public let sequence: Int
}

/// Why there is no copy. Nothing is left of the attempt.
public enum LedgerBackupError: Error, Sendable, Equatable, CustomStringConvertible {
    case exists(path: String)
    case notAbsolute(path: String)
    case cannotWrite(path: String, reason: String)
    /// The ledger itself cannot be read.
    case unavailable(reason: String)

    public var description: String {
        switch self {
        case .exists(let path): "\(path) exists, and a backup overwrites nothing. Name another file."
        case .notAbsolute(let path): "\(path) is not an absolute path, which the daemon needs."
        case .cannotWrite(let path, let reason): "The copy \(path) cannot be written: \(reason)"
        case .unavailable(let reason): "The ledger cannot be copied: \(reason)"
        }
    }
}

extension LedgerOpeningError {
    init(_ error: DatabaseFileError) {
        self =
            switch error {
            case .noDirectory(let path): .noDirectory(path: path)
            case .notPrivate(let path, let why): .notPrivate(path: path, why: why)
            case .inUse(let path): .inUse(path: path)
            case .notDurable(let path, let why): .notDurable(path: path, why: why)
            case .cannotOpen(let path, let reason): .cannotOpen(path: path, reason: reason)
            case .notNow(let path, let reason): .notNow(path: path, reason: reason)
            }
    }
}

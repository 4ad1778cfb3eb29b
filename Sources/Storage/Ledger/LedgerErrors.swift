public import AuditChain
package import DatabaseKit
import Encodings
import GRDB
public import KeyTypes
public import MerchantKeys
import PostgreSQLClient
package import SQLiteFiles

package typealias LedgerDeadlines = Deadlines<LedgerFailure>
package typealias LedgerCall<Answer: Sendable> = Call<Answer, LedgerFailure>

/// The reason why the ledger did not carry out a call.
public enum LedgerFailure: Error, Sendable, Equatable, CustomStringConvertible {
    /// The ledger cannot be written or read now, for example because of a full or read-only disk, a lock, or an I/O
    /// error. The next call may succeed without a restart. The reason is for the log and contains no value of any row.
    case unavailable(reason: String)
    /// The ledger did not respond within `ledger.timeout`, for example because a disk hangs or another program keeps
    /// the file locked.
    ///
    /// - Parameter mayBeWritten: true if the write may have been made or may still be made. If false, the write was not
    ///   made and never will be.
    case timedOut(after: Duration, mayBeWritten: Bool)
    /// Too many writes are queued for the writer. Nothing was written.
    case overloaded
    /// The change of a key's record is not permitted.
    case conflict(KeyRecordConflict)
    /// The approval is not valid for the change.
    case approval(ApprovalConflict)
    /// The step is not possible in the renewal's state, or another operator has taken it.
    case renewal(RenewalConflict)
    /// The audit checkpoint names a record that this ledger does not contain.
    case foreignCheckpoint
    /// The audit key was never planned, already has another public key, or its identifier or public key is malformed.
    case auditKeyConflict
    /// The archive cannot be recorded.
    case archive(ArchiveConflict)
    /// ``LedgerTimes/forgottenBefore`` differs from the value for which the acceptance of the clock was planned.
    case timesConflict
    /// The nodes' findings differ from those for which the acceptance of a restored ledger was planned.
    case holdsConflict
    /// A signing-time window of these nodes is off or not known yet. The ledger can then compute no fence, so it
    /// refuses the acceptance of a restore.
    case windowOff(nodes: [String])

    public var description: String {
        switch self {
        case .unavailable(let reason): "The ledger is unavailable: \(reason)"
        case .timedOut(let timeout, _):
            "The ledger did not respond within \(timeout) (ledger.timeout). Check its disk and other programs that use its file, "
                + "or its server and the synchronous standby."
        case .overloaded: "Too many requests are queued for the ledger. Repeat with the same reference."
        case .conflict(let conflict): conflict.description
        case .approval(let conflict): conflict.description
        case .renewal(let conflict): conflict.description
        case .foreignCheckpoint: "The checkpoint was not stored: it names a record that this ledger does not contain."
        case .auditKeyConflict: "The audit key was not recorded: it is not the one that this ledger has planned."
        case .archive(let conflict): conflict.description
        case .timesConflict: "Claims were pruned between the clock's check and its acceptance. Try again."
        case .holdsConflict: "The nodes' findings changed between being read and being accepted. Try again."
        case .windowOff(let nodes):
            "A signing_time_window is off or not known yet on \(nodes.joined(separator: ", ")), so it is unknown which payment "
                + "tokens may lack a claim. Set it there, at least until the ledger is accepted."
        }
    }
}

extension LedgerFailure: StoreFailure {
    /// Converts an engine's error. Of SQLite's errors it keeps the code only; their messages could contain values of a
    /// statement, which would get into logs.
    package init(_ error: any Error) {
        switch error {
        case let error as LedgerFailure: self = error
        case let error as KeyRecordConflict: self = .conflict(error)
        case let error as ApprovalConflict: self = .approval(error)
        case let error as RenewalConflict: self = .renewal(error)
        case let error as DatabaseError:
            self = .unavailable(reason: "SQLite reports \(error.extendedResultCode).")
        case let error as DatabaseFileReplaced: self = .unavailable(reason: error.description)
        case is TransactionLeftOpen:
            self = .unavailable(reason: "A failed transaction cannot be rolled back.")
        case let error as PostgreSQLFailure: self = .unavailable(reason: error.reason)
        case let error as UnreadableColumn:
            self = .unavailable(
                reason:
                    "Column \(error.column + 1) of a row has an unknown value: another program changed the ledger."
            )
        default: self = .unavailable(reason: "\(type(of: error)).")
        }
    }
}

/// The reason why a key's record was not changed.
public enum KeyRecordConflict: Error, Sendable, Equatable, CustomStringConvertible {
    /// The key is recorded for a different merchant. A key's merchant never changes.
    case anotherMerchant
    /// The key is recorded with a different algorithm. A key's algorithm never changes.
    case anotherAlgorithm
    /// The key is recorded for another use. A key's use never changes.
    case anotherUse
    /// The merchant already has the maximum number of active keys of this use (``KeyTypes/KeyUse/maximumActive``).
    case tooManyActive(KeyUse)
    case transition(from: KeyState, to: KeyState)
    /// The key's state was changed after the caller had read it and before this change was made.
    case changedMeanwhile

    public var description: String {
        switch self {
        case .anotherMerchant:
            "The ledger records this key for another merchant, and a key's merchant never changes. "
                + "Use a new key for this merchant."
        case .anotherAlgorithm:
            "The ledger records this key with another algorithm, and a key's algorithm never changes. Use a new key."
        case .anotherUse:
            "The ledger records this key for another use, which never changes: a key decrypts payments, or signs for "
                + "sessions, or signs for Apple's API. Use a new key."
        case .tooManyActive(.service):
            "Another service key is active under this key id, which names one key at Apple; retire that one first."
        case .tooManyActive(.googlePay):
            "The merchant has \(KeyUse.googlePay.maximumActive ?? 0) Google Pay keys that are active or before their cut-off, "
                + "and no more are tried with a message; retire one, and wait for its cut-off."
        case .tooManyActive(let use):
            "The merchant has \(use.maximumActive ?? 0) active \(use.name) keys, Apple's maximum; retire one first."
        case .changedMeanwhile:
            "Another change to the key's state came first; read the state and decide again."
        case .transition(let from, let to):
            "A key that is \(from.rawValue) cannot become \(to.rawValue)."
        }
    }
}

extension KeyUse {
    /// The maximum number of active keys of this use under one merchant identifier; nil for no maximum. Apple permits
    /// three active Merchant Identity certificates, and a key id of its API names one key. A Google Pay message is tried
    /// with every active key, and with retired ones until their cut-off, so these count too.
    public var maximumActive: Int? {
        switch self {
        case .processing: nil
        case .identity: 3
        case .service: 1
        case .googlePay: GooglePayKeys.maximumTried
        }
    }
}

extension KeyRecord {
    /// Returns the record to store if `self` is the new record and `known` is the stored one.
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

/// The reason why a ledger was not opened. The description names the fault, the affected file or server, and the
/// remedy.
public enum LedgerOpeningError: Error, Sendable, Equatable, CustomStringConvertible {
    case noDirectory(path: String)
    /// The owner, mode or type of the directory or file lets other accounts change or read the ledger.
    case notPrivate(path: String, why: String)
    /// Another process uses the ledger.
    case inUse(path: String)
    /// A newer program wrote the ledger.
    case newerSchema(path: String, found: Int, known: Int)
    /// The file is another program's database, or not a database.
    case notALedger(path: String)
    case anotherNode(path: String, recorded: String, configured: String)
    /// The node's name is not 1 to 64 letters, digits, dots, hyphens and underscores.
    case nodeName(String)
    /// The engine cannot guarantee durability with this file, for the reason `why`.
    case notDurable(path: String, why: String)
    case cannotOpen(path: String, reason: String)
    /// The ledger cannot be opened because of a full or read-only disk, an I/O error or a lock. It may open later with
    /// the same configuration.
    case notNow(path: String, reason: String)
    /// The database server is unreachable, or accepts no sessions or no writes now.
    case unreachable(server: String, reason: String)
    /// Another daemon uses this node's name and keeps renewing its lease.
    case nodeInUse(node: String, server: String)
    /// The database does not contain this program's schema.
    case noSchema(server: String)
    /// The daemon's role lacks a right that it needs.
    case missingRights(server: String, missing: String)
    /// An older program made the schema, and the daemon's role cannot upgrade it.
    case olderSchema(server: String, found: Int, known: Int)
    /// The schema needs an upgrade, but daemons of these nodes still use the older schema.
    case nodesServe(server: String, nodes: [String])
    /// A restore from a copy was interrupted; the previous ledger is at the path `aside`.
    case restoreBrokenOff(path: String, aside: String)
    /// The file's content is being moved into a database, and the file does not show whether the database has accepted
    /// it.
    case moveUnfinished(path: String, server: String)
    /// The file's content was moved into a database, where the node continues.
    case moved(path: String, server: String, node: String)

    public var description: String {
        switch self {
        case .noDirectory(let path):
            "The ledger's directory \(path) does not exist. Create it for the daemon's account: "
                + "install -d -m 0700 -o paytokend \(ShellWord.of(path))"
        case .notPrivate(let path, let why):
            "The ledger would not be private: \(path) \(why)."
        case .inUse(let path):
            "Another process uses the ledger \(path). Each daemon needs its own ledger: stop the other process, or give this "
                + "daemon another ledger."
        case .newerSchema(let path, let found, let known):
            "The ledger \(path) has schema \(found), written by a newer paytokend; this one supports schemas up to "
                + "\(known). Run the newer program, or restore a copy from before the upgrade."
        case .notALedger(let path):
            "\(path) is not a ledger of paytokend. Name another file in ledger.url."
        case .anotherNode(let path, let recorded, let configured):
            "The ledger \(path) belongs to node \(recorded), and the configuration calls this node \(configured). "
                + "Set ledger.node to \(recorded) or leave it out."
        case .nodeName(let name):
            "ledger.node is too long or has invalid characters (\(name.utf8.count) bytes): use 1 to 64 letters, digits, "
                + "dots, hyphens and underscores."
        case .notDurable(let path, let why):
            "The ledger \(path) would not survive a loss of power: \(why). Put it on a local file system."
        case .cannotOpen(let path, let reason):
            "The ledger \(path) cannot be opened: \(reason)"
        case .notNow(let path, let reason):
            "The ledger \(path) cannot be opened now: \(reason) Check the free space on its disk, then start again."
        case .unreachable(let server, let reason):
            "The ledger on \(server) cannot be opened now: \(reason) Check the server."
        case .nodeInUse(let node, let server):
            "Another daemon is node \(node) of the ledger on \(server). Give each host its own ledger.node, or stop the "
                + "other daemon."
        case .noSchema(let server):
            "There is no ledger on \(server). Create it with an account that may create a schema there."
        case .missingRights(let server, let missing):
            "The daemon's role lacks rights in the ledger on \(server): \(missing). Grant them with its owner's account."
        case .olderSchema(let server, let found, let known):
            "The ledger on \(server) has schema \(found), and this program needs schema \(known). Nothing was changed. Upgrade "
                + "it with its owner's account once the daemons of all hosts are stopped or, like this one, wait for the upgrade."
        case .nodesServe(let server, let nodes):
            "The ledger on \(server) was not upgraded: daemons of \(nodes.joined(separator: ", ")) serve with its older schema, "
                + "and would release nothing after an upgrade. Stop them, or start the newer program there, which waits for the "
                + "upgrade. After a crash a node counts as serving until its lease ends."
        case .restoreBrokenOff(let path, let aside):
            "A restore of the ledger \(path) was interrupted, and the former ledger is at \(aside). Repeat the restore; "
                + "nothing is released before that."
        case .moveUnfinished(let path, let server):
            "The ledger \(path) is being moved to \(server), and only that database shows whether the move was accepted. Repeat "
                + "the move, or cancel it (--give-up); the ledger does not serve before that."
        case .moved(let path, let server, let node):
            "The ledger \(path) was moved to \(server) and never serves again. Name that database in ledger.url, with "
                + "ledger.node: \(node)."
        }
    }
}

/// A command for an operator, to be run while no daemon uses the ledger.
public enum LedgerOperation: String, Sendable {
    case create
    case restore
    case move
}

extension LedgerOpeningError {
    /// The operation that makes the ledger usable after this error; nil if no operation does.
    public var remedy: LedgerOperation? {
        switch self {
        case .noSchema, .missingRights, .olderSchema: .create
        case .restoreBrokenOff: .restore
        case .moveUnfinished: .move
        default: nil
        }
    }
}

/// A copy of the ledger on disk.
public struct BackupFile: Sendable, Equatable {
    public let path: String
    /// The file's size in bytes.
    public let bytes: Int
    /// SHA-256 of the file.
    public let digest: AuditDigest
    /// The sequence of the last record in the copy; 0 if there is none.
    public let sequence: Int

    package init(path: String, bytes: Int, digest: AuditDigest, sequence: Int) {
        (self.path, self.bytes, self.digest, self.sequence) = (path, bytes, digest, sequence)
    }
}

/// The reason why a backup failed. A failed backup leaves no file.
public enum LedgerBackupError: Error, Sendable, Equatable, CustomStringConvertible {
    case exists(path: String)
    case notAbsolute(path: String)
    case cannotWrite(path: String, reason: String)
    /// The ledger cannot be read, or the caller no longer waits for the copy.
    case unavailable(reason: String)

    public var description: String {
        switch self {
        case .exists(let path): "\(path) exists, and a backup overwrites nothing. Name another file."
        case .notAbsolute(let path): "\(path) is not an absolute path. Name an absolute one."
        case .cannotWrite(let path, let reason): "The copy \(path) cannot be written: \(reason)"
        case .unavailable(let reason): "The ledger cannot be copied: \(reason)"
        }
    }
}

extension LedgerOpeningError {
    package init(_ error: DatabaseFileError) {
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

public import AuditChain

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

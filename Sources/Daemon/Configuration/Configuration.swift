import Logging
import PaymentToken

/// Everything the configuration file says, typed, defaulted and checked; names are resolved, paths absolute.
struct Configuration: Sendable {
    /// The absolute path it was read from.
    var file: String
    var listener: ListenerSettings
    /// Exactly one for now.
    var tokens: [TokenSettings]
    var trust: TrustSettings
    /// `verification.signing_time_window`, for callers whose rule sets none.
    var signingTimeWindow: SigningTimeWindow
    var ledger: LedgerSettings
    var approvals: ApprovalSettings
    var access: AccessPolicy
    var log: LogSettings
    /// What is allowed but weakens the service; logged at start and shown as `paytokend_insecure_settings`.
    var warnings: [ConfigurationWarning]
}

/// A permitted setting that weakens the service.
struct ConfigurationWarning: Sendable, Equatable {
    /// The label of `paytokend_insecure_settings{setting}`.
    enum Setting: String, CaseIterable, Sendable {
        case signingTimeWindowOff = "signing_time_window_off"
        case foreignRoots = "foreign_roots"
        case onePerson = "one_person"
    }

    let setting: Setting
    /// The key that sets it, with its line: `/etc/paytokend.yaml:31: approvals.people`.
    let place: String
    let message: String
}

/// `listener`: the two sockets and their limits.
struct ListenerSettings: Sendable, Equatable {
    /// Absolute paths.
    var socket: String
    var adminSocket: String
    /// Permission bits of the socket files.
    var mode: UInt32
    var adminMode: UInt32
    /// The payments socket's group; nil leaves the daemon's own.
    var group: AccessRule.Account?
    var maxRequestBytes: Int
    /// Per socket kind; kept below the descriptor limit.
    var maxConnections: Int
    var maxConnectionsPerUID: Int
    /// Between requests.
    var idleTimeout: Duration
}

/// `trust`: whose signatures count.
struct TrustSettings: Sendable, Equatable {
    /// Absolute paths of PEM or DER files; empty means the built-in Apple Root CA - G3.
    var roots: [String]
    /// SHA-256 fingerprints, 32 bytes each.
    var distrusted: Set<[UInt8]>
}

/// `ledger`.
struct LedgerSettings: Sendable, Equatable {
    /// Absolute path of the SQLite file.
    var path: String
    /// nil means the host name at first start, kept by the ledger from then on.
    var node: String?
    var retainClaims: Duration
    var repeatFor: Duration
}

/// `approvals`.
struct ApprovalSettings: Sendable, Equatable {
    /// How many persons an operation of consequence needs: 1 or more.
    var people: Int
    var expire: Duration
}

/// `log`.
struct LogSettings: Sendable, Equatable {
    enum Format: String, CaseIterable, Sendable { case json, text }
    var level: Logger.Level
    var format: Format
}

extension Configuration {
    static func load(path: String) throws(ConfigurationProblems) -> Configuration {
        throw ConfigurationProblems(problems: [])
    }
}

import AuditChain
import ConfigurationFile
import DatabaseSettings
import Encodings
import Foundation
import Ledger
import PaymentToken
package import PostgreSQLClient
import PostgreSQLLedger
import SQLiteLedger

/// The section `ledger`: the storage of the claims, the key states and the record.
package struct LedgerSettings: Sendable, Equatable {
    /// The kind of storage, which the scheme of `ledger.url` determines.
    package enum Place: Sendable, Equatable {
        /// An SQLite file on this host, by its absolute path.
        case sqlite(path: String)
        /// A PostgreSQL database, which several hosts may share.
        case postgresql(DatabasePlace)
    }

    package struct DatabasePlace: Sendable, Equatable {
        package var url: PostgreSQLURL
        /// The absolute path of the file with the database role's password. Nil means that no password is needed (peer
        /// authentication, a certificate), or that libpq finds one itself (a service file, ~/.pgpass).
        package var passwordFile: String?
        /// True if the daemon must not be ready while the server has no synchronous standby.
        package var requiresStandby: Bool
    }

    /// The settings for archiving old records.
    package struct Archive: Sendable, Equatable {
        /// The age from which records are moved out of the ledger, at least ``shortest``.
        package var retain: Duration
        /// The absolute path of the directory for the archive files.
        package var directory: String

        /// The minimum of ``retain``: 397 days, the longest duration of thirteen consecutive months.
        static let shortest = DurationText.days(397)
    }

    package var place: Place
    /// The node's name. If nil, a new ledger takes the host name, and an existing ledger keeps the name that it
    /// contains. Only an SQLite ledger permits nil.
    package var node: String?
    package var retainClaims: Duration
    /// The settings for archiving old records; nil if records stay in the ledger for ever.
    package var archive: Archive?
    /// The time for which a released payment token may be released again to the same caller; zero if repeats are not
    /// permitted.
    package var repeatFor: Duration
    /// The maximum time that a request waits for the ledger.
    package var timeout: Duration
}

extension LedgerSettings {
    static let keys = [
        "url", "password_file", "require_standby", "node", "retain_claims", "retain_records", "archive_directory",
        "repeat_for", "timeout",
    ]

    /// Parses the section. Returns nil after reporting a problem with the URL or its options.
    init?(_ section: ConfigurationSection) {
        let node = section.node("node") == nil ? nil : section.text("node")
        if let node, AuditNode(node) == nil {
            section.problem("node", "must be 1 to 64 letters, digits, dots, hyphens and underscores")
        }
        if node == "all" {
            section.problem(
                "node", "is reserved: in queries, all means every node; choose another name")
        }
        let retainClaims = section.duration(
            "retain_claims", in: .seconds(60)...DurationText.days(3650), default: DurationText.days(180))
        let repeatFor =
            section.durationOrOff("repeat_for", in: .zero...DurationText.days(30), default: .seconds(86_400)) ?? .zero
        let timeout = section.duration(
            "timeout", in: .milliseconds(100)...Duration.seconds(60), default: .seconds(10))
        if repeatFor > retainClaims {
            section.problem("repeat_for", "is longer than retain_claims; a repeat needs its claim")
        }
        let url = section.node("url") == nil ? "sqlite:/var/lib/paytokend/ledger.sqlite" : section.text("url")
        guard let url, let place = Place(url, section) else { return nil }
        self.init(
            place: place, node: node, retainClaims: retainClaims, archive: nil, repeatFor: repeatFor, timeout: timeout)
        let retainRecords = section.durationOrOff(
            "retain_records", in: Archive.shortest...DurationText.days(36_500), default: nil)
        if let retainRecords {
            archive = Archive(
                retain: retainRecords,
                directory: section.path(
                    "archive_directory", default: stateDirectory(section.reader.environment) + "/archives"))
        } else if section.node("archive_directory") != nil {
            section.problem(
                "archive_directory",
                "applies only with retain_records, which is off; set retain_records or remove this key")
        }
    }

    /// The path of the SQLite file; nil for a PostgreSQL ledger.
    package var path: String? {
        if case .sqlite(let path) = place { path } else { nil }
    }

    /// True if other hosts may write the same ledger.
    package var isShared: Bool { path == nil }

    /// Returns true if the value of `url` in the section begins like a PostgreSQL URL, even if the rest of the URL is
    /// invalid.
    static func namesServer(_ section: ConfigurationSection) -> Bool {
        section.node("url")?.scalar.map { Place.isPostgreSQL($0.string) } ?? false
    }

    /// Returns the directory for the small files that the daemon keeps on this host. Only the daemon's user has access
    /// to the directory. For an SQLite ledger it is the directory of the file. For a PostgreSQL ledger it is the unit's
    /// StateDirectory= (systemd.exec(5)), or `/var/lib/paytokend` if the unit sets none.
    ///
    /// - Parameter environment: the process's environment.
    func stateDirectory(_ environment: [String: String]) -> String {
        if let path { return URL(filePath: path).deletingLastPathComponent().path }
        let named = environment["STATE_DIRECTORY"]?.split(separator: ":").first.map(String.init)
        return named.flatMap { $0.hasPrefix("/") ? $0 : nil } ?? "/var/lib/paytokend"
    }

    /// Checks that claims are kept for as long as their payment tokens can be accepted. Otherwise a transaction could be
    /// released again after its claim was pruned.
    func checkRetention(
        against windows: [SigningTimeWindow], googlePay: GooglePaySettings?, _ root: ConfigurationSection
    ) {
        if let googlePay, retainClaims < googlePay.messageLifetime * 2 {
            root.section("ledger", keys: Self.keys).problem(
                "retain_claims",
                "must be at least twice google_pay.message_lifetime, else a message could be released again")
        }
        if let googlePay, retainClaims < googlePay.quiet {
            root.section("ledger", keys: Self.keys).problem(
                "retain_claims", "must be at least google_pay.quiet, since claims show if an old key is in use")
        }
        let longest = windows.compactMap { window -> Duration? in
            if case .within(let duration) = window { duration } else { nil }
        }.max()
        // The window extends to both sides of the clock, so a payment token can be accepted for twice the window.
        guard let longest, retainClaims < longest * 2 else { return }
        root.section("ledger", keys: Self.keys).problem(
            "retain_claims",
            "must be at least twice the longest signing_time_window, else a transaction could be released again")
    }
}

extension LedgerSettings.Place {
    /// Parses the URL, and checks what can be checked without connecting to the server.
    fileprivate init?(_ url: String, _ section: ConfigurationSection) {
        guard let place = Self.isPostgreSQL(url) ? Self.postgresql(url, section) : Self.sqlite(url, section) else {
            return nil
        }
        self = place
    }

    fileprivate static func isPostgreSQL(_ url: String) -> Bool {
        ServerDatabase.isNamed(by: url)
    }

    private static func sqlite(_ url: String, _ section: ConfigurationSection) -> Self? {
        for name in ["password_file", "require_standby"] where section.node(name) != nil {
            section.problem(
                name, "applies only to a ledger in PostgreSQL, but ledger.url names a file; remove this key")
        }
        // sqlite:///path has an empty host, and means the same as sqlite:/path.
        let path = url.hasPrefix("sqlite:///") ? url.dropFirst(9) : url.dropFirst(7)
        guard url.hasPrefix("sqlite:"), !path.isEmpty, !path.hasPrefix("//"), !path.hasSuffix("/") else {
            section.problem(
                "url",
                "must be sqlite: and a path, as in sqlite:/var/lib/paytokend/ledger.sqlite, or a connection URI that "
                    + "begins with postgresql://")
            return nil
        }
        let absolute = section.reader.absolute(String(path))
        section.examine("url", at: absolute) { () throws(LedgerOpeningError) in
            try SQLiteLedger.examine(path: absolute)
        }
        return .sqlite(path: absolute)
    }

    private static func postgresql(_ text: String, _ section: ConfigurationSection) -> Self? {
        if section.node("node") == nil {
            section.problem(
                "node", "is missing; hosts that share a ledger in PostgreSQL each need a name, as in backend-1")
        }
        let requiresStandby = section.boolean("require_standby", default: false)
        guard let database = ServerDatabase(text, section, use: "log in to the ledger as the daemon") else {
            return nil
        }
        if database.url.insecureSettings.contains(.databaseTLS) {
            section.warning(.databaseTLS, "url", InsecureLedgerSetting.databaseTLS.description)
        }
        return .postgresql(
            LedgerSettings.DatabasePlace(
                url: database.url, passwordFile: database.passwordFile, requiresStandby: requiresStandby))
    }
}

package import AuditChain
package import ConfigurationFile
package import PaymentToken
import ServerProgram
package import Telemetry
package import WorkerSupervision

/// The values of the configuration file, checked and completed with defaults. Names are resolved, and paths are absolute.
///
/// The program reads the file at the start, for `--check` and at SIGHUP (`ServerProgram`). One run finds every problem and
/// reports its file, line and key. An unknown key is a problem. Reading has no effect on the daemon, so a file can be
/// checked while another configuration is in force.
///
/// Each section of the file has a Swift file: AccessSection, ApprovalSettings, GooglePaySettings, LedgerSettings, ListenerSettings,
/// HSMTokenSection, RenewalSettings, TrustSettings. They read their keys through ``ConfigurationSection``, which
/// reports to one ``ConfigurationReader``. ConfigurationValues.swift has the kinds of values. Start reading at
/// ``read(_:_:)``.
///
/// A new key needs a property of its section's struct, its name in `keys`, a value in RecordedConfiguration, and a line
/// in the sample configuration.
package struct Configuration: Sendable {
    /// The absolute path of the configuration file.
    var file: String
    /// The SHA-256 of the configuration file, by which the record identifies the configuration.
    package var fileDigest: AuditDigest
    package var listener: ListenerSettings
    /// The HSM tokens, 1 to 16 with unique names. In a new ledger, the first HSM token gets the audit key and seals the
    /// record. Afterwards the ledger names the HSM token that seals.
    package var hsmTokens: [HSMTokenSettings]
    package var trust: TrustSettings
    package var googlePay = GooglePaySettings()
    /// The value of `verification.signing_time_window`, for callers whose rule sets no window.
    package var signingTimeWindow: SigningTimeWindow
    package var ledger: LedgerSettings
    package var approvals: ApprovalSettings
    package var access: AccessPolicy
    /// The team's key for Apple's App Store Connect API; nil if the configuration names none.
    package var renewal: RenewalSettings?
    package var log: LogSettings
    /// The directory for the small files that the daemon keeps on this host.
    var stateDirectory: String
    /// The digests of the secrets; empty until they are read.
    var credentials = CredentialDigests()
    /// The permitted settings that weaken the service. They are logged at the start and shown in the metric
    /// `paytokend_insecure_settings`.
    package var warnings: [ConfigurationWarning]
}

extension Configuration: ServerConfiguration {
    package static let keys = [
        "listener", "tokens", "trust", "google_pay", "verification", "ledger", "approvals", "access", "renewal", "log",
    ]

    package static func read(_ root: ConfigurationSection, _ text: String) -> Configuration? {
        let reader = root.reader
        let listener = ListenerSettings(root.section("listener", keys: ListenerSettings.keys))
        var hsmTokens = HSMTokenSettings.all(root)
        let trust = TrustSettings(root.section("trust", keys: TrustSettings.keys))
        let googlePay = GooglePaySettings(root.section("google_pay", keys: GooglePaySettings.keys))
        let verification = root.section("verification", keys: ["signing_time_window"])
        let window = verification.signingTimeWindow("signing_time_window") ?? .within(.seconds(300))
        let ledgerSection = root.section("ledger", keys: LedgerSettings.keys)
        let ledger = LedgerSettings(ledgerSection)
        let problemsBefore = reader.problems.count
        let access = AccessPolicy(root, namesCallers: LedgerSettings.namesServer(ledgerSection))
        // If an access rule has a problem, a count of the persons with the role admin would be wrong, so none is made.
        let counted = reader.problems.count == problemsBefore ? access : nil
        let approvals = ApprovalSettings(root.section("approvals", keys: ApprovalSettings.keys), access: counted, root)
        let renewal = RenewalSettings(root)
        let log = LogSettings(root.section("log", keys: LogSettings.keys))
        ledger?.checkRetention(
            against: [window] + access.rules.compactMap(\.signingTimeWindow),
            googlePay: trust.googlePay == nil ? nil : googlePay, root)
        guard let ledger, !hsmTokens.isEmpty else { return nil }
        // The worker of each HSM token remembers refused PINs in a file. The names of these files cannot collide or
        // leave the directory, since the HSM tokens' names are unique and valid as file names. Only the daemon's user
        // can read the directory.
        let directory = ledger.stateDirectory(reader.environment)
        for index in hsmTokens.indices {
            hsmTokens[index].portalKey = renewal?.key
            hsmTokens[index].refusedLogins = "\(directory)/refused-logins-\(hsmTokens[index].name)"
        }
        return Configuration(
            file: reader.file, fileDigest: AuditDigest.of(text.utf8), listener: listener, hsmTokens: hsmTokens,
            trust: trust, googlePay: googlePay,
            signingTimeWindow: window,
            ledger: ledger, approvals: approvals, access: access, renewal: renewal, log: log,
            stateDirectory: directory, warnings: [])
    }

    package func fixedParts(in new: Configuration) -> [(name: String, isUnchanged: Bool)] {
        [
            ("listener", listener == new.listener), ("tokens", hsmTokens == new.hsmTokens),
            ("ledger", ledger == new.ledger), ("approvals", approvals == new.approvals),
            ("renewal", renewal == new.renewal),
        ]
    }

    package mutating func applyReloadableParts(from new: Configuration) {
        // The warnings of settings that keep their values until a restart stay valid, so they are kept.
        let kept = warnings.filter(\.setting.isFixedAtStart)
        warnings = new.warnings.filter { !$0.setting.isFixedAtStart } + kept
        (access, trust, signingTimeWindow, log.level) = (new.access, new.trust, new.signingTimeWindow, new.log.level)
        googlePay = new.googlePay
        fileDigest = new.fileDigest
        // The PIN files are read again at a reload, as paths that keep their values until a restart.
        readCredentials()
    }
}

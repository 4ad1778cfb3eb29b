import AuditChain
import ConfigurationFile
import PaymentToken
import ServerProgram
import Telemetry
import WorkerSupervision

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
struct Configuration: Sendable {
    /// The absolute path of the configuration file.
    var file: String
    /// The SHA-256 of the configuration file, by which the record identifies the configuration.
    var fileDigest: AuditDigest
    var listener: ListenerSettings
    /// The HSM tokens, 1 to 16 with unique names. In a new ledger, the first HSM token gets the audit key and seals the
    /// record. Afterwards the ledger names the HSM token that seals.
    var hsmTokens: [HSMTokenSettings]
    var trust: TrustSettings
    var googlePay = GooglePaySettings()
    /// The value of `verification.signing_time_window`, for callers whose rule sets no window.
    var signingTimeWindow: SigningTimeWindow
    var ledger: LedgerSettings
    var approvals: ApprovalSettings
    var access: AccessPolicy
    /// The team's key for Apple's App Store Connect API; nil if the configuration names none.
    var renewal: RenewalSettings?
    var log: LogSettings
    /// The directory for the small files that the daemon keeps on this host.
    var stateDirectory: String
    /// The digests of the secrets; empty until they are read.
    var credentials = CredentialDigests()
    /// The permitted settings that weaken the service. They are logged at the start and shown in the metric
    /// `paytokend_insecure_settings`.
    var warnings: [ConfigurationWarning]
}

extension Configuration: ServerConfiguration {
    static let keys = [
        "listener", "tokens", "trust", "google_pay", "verification", "ledger", "approvals", "access", "renewal", "log",
    ]

    static func read(_ root: ConfigurationSection, _ text: String) -> Configuration? {
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
}

import AuditChain
import ConfigurationFile
import DaemonConfiguration
import GooglePayToken
import Ledger
import Locks
import PaymentToken
import Refusals
import ServerProgram
import X509

/// The configuration in force. SIGHUP replaces the parts that can change in a running daemon: access, trust, the
/// signing-time window and the log level. All other parts keep their values until a restart.
final class LiveConfiguration: Sendable {
    let policies: CurrentPolicies
    let configuration: Current<Configuration>
    /// True from the time at which a new configuration is recorded until it takes effect. If recording fails, it stays
    /// true: the record may then end with values that never took effect.
    private let recordingInDoubt = Mutex(false)
    private let instruments: Instruments

    init(_ configuration: Configuration, instruments: Instruments) throws(StartFailure) {
        policies = CurrentPolicies(try Policies(configuration))
        var configuration = configuration
        configuration.readCredentials()
        self.configuration = Current(configuration)
        self.instruments = instruments
        instruments.show(warnings: configuration.warnings)
    }

    var warnings: [ConfigurationWarning] { configuration.current.warnings }

    /// The conditions under which claims may be pruned; nil if claims must be kept for ever.
    var claimRetention: ClaimRetention? {
        let configuration = configuration.current
        return ClaimRetention(
            retainClaims: configuration.ledger.retainClaims, repeatFor: configuration.ledger.repeatFor,
            windows: configuration.windows
                + (configuration.trust.googlePay == nil ? [] : [configuration.googlePay.messageLifetime]))
    }

    /// The widest of the signing-time windows of `verification` and the access rules; nil if a window is off.
    var widestWindow: Duration? {
        configuration.current.windows.reduce(Duration.zero) { widest, window in
            widest.flatMap { widest in window.map { max(widest, $0) } }
        }
    }

    /// Returns the reason why a valid configuration must not replace the one in force; nil if there is no such reason.
    func objection(to new: Configuration) -> String? {
        guard configuration.current.ledger.isShared, new.access.rules.contains(where: \.lacksName) else {
            return nil
        }
        return
            "The ledger in PostgreSQL stays in use until a restart, so every rule with the role decrypt needs a name, "
            + "since uids differ between hosts."
    }

    /// Determines the values that will be in force with `new`. The caller must record them before it calls
    /// ``replace(with:policies:)``. From this call until the replacement, ``recordingInDoubt`` is true.
    ///
    /// - Returns: the values to record; nil if the record already ends with these values and the digest of this file.
    func valuesToRecord(with new: Configuration) -> ConfigurationValues? {
        let old = configuration.current
        var next = old
        next.applyReloadableParts(from: new)
        let values = next.recordedValues
        let isRecorded = next.fileDigest == old.fileDigest && values == old.recordedValues
        return recordingInDoubt.withLock { inDoubt in
            // From now on the record may end with values that are not in force, until the new configuration takes effect.
            defer { inDoubt = true }
            return isRecorded && !inDoubt ? nil : values
        }
    }

    /// Returns the recorded settings that a reload with `new` changes.
    func changes(with new: Configuration) -> [ConfigurationValues.Change] {
        let old = configuration.current
        var next = old
        next.applyReloadableParts(from: new)
        return next.recordedValues.changes(from: old.recordedValues)
    }

    /// Puts a new configuration into force.
    /// - Parameter policies: the policies of `new`. The caller creates them beforehand, so that this function cannot
    ///   fail.
    /// - Returns: the names of the sections, and `log.format`, that differ in `new` but keep their old values until a
    ///   restart.
    func replace(with new: Configuration, policies: Policies) -> [String] {
        self.policies.replace(with: policies)
        recordingInDoubt.withLock { $0 = false }
        let pending = configuration.applyReloadableParts(from: new)
        instruments.show(warnings: warnings)
        return pending
    }
}

extension Configuration {
    /// The durations of all signing-time windows, of `verification` and of the access rules. Each is a permitted
    /// difference from the clock in either direction; nil if the window is off.
    fileprivate var windows: [Duration?] {
        ([signingTimeWindow] + access.rules.compactMap(\.signingTimeWindow)).map(\.duration)
    }
}

extension Policies {
    init(_ configuration: Configuration) throws(StartFailure) {
        var roots = configuration.trust.roots
        if roots.isEmpty {
            do throws(Refusal) {
                roots = [try AppleRootCAG3.certificate()]
            } catch {
                throw StartFailure(.defect, "The built-in root certificate is damaged; reinstall paytokend.")
            }
        }
        self.init(
            access: configuration.access,
            trust: TrustPolicy(roots: roots, distrusted: configuration.trust.distrusted), roots: roots,
            distrusted: configuration.trust.distrusted.count, signingTimeWindow: configuration.signingTimeWindow,
            googlePay: configuration.trust.googlePay?.roots, messageLifetime: configuration.googlePay.messageLifetime)
    }
}

/// The parts of the configuration that SIGHUP can replace and that requests use.
struct Policies: Sendable {
    let access: AccessPolicy
    let trust: TrustPolicy
    /// The trusted root certificates, for the status. ``distrusted`` has the number of certificates that are refused by
    /// fingerprint.
    let roots: [Certificate]
    let distrusted: Int
    let signingTimeWindow: SigningTimeWindow
    /// Google's root keys; nil without Google Pay.
    var googlePay: GoogleRootKeys?
    /// `google_pay.message_lifetime`.
    var messageLifetime = GooglePaySettings().messageLifetime
}

/// The policies in force. They are replaced as a whole, so no request sees a mixture of old and new ones.
typealias CurrentPolicies = Current<Policies>

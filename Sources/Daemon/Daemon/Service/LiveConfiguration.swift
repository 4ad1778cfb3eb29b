import AuditChain
import ConfigurationFile
import Ledger
import PaymentToken
import Refusals
import ServerProgram
import Synchronization
import X509

/// The configuration in force, of which SIGHUP replaces what can change under a running daemon: access, trust, the
/// signing-time window and the log level. Everything else needs a restart and is left as it was started.
final class LiveConfiguration: Sendable {
    let policies: CurrentPolicies
    let configuration: Current<Configuration>
    /// Whether the record may have other values last than those in force: the ones of a configuration that did not take its place
    /// after all, since nobody could say whether they were written.
    private let recordingInDoubt = Mutex(false)
    private let instruments: Instruments

    init(_ configuration: Configuration, instruments: Instruments) throws(StartFailure) {
        policies = CurrentPolicies(try Policies(configuration))
        self.configuration = Current(configuration)
        self.instruments = instruments
        instruments.show(warnings: configuration.warnings)
    }

    var warnings: [ConfigurationWarning] { configuration.current.warnings }

    /// After what time claims may be removed; nil when never.
    var claimRetention: ClaimRetention? {
        let configuration = configuration.current
        return ClaimRetention(
            retainClaims: configuration.ledger.retainClaims, repeatFor: configuration.ledger.repeatFor,
            windows: configuration.windows)
    }

    /// Of verification and of all access rules; nil when one of them is off.
    var widestWindow: Duration? {
        configuration.current.windows.reduce(Duration.zero) { widest, window in
            widest.flatMap { widest in window.map { max(widest, $0) } }
        }
    }

    /// Why `new` must not take its place, though it is right by itself; nil when it may.
    func objection(to new: Configuration) -> String? {
        guard configuration.current.ledger.isShared, new.access.rules.contains(where: \.lacksName) else {
            return nil
        }
        return
            "The ledger in PostgreSQL stays in use until a restart, and with it every rule with the role decrypt needs "
            + "a name, since uids differ between hosts."
    }

    /// To be called before `new` takes its place, by whoever then records it.
    ///
    /// - Returns: the values that will be in force; nil when those and the file are what the record has last.
    func valuesToRecord(with new: Configuration) -> ConfigurationValues? {
        let old = configuration.current
        var next = old
        next.takeWhatMayChange(from: new)
        let values = next.recordedValues
        let isRecorded = next.fileDigest == old.fileDigest && values == old.recordedValues
        return recordingInDoubt.withLock { inDoubt in
            // Until it has taken its place.
            defer { inDoubt = true }
            return isRecorded && !inDoubt ? nil : values
        }
    }

    /// - Parameter policies: of `new`, made beforehand so that nothing can fail here.
    /// - Returns: the sections, and `log.format`, in which `new` differs and the old one stays in force until a restart.
    func replace(with new: Configuration, policies: Policies) -> [String] {
        self.policies.replace(with: policies)
        recordingInDoubt.withLock { $0 = false }
        let pending = configuration.takeWhatMayChange(from: new)
        instruments.show(warnings: warnings)
        return pending
    }
}

extension Configuration {
    /// How far each signing-time window reaches to either side; nil is one that is off.
    fileprivate var windows: [Duration?] {
        ([signingTimeWindow] + access.rules.compactMap(\.signingTimeWindow)).map(\.duration)
    }

    func fixedParts(in new: Configuration) -> [(name: String, isUnchanged: Bool)] {
        [
            ("listener", listener == new.listener), ("tokens", hsmTokens == new.hsmTokens),
            ("ledger", ledger == new.ledger), ("approvals", approvals == new.approvals),
        ]
    }

    mutating func takeWhatMayChange(from new: Configuration) {
        // What stays as it was started keeps its warnings too.
        let kept = warnings.filter(\.setting.isFixedAtStart)
        warnings = new.warnings.filter { !$0.setting.isFixedAtStart } + kept
        (access, trust, signingTimeWindow, log.level) = (new.access, new.trust, new.signingTimeWindow, new.log.level)
        fileDigest = new.fileDigest
    }
}

extension Policies {
    init(_ configuration: Configuration) throws(StartFailure) {
        var roots = configuration.trust.roots
        if roots.isEmpty {
            do throws(Refusal) {
                roots = [try AppleRootCAG3.certificate()]
            } catch {
                throw StartFailure(.defect, "The built-in root certificate is damaged; install paytokend anew.")
            }
        }
        self.init(
            access: configuration.access,
            trust: TrustPolicy(roots: roots, distrusted: configuration.trust.distrusted), roots: roots,
            distrusted: configuration.trust.distrusted.count, signingTimeWindow: configuration.signingTimeWindow)
    }
}

/// What SIGHUP can replace: who may do what, whom to trust, and how old a signature may be.
struct Policies: Sendable {
    let access: AccessPolicy
    let trust: TrustPolicy
    /// The certificates at which a chain may end, and how many others are refused by their fingerprint: for people.
    let roots: [Certificate]
    let distrusted: Int
    let signingTimeWindow: SigningTimeWindow
}

/// The policies in force. No request sees half of a reload.
typealias CurrentPolicies = Current<Policies>

extension Assembly: ReloadableParts {
    func reload(
        with new: Configuration
    ) async throws(StartFailure) -> (pending: [String], warnings: [ConfigurationWarning]) {
        if let objection = live.objection(to: new) { throw StartFailure(.configuration, objection) }
        let policies = try Policies(new)
        // Before it is in force: nothing is decided by rules that are not in the record.
        try await lifeRecords.reloaded(new.fileDigest, values: live.valuesToRecord(with: new))
        let pending = live.replace(with: new, policies: policies)
        // A PIN that was refused is tried again now that its file may have changed.
        hsmTokens.retry()
        return (pending, live.warnings)
    }

    func reloadRefused() async { await lifeRecords.reloadRefused() }
}

import DaemonAPI
import Encodings
import Foundation
import KeyTypes
import Ledger
import MerchantKeys
import PaymentToken
import Refusals
import UsageRecording
import WorkerProtocol
import WorkerSupervision

/// Describes keys as the API shows them.
struct KeySummaries: Sendable {
    let index: KeyIndex
    /// Returns the tier in which these HSM tokens decrypt payments of this scheme now; nil if no HSM token can.
    let tier: @Sendable (RestorationScheme, [String]) -> ProtectionTier?
    let clock: WallClock

    /// Describes a key.
    /// - Parameter more: sentences for the member `remark`, about the operation that was just done.
    func summary(_ entry: KeyEntry, _ more: [String] = []) -> KeySummary {
        summary(entry, more, replacements(of: [entry]))
    }

    private func summary(
        _ entry: KeyEntry, _ more: [String], _ replacements: [PublicKeyHash: Date]
    ) -> KeySummary {
        let uses = index.uses(entry.publicKeyHash)
        let notAfter = entry.certificate?.notAfter
        let warnings = [entry.condition.explanation].compactMap { $0 } + entry.warnings + more
        var summary = KeySummary(
            publicKeyHash: entry.publicKeyHash.base64,
            merchantIdentifier: entry.merchantIdentifier.isEmpty ? nil : entry.merchantIdentifier,
            algorithm: entry.algorithm.name, use: entry.use.name, state: entry.state.rawValue, notAfter: notAfter,
            daysLeft: notAfter.map { KeySummary.daysLeft(until: $0, now: clock.now()) },
            tier: tier(entry.use, entry.algorithm, entry.hsmTokens), lastUse: uses.last, uses: uses.count,
            condition: entry.condition.name, remark: warnings.isEmpty ? nil : warnings.joined(separator: " "),
            tokens: entry.hsmTokens, cutOff: entry.cutOff)
        summary.replacementDue = replacements[entry.publicKeyHash]
        return summary
    }

    /// Returns the times at which the Google Pay keys of these entries' merchants are to be replaced. The keys of each merchant
    /// are read once.
    private func replacements(of entries: some Sequence<KeyEntry>) -> [PublicKeyHash: Date] {
        let (now, merchants) = (clock.now(), Set(entries.filter { $0.use == .googlePay }.map(\.merchantIdentifier)))
        let reminders = GooglePayRotation.reminders(merchants.flatMap { index.googlePayKeys(of: $0, at: now) })
        return Dictionary(reminders.map { ($0.publicKeyHash, $0.due) }, uniquingKeysWith: min)
    }

    /// Returns the tier of a key that decrypts; nil for every other.
    private func tier(_ use: KeyUse, _ algorithm: KeyAlgorithm, _ hsmTokens: [String]) -> String? {
        use.restores ? tier(RestorationScheme(of: use, algorithm), hsmTokens)?.rawValue : nil
    }

    /// Describes keys together with the nodes that hold them.
    /// - Parameter holders: the nodes that hold each key; nil if only one node uses the ledger, or if the ledger cannot be
    ///   read now.
    func summaries(
        of entries: some Sequence<KeyEntry>, heldBy holders: [PublicKeyHash: [KeyHolder]]?
    ) -> [KeySummary] {
        let replacements = replacements(of: entries)
        return entries.map { entry in
            var summary = summary(entry, [], replacements)
            summary.nodes = holders.map { $0[entry.publicKeyHash, default: []].map(\.node) }
            return summary
        }
    }

    /// Describes the key after an import. For a dry run, describes the key as it would be.
    ///
    /// - Returns: nil if the import waits for a second person.
    func summary(_ outcome: KeyAdministration.Outcome) -> KeySummary? {
        switch outcome {
        case .pending:
            return nil
        case .changed(let entry, let warnings):
            return summary(entry, warnings)
        case .wouldServe(let key, let hsmTokens, let needsApproval):
            let uses = index.uses(key.publicKeyHash)
            let notAfter = key.certificate?.notAfter
            return KeySummary(
                publicKeyHash: key.publicKeyHash.base64, merchantIdentifier: key.merchant,
                algorithm: key.algorithm.name, use: key.use.name, state: key.firstState.rawValue, notAfter: notAfter,
                daysLeft: notAfter.map { KeySummary.daysLeft(until: $0, now: clock.now()) },
                tier: tier(key.use, key.algorithm, hsmTokens), lastUse: uses.last, uses: uses.count,
                condition: KeyEntry.Condition.served.name, remark: Self.dryRunRemark(needsApproval: needsApproval),
                tokens: hsmTokens)
        }
    }

    static func dryRunRemark(needsApproval: Bool) -> String {
        "A dry run: nothing has been changed." + (needsApproval ? " It would wait for a second person." : "")
    }
}

extension HSMTokenPool {
    /// Returns the tier in which these HSM tokens serve this scheme now; nil if no HSM token does. If their
    /// tiers differ, returns the weakest, since any of these HSM tokens may decrypt the next payment.
    @Sendable func tier(of scheme: RestorationScheme, in holders: [String]) -> ProtectionTier? {
        all.filter { holders.contains($0.name) }.compactMap { $0.tier(for: scheme) }
            .max { $0.rawValue < $1.rawValue }
    }
}

extension KeyEntry {
    var scheme: RestorationScheme { RestorationScheme(of: use, algorithm) }
}

extension PublicKeyAnswer {
    /// - Throws: `hsm_unavailable` if no HSM token shows the key's public half.
    init(of key: KeyEntry, in index: KeyIndex) throws(Refusal) {
        guard let der = index.subjectPublicKeyInfo(key.publicKeyHash),
            let publicKey = try? SubjectPublicKeyInfo(der: der)
        else {
            throw Refusal(
                .hsmUnavailable, "No HSM token shows the key's public half.", details: KeyAdministration.seeStatus)
        }
        let point: [UInt8]? = if case .ec(let point) = publicKey.key { point } else { nil }
        self.init(
            publicKeyHash: key.publicKeyHash.base64,
            merchantIdentifier: key.merchantIdentifier.isEmpty ? nil : key.merchantIdentifier,
            point: point.map { Base64.encode($0) }, subjectPublicKeyInfo: Base64.encode(der))
    }
}

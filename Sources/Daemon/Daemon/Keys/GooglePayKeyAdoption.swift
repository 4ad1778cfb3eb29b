import AuditChain
import DaemonConfiguration
import KeyTypes
import Ledger
import MerchantKeys
import Refusals
import UsageRecording

// The adoption of Google Pay keys that another program made in an HSM token.
extension KeyAdministration {
    struct GooglePayKeyAdoption: Sendable {
        /// The merchant's identifier at Google, as the caller states it.
        let merchantIdentifier: String
        let reason: AuditReason
        /// The approval of a second person; nil if the caller has none. If the adoption needs an approval and this value
        /// is nil, the adoption requests an approval.
        let approval: ApprovalIdentifier?
    }

    /// Adds an external key to the ledger as a merchant's Google Pay key. It opens nothing before every node has proved it
    /// and a person has stated that it is in Google's console.
    ///
    /// Nothing in an HSM token shows a Google Pay key's merchant: the key has no certificate, and any holder of the PIN
    /// writes labels. So the second person approves the merchant that the command names, and the requester repeats the
    /// command. The HSM tokens are read, and nothing is written to them.
    func adopt(
        _ name: String, _ adoption: GooglePayKeyAdoption, by caller: Caller, dryRun: Bool, draft: AuditDraft
    ) async throws(Refusal) -> Outcome {
        let listed = try catalogue.index.entry(named: name)
        draft.setSubject(listed)
        let merchant = adoption.merchantIdentifier
        try Self.requireMerchantIdentifier(merchant, .googlePay)
        draft.setSubject(merchant: merchant, of: .googlePay)
        guard hsmTokens.allSatisfy(\.isServing) else {
            throw Refusal(
                .hsmUnavailable,
                "Not all HSM tokens are available, and one of them may have Apple's certificate for this key.",
                details: Self.seeStatus)
        }
        // A refused import of the same key would otherwise destroy the key before it is recorded.
        await importLock.acquire()
        defer { importLock.release() }
        // The index may be out of date: a certificate of Apple's may have come since the HSM tokens were listed.
        let entry = try await refreshedEntry(listed.publicKeyHash, in: hsmTokens)
        try entry.requireExternal()
        try requireNoCertificate(of: entry.publicKeyHash)
        guard entry.algorithm == .ec, entry.use == KeyUse.googlePay.inHSMToken,
            let publicKey = catalogue.index.subjectPublicKeyInfo(entry.publicKeyHash)
        else {
            throw Refusal(
                .invalidState,
                "The key cannot be a Google Pay key: it is not EC on P-256 with CKA_DERIVE.",
                details: "\(entry.algorithm.name), with the attributes of a key for \(entry.use.name)")
        }
        let key = try ImportedKey(publicKey: publicKey, use: .googlePay, merchant: merchant)
        let needsApproval = rule.needsSecondPerson(caller)
        draft.setEvent(.keyAdopt(approval: needsApproval ? adoption.approval : nil, key: key.facts(.adopted)))
        try requireRoom(for: key.use, of: merchant)
        guard !dryRun else { return .wouldServe(key, hsmTokens: entry.hsmTokens, needsApproval: needsApproval) }

        try gate.admit()
        var activation = Activation(key: key, known: nil, origin: .adopted)
        if needsApproval {
            var parameters = OperationParameters(.keyAdoptGooglePay)
            parameters.add(key.approvedBytes)
            parameters.add(merchant)
            let wanted = try await rule.request(
                .keyAdoptGooglePay, parameters: parameters.digest, key: key.publicKeyHash,
                reason: key.adoptionReason(adoption.reason), by: caller, at: clock.now())
            switch try await permission(wanted, adoption.approval, by: caller, draft: draft) {
            case .requested(let request): return .pending(request)
            case .given(let step): activation.approval = step
            }
        }
        return .changed(try await activate(activation, in: [], by: caller, draft: draft), warnings: [])
    }
}

extension KeyEntry {
    /// - Throws: `invalid_state` unless the key was made outside paytokend and the ledger does not have it.
    func requireExternal() throws(Refusal) {
        guard case .external = condition else {
            throw Refusal(
                .invalidState, "Only a key made outside paytokend can be adopted; this one is \(condition.name).",
                details: condition.explanation)
        }
    }
}

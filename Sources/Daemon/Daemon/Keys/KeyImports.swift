import AuditChain
import DaemonConfiguration
import Foundation
import KeyTypes
import Ledger
import MerchantKeys
import PaymentToken
import Refusals
import UsageRecording
import WorkerProtocol

// The import of keys and certificates from files.
extension KeyAdministration {
    struct KeyImport: Sendable {
        /// The public part of a key that is imported, in DER.
        enum PublicPart: Sendable {
            /// The certificate, and the merchant identifier that it must name; nil to accept any.
            case certificate([UInt8], merchantIdentifier: String?)
            /// A service key's SubjectPublicKeyInfo.
            case servicePublicKey([UInt8])
            /// A Google Pay key's SubjectPublicKeyInfo, and the merchant's identifier at Google.
            case googlePayPublicKey([UInt8], merchantIdentifier: String)
        }

        let publicPart: PublicPart
        /// The private key, sealed once for each HSM token that is to hold it.
        let sealedKeys: [SealedKey]
        let allowExpired: Bool
        /// The approval of a second person; nil if the caller has none. If the import needs an approval and this value
        /// is nil, the import requests an approval.
        let approval: ApprovalIdentifier?
    }

    /// A private key that is sealed to the worker of one HSM token (KeySealing).
    struct SealedKey: Sendable {
        /// The configured name of the HSM token whose worker can open the sealed key.
        let hsmToken: String
        let encapsulatedKey: [UInt8]
        let sealedPrivateKey: [UInt8]
    }

    enum Outcome: Sendable {
        /// The key after the import, and warnings such as the names of HSM tokens that did not accept the certificate.
        case changed(KeyEntry, warnings: [String])
        /// The dry run found no reason to refuse: the key would serve, in these HSM tokens.
        case wouldServe(ImportedKey, hsmTokens: [String], needsApproval: Bool)
        /// The import waits for a second person. After the approval, the requester repeats the command with the
        /// approval's identifier.
        case pending(Approval)
    }

    /// Imports a private key, with its certificate if keys of its use have one, into one or more HSM tokens, and puts it
    /// into service.
    ///
    /// The key enters service only if all of these HSM tokens accept it, and then the ledger does. If one of them cannot be
    /// reached or refuses the key, the import stops, and a new key is removed from the HSM tokens that accepted it. If that
    /// removal fails too, the refusal says so, and repeating the command completes the import.
    func importKey(
        _ request: KeyImport, by caller: Caller, dryRun: Bool, draft: AuditDraft
    ) async throws(Refusal) -> Outcome {
        let imported = try importedKey(of: request, draft: draft)
        draft.setSubject(merchant: imported.merchant, of: imported.use.wallet)
        let targets = try targets(of: request.sealedKeys)
        let known = try await keyRecord(of: imported.publicKeyHash)
        try Self.requireImportable(known, imported)
        if imported.certificate == nil { try requireNoCertificate(of: imported.publicKeyHash) }
        try requireRoom(for: imported.use, of: imported.merchant, except: imported.publicKeyHash)
        let names = request.sealedKeys.map(\.hsmToken)
        let needsApproval = rule.needsSecondPerson(caller)
        guard !dryRun else { return .wouldServe(imported, hsmTokens: names, needsApproval: needsApproval) }

        try await requireWritableLedger()
        var step: AdministrativeChange.ApprovalStep?
        if needsApproval {
            var parameters = OperationParameters(.keyImport)
            parameters.add(imported.approvedBytes)
            // Before the names, of which there may be any number: no approval of another use has the same parameters.
            if imported.use == .googlePay { parameters.add(imported.use.name) }
            parameters.add(imported.merchant)
            for name in names.sorted() { parameters.add(name) }
            let wanted = try await rule.request(
                .keyImport, parameters: parameters.digest, key: imported.publicKeyHash, keyState: known?.state,
                reason: imported.approvalReason(into: names), by: caller, at: clock.now())
            switch try await permission(wanted, request.approval, by: caller, draft: draft) {
            case .requested(let approval): return .pending(approval)
            case .given(let use): step = use
            }
        }
        draft.used(hsmToken: names.joined(separator: ","))
        // Only one import runs at a time. Otherwise a refused import could destroy the key of another import of the same
        // key, which the ledger then records.
        await importLock.acquire()
        defer { importLock.release() }
        let current = try await keyRecord(of: imported.publicKeyHash)
        try Self.requireImportable(current, imported)
        let isNew = try await isNew(imported.publicKeyHash, current, in: targets.map(\.hsmToken))
        var holders: [any HSMTokenAdministering] = []
        for (hsmToken, sealed) in targets {
            do throws(WorkerFailure) {
                try await hsmToken.importPrivateKey(
                    PrivateKeyImport(
                        merchantIdentifier: imported.merchant, use: imported.use,
                        certificate: imported.certificate?.der ?? [], publicKey: imported.publicKey,
                        encapsulatedKey: sealed.encapsulatedKey, sealedPrivateKey: sealed.sealedPrivateKey))
            } catch {
                throw await refusal(
                    error.refusal, by: hsmToken, after: holders, of: imported.publicKeyHash, isNew: isNew)
            }
            holders.append(hsmToken)
        }
        let activation = Activation(key: imported, known: current, origin: .imported, approval: step, isNew: isNew)
        return .changed(try await activate(activation, in: holders, by: caller, draft: draft), warnings: [])
    }

    /// Checks the public part of the key that is to be imported, and states the key in the draft.
    private func importedKey(of request: KeyImport, draft: AuditDraft) throws(Refusal) -> ImportedKey {
        let (certificate, expected): (MerchantCertificate, String?)
        switch request.publicPart {
        case .servicePublicKey(let publicKey):
            return uncertified(
                try ImportedKey(servicePublicKey: publicKey, named: renewal), approval: request.approval, draft: draft)
        case .googlePayPublicKey(let publicKey, let merchant):
            try Self.requireMerchantIdentifier(merchant, .googlePay)
            return uncertified(
                try ImportedKey(publicKey: publicKey, use: .googlePay, merchant: merchant), approval: request.approval,
                draft: draft)
        case .certificate(let der, let merchantIdentifier):
            draft.setEvent(.keyImport(certificate: AuditDigest.of(der), approval: request.approval))
            (certificate, expected) = (try Self.read(der), merchantIdentifier)
        }
        draft.setSubject(key: certificate.publicKeyHash)
        draft.setEvent(
            .keyImport(
                certificate: AuditDigest.of(certificate.der), approval: request.approval,
                key: KeyFacts(certificate, origin: .imported)))
        let merchant = try certificate.merchantForImport(
            expected: expected, allowExpired: request.allowExpired, now: clock.now())
        return ImportedKey(certificate, use: try Self.use(of: certificate), merchant: merchant)
    }

    /// States a key without a certificate in the draft.
    private func uncertified(
        _ imported: ImportedKey, approval: ApprovalIdentifier?, draft: AuditDraft
    ) -> ImportedKey {
        draft.setSubject(key: imported.publicKeyHash)
        draft.setEvent(.keyImport(certificate: nil, approval: approval, key: imported.facts(.imported)))
        return imported
    }

    /// Stores a certificate with its private key, in every HSM token that holds the key.
    ///
    /// An unavailable HSM token does not stop the import. Otherwise a rotation would have to wait until that HSM token
    /// is repaired. Once it is available again, it can decrypt payments even without the certificate. A warning tells
    /// the caller to repeat the command later. Without a caller, the daemon itself imports the certificate.
    func importCertificate(
        _ der: [UInt8], allowExpired: Bool, by caller: Caller?, dryRun: Bool, draft: AuditDraft
    ) async throws(Refusal) -> Outcome {
        draft.setEvent(.certificateImport(certificate: AuditDigest.of(der)))
        let certificate = try Self.read(der)
        draft.setSubject(key: certificate.publicKeyHash)
        guard let entry = try await presentEntry(certificate.publicKeyHash) else {
            if certificate.purpose.use == nil {
                // The certificate is not one of Apple's merchant certificates, so this call throws. Its refusal names
                // the certificate's kind, and so tells the caller more than `key_not_found` would.
                _ = try certificate.merchantForImport(expected: nil, allowExpired: true, now: clock.now())
            }
            throw Refusal(
                .keyNotFound,
                "No key in the HSM tokens belongs to this certificate; import the certificate with its key.",
                details: "publicKeyHash \(certificate.publicKeyHash.hex)")
        }
        let merchant = try certificate.merchantForImport(
            for: entry.use, expected: entry.merchantIdentifier.isEmpty ? nil : entry.merchantIdentifier,
            allowExpired: allowExpired,
            now: clock.now())
        draft.setSubject(merchant: merchant)
        let known = try await keyRecord(of: certificate.publicKeyHash)
        draft.setEvent(
            .certificateImport(
                certificate: AuditDigest.of(der),
                key: KeyFacts(certificate, origin: (known?.origin).map(KeyFacts.Origin.init))))
        let imported = ImportedKey(certificate, use: entry.use, merchant: merchant)
        try Self.requireImportable(known, imported)
        try requireRoom(for: imported.use, of: imported.merchant, except: imported.publicKeyHash)
        let showing = hsmTokens.filter { entry.hsmTokens.contains($0.name) }
        guard !dryRun else {
            return .wouldServe(imported, hsmTokens: showing.map(\.name), needsApproval: false)
        }

        try await requireWritableLedger()
        // If every HSM token shows the key as inconsistent, this certificate may repair the key, so all HSM tokens are
        // tried.
        let targets = showing.isEmpty ? hsmTokens : showing
        draft.used(hsmToken: targets.map(\.name).joined(separator: ","))
        let (holders, warnings) = try await store(
            CertificateToStore(
                publicKeyHash: certificate.publicKeyHash.bytes, merchantIdentifier: merchant,
                certificate: certificate.der),
            in: targets)
        draft.used(hsmToken: holders.map(\.name).joined(separator: ","))
        guard let known else {
            // The key was made outside paytokend. The certificate is stored, but an administrator must still adopt the key.
            draft.recorded(at: try await recorder.append(recorder.auditRecord(of: draft, by: caller)))
            return .changed(try await refreshedEntry(certificate.publicKeyHash, in: holders), warnings: warnings)
        }
        let activation = Activation(key: imported, known: known, origin: known.origin)
        let activated = try await activate(activation, in: holders, by: caller, draft: draft)
        let superseded =
            activated.certificate?.der == certificate.der
            ? [] : ["The key has a newer certificate, or one that has not expired, which stays in effect."]
        return .changed(activated, warnings: warnings + superseded)
    }

    // MARK: Checks

    static func read(_ der: [UInt8]) throws(Refusal) -> MerchantCertificate {
        do {
            return try MerchantCertificate(der: der)
        } catch {
            throw Refusal(.certificateUnsuitable, error.description)
        }
    }

    private static func use(of certificate: MerchantCertificate) throws(Refusal) -> KeyUse {
        guard let use = certificate.purpose.use else { throw .defect }
        return use
    }

    /// Checks that the merchant may have another active key of this use, before any HSM token is changed. The
    /// transaction that activates the key repeats the check.
    func requireRoom(
        for use: KeyUse, of merchant: String, except hash: PublicKeyHash? = nil
    ) throws(Refusal) {
        guard let limit = use.maximumActive else { return }
        let active = catalogue.index.entries.filter {
            $0.merchantIdentifier == merchant && $0.use == use && $0.publicKeyHash != hash
                && ($0.state == .active || use == .googlePay && $0.decrypts(at: clock.now()))
        }
        guard active.count < limit else {
            throw Refusal(
                .invalidState, KeyRecordConflict.tooManyActive(use).description,
                details: active.map { String($0.publicKeyHash.hex.prefix(16)) }.joined(separator: ", "))
        }
    }

    private static func requireImportable(_ known: KeyRecord?, _ imported: ImportedKey) throws(Refusal) {
        guard let known else { return }
        guard known.use == imported.use else {
            throw Refusal(
                .invalidState, KeyRecordConflict.anotherUse.description, details: "recorded for \(known.use.name)")
        }
        guard known.merchantIdentifier == imported.merchant else {
            throw Refusal(
                .invalidState, "This key is recorded for another merchant.",
                details: "recorded for \(known.merchantIdentifier)")
        }
        guard known.state == .preActivation || known.state == .active else {
            throw Refusal(
                .invalidState, "This key is recorded in the state \(known.state.rawValue) and cannot be imported again."
            )
        }
    }

    /// Checks that no HSM token has a certificate for a key that is to be of a use without certificates.
    func requireNoCertificate(of hash: PublicKeyHash) throws(Refusal) {
        guard !catalogue.index.hasCertificate(hash) else {
            throw Refusal(
                .invalidState, "An HSM token has Apple's certificate for this key, so it is Apple Pay's; make another.")
        }
    }

    /// Returns the HSM token of each sealed key. Throws unless all of these HSM tokens are open. Without this check,
    /// the import could bring a key into one HSM token and then have to remove it because another is unavailable.
    private func targets(
        of sealedKeys: [SealedKey]
    ) throws(Refusal) -> [(hsmToken: any HSMTokenAdministering, sealed: SealedKey)] {
        var targets: [(hsmToken: any HSMTokenAdministering, sealed: SealedKey)] = []
        for sealed in sealedKeys {
            guard let hsmToken = hsmTokens.first(where: { $0.name == sealed.hsmToken }) else {
                throw Refusal(
                    .malformedRequest, "sealedKeys names an HSM token that is not in the configuration.",
                    details: "the HSM tokens are \(hsmTokens.map(\.name).joined(separator: ", "))")
            }
            guard hsmToken.isServing else {
                throw Refusal(
                    .hsmUnavailable, "HSM token \(hsmToken.name) is not available, so no HSM token received the key.",
                    details: Self.seeStatus)
            }
            targets.append((hsmToken, sealed))
        }
        return targets
    }

    /// Returns the key's index entry, after reading the key again from the HSM tokens that hold it; nil if the index does
    /// not have the key.
    ///
    /// - Throws: if no HSM token shows the private key now. Activating its certificate would make Apple encrypt to a key
    ///   that may be lost.
    private func presentEntry(_ hash: PublicKeyHash) async throws(Refusal) -> KeyEntry? {
        guard let known = catalogue.index.entry(hash) else { return nil }
        for hsmToken in hsmTokens where known.hsmTokens.contains(hsmToken.name) && hsmToken.isServing {
            try await refresh(hash, in: hsmToken)
        }
        let entry = catalogue.index.entry(hash)
        guard entry?.condition == .missing else { return entry }
        guard hsmTokens.allSatisfy(\.isServing) else {
            throw Refusal(
                .hsmUnavailable,
                "No HSM token shows the certificate's private key now, and not all HSM tokens are available.",
                details: Self.seeStatus)
        }
        throw Refusal(
            .invalidState,
            "No HSM token holds the certificate's private key any more, so the certificate must not be activated. Make "
                + "another key, and upload its request.", details: "publicKeyHash \(hash.hex)")
    }

    // MARK: Changes

    /// Stores a certificate in these HSM tokens.
    /// - Returns: the HSM tokens that accepted the certificate, and a warning for each HSM token that failed for a
    ///   reason other than the absence of the key.
    /// - Throws: the first failure, if no HSM token accepted the certificate.
    private func store(
        _ certificate: CertificateToStore, in targets: [any HSMTokenAdministering]
    ) async throws(Refusal) -> (holders: [any HSMTokenAdministering], warnings: [String]) {
        var holders: [any HSMTokenAdministering] = []
        var warnings: [String] = []
        var first: Refusal?
        for hsmToken in targets {
            do throws(WorkerFailure) {
                try await hsmToken.importCertificate(certificate)
                holders.append(hsmToken)
            } catch {
                first = first ?? error.refusal
                guard error.kind != .keyNotFound else { continue }
                warnings.append(
                    "HSM token \(hsmToken.name) did not accept the certificate (\(error.refusal.message)) Repeat the "
                        + "command when it is available again.")
            }
        }
        if holders.isEmpty { throw first ?? .defect }
        return (holders, warnings)
    }

    /// A key that is to be put into service.
    struct Activation {
        let key: ImportedKey
        /// The ledger's record of the key before the activation; nil if the ledger does not have the key.
        let known: KeyRecord?
        let origin: KeyRecord.Origin
        var approval: AdministrativeChange.ApprovalStep?
        /// True if no HSM token had the key before.
        var isNew = false
    }

    /// Commits the key's record and the audit record in one transaction. A key that is not for Google Pay enters service.
    func activate(
        _ activation: Activation, in holders: [any HSMTokenAdministering], by caller: Caller?, draft: AuditDraft
    ) async throws(Refusal) -> KeyEntry {
        var keyRecord =
            activation.known
            ?? KeyRecord(
                publicKeyHash: activation.key.publicKeyHash, merchantIdentifier: activation.key.merchant,
                algorithm: activation.key.algorithm, use: activation.key.use, state: activation.key.firstState,
                createdAt: clock.now(), origin: activation.origin)
        if activation.key.firstState == .active { keyRecord.state = .active }
        try await apply(
            AdministrativeChange(
                at: clock.now(), key: keyRecord, precondition: KeyPrecondition(activation.known),
                approval: activation.approval, records: [recorder.auditRecord(of: draft, by: caller)]),
            of: activation.key.publicKeyHash, newIn: activation.isNew ? holders : [], for: draft)
        return try await refreshedEntry(activation.key.publicKeyHash, in: holders)
    }
}

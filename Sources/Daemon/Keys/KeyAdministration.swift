import AuditChain
import DaemonAPI
import Foundation
import Ledger
import MerchantKeys
import PaymentToken
import Refusals
import WorkerProtocol

/// Imports of keys and certificates: each judges everything first, then changes the token, then the ledger. A failure
/// in between leaves a key that is listed and not served, and the same command again completes it.
struct KeyAdministration: Sendable {
    let catalogue: KeyCatalogue
    /// In the configuration's order.
    let hsmTokens: [any TokenAdministering]
    let ledger: any Ledger
    let gate: LedgerGate
    let recorder: UsageRecorder
    let rule: TwoPersonRule
    let clock: WallClock
    /// Of generating a key.
    let lock = AsyncLock()

    struct KeyImport: Sendable {
        let merchantIdentifier: String?
        let certificate: [UInt8]
        /// One for each token that is to hold the key; each token once.
        let sealedKeys: [SealedKey]
        let allowExpired: Bool
        /// Of a second person, where one is needed: without it the import is asked for.
        let approval: ApprovalIdentifier?
    }

    /// A private key that one token's worker can open (KeySealing).
    struct SealedKey: Sendable {
        /// The token's name in the configuration.
        let hsmToken: String
        let encapsulatedKey: [UInt8]
        let sealedPrivateKey: [UInt8]
    }

    enum Outcome: Sendable {
        /// With what is left to do, a sentence each.
        case changed(KeyEntry, warnings: [String])
        /// A dry run found nothing against it: this certificate would serve this merchant, in these tokens.
        case wouldServe(MerchantCertificate, merchant: String, hsmTokens: [String])
        /// It waits for a second person; the same command with the approval completes it.
        case pending(Approval)
    }

    /// Brings a private key with its certificate into one or more tokens and into service.
    ///
    /// A token that cannot be reached or does not take the key stops it: the key is not in service before all of them
    /// hold it, and a new one is taken out of the earlier ones again. Where that fails too the refusal says so; the same
    /// command again completes it.
    ///
    /// - Parameter record: gets to know what is imported; it is written with the key.
    func importKey(
        _ request: KeyImport, by caller: Caller, dryRun: Bool, draft: AuditDraft
    ) async throws(Refusal) -> Outcome {
        draft.is(.keyImport(certificate: AuditDigest.of(request.certificate), approval: request.approval))
        let certificate = try Self.read(request.certificate)
        draft.concerns(key: certificate.publicKeyHash)
        let merchant = try certificate.merchantForImport(
            expected: request.merchantIdentifier, allowExpired: request.allowExpired, now: clock.now())
        draft.concerns(merchant: merchant)
        let targets = try targets(of: request.sealedKeys)
        let keyRecord = try await keyRecord(of: certificate.publicKeyHash)
        try Self.requireImportable(keyRecord, merchant: merchant)
        let names = request.sealedKeys.map(\.hsmToken)
        guard !dryRun else { return .wouldServe(certificate, merchant: merchant, hsmTokens: names) }

        try await proveLedgerWritable()
        var use: AdministrativeChange.ApprovalStep?
        if rule.binds(caller) {
            var parameters = OperationParameters(.keyImport)
            parameters.add(certificate.der)
            parameters.add(merchant)
            for name in names.sorted() { parameters.add(name) }
            guard let approval = request.approval else {
                let asked = try rule.request(
                    .keyImport, parameters: parameters.digest, key: certificate.publicKeyHash,
                    keyState: keyRecord?.state, reason: AuditReason("key import for \(merchant)"), by: caller,
                    at: clock.now())
                try await recorder.ask(asked, by: caller, for: draft)
                return .pending(asked)
            }
            // Before the token is changed; the transaction that uses it judges it again.
            try await requireApproved(approval, parameters: parameters.digest, of: caller)
            use = .use(approval, parameters: parameters.digest, by: try caller.person())
        }
        draft.used(hsmToken: names.joined(separator: ","))
        let isNew = catalogue.index.entry(certificate.publicKeyHash) == nil
        var holding: [any TokenAdministering] = []
        for (hsmToken, sealed) in targets {
            do throws(WorkerFailure) {
                try await hsmToken.importPrivateKey(
                    PrivateKeyImport(
                        merchantIdentifier: merchant, certificate: certificate.der,
                        encapsulatedKey: sealed.encapsulatedKey, sealedPrivateKey: sealed.sealedPrivateKey))
            } catch {
                throw await refusal(error, at: hsmToken, holding, certificate.publicKeyHash, isNew: isNew)
            }
            holding.append(hsmToken)
        }
        let change = Activation(
            certificate: certificate, merchant: merchant, known: keyRecord, origin: .imported, approval: use)
        let entry = try await activate(change, in: holding, by: caller, draft: draft)
        return .changed(entry, warnings: [])
    }

    /// Stores a certificate beside the private key, in every token that holds it.
    ///
    /// A token that is away does not stop it, since its key opens payments without the certificate too: a rotation
    /// need not wait for a repair. What is left is said.
    ///
    func importCertificate(
        _ der: [UInt8], allowExpired: Bool, by caller: Caller, dryRun: Bool, draft: AuditDraft
    ) async throws(Refusal) -> Outcome {
        draft.is(.certificateImport(certificate: AuditDigest.of(der)))
        let certificate = try Self.read(der)
        draft.concerns(key: certificate.publicKeyHash)
        guard let known = try await present(certificate.publicKeyHash) else {
            if certificate.kind != .paymentProcessing {
                // What it is instead tells more than that its key is not here.
                _ = try certificate.merchantForImport(expected: nil, allowExpired: true, now: clock.now())
            }
            throw Refusal(
                .keyNotFound, "No key in the token belongs to this certificate; import the certificate with its key.",
                details: "publicKeyHash \(certificate.publicKeyHash.hex)")
        }
        let merchant = try certificate.merchantForImport(
            expected: known.merchantIdentifier.isEmpty ? nil : known.merchantIdentifier, allowExpired: allowExpired,
            now: clock.now())
        draft.concerns(merchant: merchant)
        let keyRecord = try await keyRecord(of: certificate.publicKeyHash)
        try Self.requireImportable(keyRecord, merchant: merchant)
        let holders = hsmTokens.filter { known.hsmTokens.contains($0.name) }
        guard !dryRun else {
            return .wouldServe(certificate, merchant: merchant, hsmTokens: holders.map(\.name))
        }

        try await proveLedgerWritable()
        // Where no token shows the key in good order, this may be what mends it.
        let targets = holders.isEmpty ? hsmTokens : holders
        draft.used(hsmToken: targets.map(\.name).joined(separator: ","))
        let (holding, warnings) = try await store(
            CertificateImport(
                publicKeyHash: certificate.publicKeyHash.bytes, merchantIdentifier: merchant,
                certificate: certificate.der),
            in: targets)
        draft.used(hsmToken: holding.map(\.name).joined(separator: ","))
        guard let keyRecord else {
            // Made by other means: the certificate is there now, but a certificate adopts nothing.
            draft.recorded(at: try await recorder.append(recorder.auditRecord(of: draft, by: caller)))
            return .changed(try await entry(certificate.publicKeyHash, in: holding), warnings: warnings)
        }
        let change = Activation(
            certificate: certificate, merchant: merchant, known: keyRecord, origin: keyRecord.origin)
        let entry = try await activate(change, in: holding, by: caller, draft: draft)
        guard entry.certificate?.der == certificate.der else {
            return .changed(
                entry,
                warnings: warnings + [
                    "The key has a newer certificate, or one that has not expired, which stays in effect."
                ])
        }
        return .changed(entry, warnings: warnings)
    }

    /// The key as the tokens show it at this moment; nil when none ever did.
    ///
    /// - Throws: when its private key is gone or away: Apple must not be told to encrypt to it.
    private func present(_ hash: PublicKeyHash) async throws(Refusal) -> KeyEntry? {
        guard let known = catalogue.index.entry(hash) else { return nil }
        for hsmToken in hsmTokens where known.hsmTokens.contains(hsmToken.name) && hsmToken.isServing {
            try await lookAgain(at: hash, in: hsmToken)
        }
        guard let entry = catalogue.index.entry(hash), entry.condition == .missing else {
            return catalogue.index.entry(hash)
        }
        guard hsmTokens.allSatisfy(\.isServing) else {
            throw Refusal(
                .hsmUnavailable, "No token shows the certificate's private key now, and not all tokens are available.",
                details: "paytokenctl status says why")
        }
        throw Refusal(
            .invalidState,
            "No token holds the certificate's private key any more, so it must not be activated. Make another key "
                + "(rotate start, key generate), and upload its request.", details: "publicKeyHash \(hash.hex)")
    }

    // MARK: Judging

    static func read(_ der: [UInt8]) throws(Refusal) -> MerchantCertificate {
        do {
            return try MerchantCertificate(der: der)
        } catch {
            throw Refusal(.certificateUnsuitable, error.description)
        }
    }

    private func requireApproved(
        _ identifier: ApprovalIdentifier, parameters: AuditDigest, of caller: Caller
    ) async throws(Refusal) {
        let person = try caller.person()
        do throws(LedgerFailure) {
            guard let approval = try await ledger.approval(identifier) else { throw .approval(.unknown) }
            if let conflict = approval.conflict(using: parameters, by: person, at: clock.now()) {
                throw .approval(conflict)
            }
        } catch {
            throw error.refusal
        }
    }

    private static func requireImportable(_ keyRecord: KeyRecord?, merchant: String) throws(Refusal) {
        guard let keyRecord else { return }
        guard keyRecord.merchantIdentifier == merchant else {
            throw Refusal(
                .invalidState, "This key is recorded for another merchant.",
                details: "recorded for \(keyRecord.merchantIdentifier)")
        }
        guard keyRecord.state == .preActivation || keyRecord.state == .active else {
            throw Refusal(
                .invalidState,
                "This key is recorded in the state \(keyRecord.state.rawValue) and is not imported again.")
        }
    }

    // MARK: Changing

    /// What the ledger has of a key; nil when it does not know it.
    func keyRecord(of hash: PublicKeyHash) async throws(Refusal) -> KeyRecord? {
        do {
            return try await ledger.keyRecord(hash)
        } catch {
            throw error.refusal
        }
    }

    /// A key that came into the token while the ledger's disk is full would lie there without a record.
    func proveLedgerWritable() async throws(Refusal) {
        try gate.admit()
        do {
            try await ledger.probe()
        } catch {
            throw error.refusal
        }
    }

    /// A key that goes into service with its certificate.
    private struct Activation {
        let certificate: MerchantCertificate
        let merchant: String
        /// What the ledger has of it already.
        let known: KeyRecord?
        let origin: KeyRecord.Origin
        var approval: AdministrativeChange.ApprovalStep?
    }

    /// The key's record and the audit record are one transaction.
    private func activate(
        _ change: Activation, in holding: [any TokenAdministering], by caller: Caller,
        draft: AuditDraft
    ) async throws(Refusal) -> KeyEntry {
        var key =
            change.known
            ?? KeyRecord(
                publicKeyHash: change.certificate.publicKeyHash, merchantIdentifier: change.merchant,
                algorithm: change.certificate.algorithm, state: .active, createdAt: clock.now(), origin: change.origin)
        key.state = .active
        try await recorder.apply(
            AdministrativeChange(
                at: clock.now(), key: key, precondition: KeyPrecondition(change.known), approval: change.approval,
                records: [recorder.auditRecord(of: draft, by: caller)]),
            for: draft)
        return try await entry(change.certificate.publicKeyHash, in: holding)
    }

    /// The key as it stands in the index once these tokens have been asked again.
    private func entry(_ hash: PublicKeyHash, in holding: [any TokenAdministering]) async throws(Refusal) -> KeyEntry {
        for hsmToken in holding { try await lookAgain(at: hash, in: hsmToken) }
        guard let entry = catalogue.index.entry(hash) else { throw .defect }
        return entry
    }
}

// What administration does in several tokens, and what it says when they do not all do the same.
extension KeyAdministration {
    /// The tokens that a key was sealed to, all of them reachable: better to find that out before the first has it.
    func targets(
        of sealedKeys: [SealedKey]
    ) throws(Refusal) -> [(hsmToken: any TokenAdministering, sealed: SealedKey)] {
        var targets: [(hsmToken: any TokenAdministering, sealed: SealedKey)] = []
        for sealed in sealedKeys {
            guard let hsmToken = hsmTokens.first(where: { $0.name == sealed.hsmToken }) else {
                throw Refusal(
                    .malformedRequest, "sealedKeys names a token that the configuration does not.",
                    details: "the tokens are \(hsmTokens.map(\.name).joined(separator: ", "))")
            }
            guard hsmToken.isServing else {
                throw Refusal(
                    .hsmUnavailable, "The token \(hsmToken.name) is not available, so no token was given the key.",
                    details: "paytokenctl status says why")
            }
            targets.append((hsmToken, sealed))
        }
        return targets
    }

    /// What is said when a token does not take a key that others have been given already.
    ///
    /// - Parameter isNew: none of them had it before, so that it may be taken out again.
    func refusal(
        _ failure: WorkerFailure, at hsmToken: any TokenAdministering, _ holding: [any TokenAdministering],
        _ key: PublicKeyHash, isNew: Bool
    ) async -> Refusal {
        let refusal = failure.refusal
        var keeping: [String] = []
        for hsmToken in holding {
            if isNew, (try? await hsmToken.destroyKey(key)) != nil { continue }
            try? await lookAgain(at: key, in: hsmToken)
            keeping.append(hsmToken.name)
        }
        guard !keeping.isEmpty else { return refusal }
        return Refusal(
            refusal.code,
            "The token \(hsmToken.name) did not take the key, but \(keeping.joined(separator: " and ")) did; "
                + "the same command again completes it.",
            details: refusal.details ?? refusal.message)
    }

    /// - Returns: the tokens that have the certificate now, and a sentence for each that should and does not.
    /// - Throws: the first one's refusal when none took it.
    func store(
        _ certificate: CertificateImport, in holders: [any TokenAdministering]
    ) async throws(Refusal) -> (holding: [any TokenAdministering], warnings: [String]) {
        var holding: [any TokenAdministering] = []
        var warnings: [String] = []
        var first: Refusal?
        for hsmToken in holders {
            do throws(WorkerFailure) {
                try await hsmToken.importCertificate(certificate)
                holding.append(hsmToken)
            } catch {
                first = first ?? error.refusal
                guard error.kind != .keyNotFound else { continue }
                warnings.append(
                    "The token \(hsmToken.name) did not take the certificate (\(error.refusal.message)) Repeat the command "
                        + "when it is available again.")
            }
        }
        if holding.isEmpty { throw first ?? .defect }
        return (holding, warnings)
    }

    /// Has the index know what a token shows of a key now.
    func lookAgain(at key: PublicKeyHash, in hsmToken: any TokenAdministering) async throws(Refusal) {
        let shown: [KeyDescription]
        do {
            shown = try await hsmToken.describeKey(key)
        } catch {
            throw error.refusal
        }
        do {
            try await catalogue.keyChanged(key, shown: [(hsmToken.name, shown)])
        } catch {
            throw error.refusal
        }
    }
}

/// What administration asks of a token.
protocol TokenAdministering: Sendable {
    var name: String { get }
    /// A worker has opened it and takes calls.
    var isServing: Bool { get }
    /// What it shows of one key now; empty when it shows none.
    func describeKey(_ hash: PublicKeyHash) async throws(WorkerFailure) -> [KeyDescription]
    func importPrivateKey(_ request: PrivateKeyImport) async throws(WorkerFailure)
    func importCertificate(_ request: CertificateImport) async throws(WorkerFailure)
    func generateKey(
        _ algorithm: KeyAlgorithm, merchantIdentifier: String, known: Set<[UInt8]>
    ) async throws(WorkerFailure) -> KeyDescription
    func signRequest(_ information: [UInt8], publicKeyHash: [UInt8]) async throws(WorkerFailure) -> [UInt8]
    func destroyKey(_ hash: PublicKeyHash) async throws(WorkerFailure)
}

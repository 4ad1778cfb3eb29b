import AuditChain
import FairShares
import Foundation
import KeyTypes
import Ledger
import MerchantKeys
import PaymentToken
import Refusals
import WorkerSupervision

/// Guided rotations: a new key and its request, its certificate, and the old key's end. Between these steps nothing is
/// remembered but the keys themselves, so each may be done by other means too (key generate, key retire).
struct KeyRotations: Sendable {
    let administration: KeyAdministration
    let arrivals: RefusedArrivals
    /// Held while a rotation is started: a second start then finds the first one's key.
    private let startLock = AsyncLock()

    /// For how long old keys open late payment tokens: they arrive for minutes to hours after Apple's switch.
    static let standardCutOff: TimeInterval = 7 * 86_400
    /// For how long a key counts as in use after its last payment token.
    static let stillInUse: TimeInterval = 3600
    /// How far back a new key's first payment token is looked for.
    private static let longestLook: TimeInterval = 30 * 86_400

    private var index: KeyIndex { administration.catalogue.index }
    private var ledger: any Ledger { administration.ledger }
    private var now: Date { administration.clock.now() }

    // MARK: Looking

    /// Those under way, by merchant.
    func underWay() async throws(Refusal) -> [Rotation] {
        try await rotations { _ in true }.filter(\.isUnderWay)
    }

    /// A merchant's, under way or not: one for each algorithm that it has keys of.
    ///
    /// - Throws: `key_not_found` when the ledger knows no key of that merchant.
    func rotations(of merchant: String) async throws(Refusal) -> [Rotation] {
        let rotations = try await rotations { $0.merchantIdentifier == merchant }
        guard !rotations.isEmpty else {
            if index.entries.contains(where: { $0.merchantIdentifier == merchant }) {
                throw Refusal(
                    .keyNotFound, "All keys of this merchant are compromised, destroyed or not adopted.",
                    details: "a key to begin with again: POST /v1/keys, or POST /v1/keys/import")
            }
            throw Refusal(
                .keyNotFound, "There is no key of this merchant here; GET /v1/keys lists those there are.",
                details: "a merchant's first key: POST /v1/keys, or POST /v1/keys/import")
        }
        return rotations
    }

    private func rotations(where isMeant: (KeyRecord) -> Bool) async throws(Refusal) -> [Rotation] {
        let now = now
        let keyRecords = try await refusing(ledger: await ledger.keyRecords()).filter(isMeant)
        let usage = try await refusing(ledger: await ledger.usage(since: now.addingTimeInterval(-Self.stillInUse)))
        var keys = keyRecords.map { keyRecord in
            let hash = keyRecord.publicKeyHash
            return Rotation.Key(
                keyRecord: keyRecord, entry: index.entry(hash), lastHour: usage[hash] ?? KeyUses(),
                refusedLastHour: arrivals.lastHour(hash, now: now), wasUsed: index.uses(hash).count > 0,
                fault: fault(of: hash))
        }
        let seen = Rotation.all(among: keys, now: now)
        let unproven = seen.filter(\.isUnderWay).compactMap(\.newKey)
            .filter { $0.keyRecord.state == .active && !$0.isProven }
        guard !unproven.isEmpty else { return seen }
        // A quiet merchant's new key may have opened payment tokens before the last hour.
        var used: Set<PublicKeyHash> = []
        for key in unproven {
            let since = max(key.keyRecord.createdAt, now.addingTimeInterval(-Self.longestLook))
            let wasUsed = try await refusing(ledger: await ledger.wasUsed(key.publicKeyHash, since: since))
            if wasUsed { used.insert(key.publicKeyHash) }
        }
        for place in keys.indices where used.contains(keys[place].publicKeyHash) { keys[place].wasUsed = true }
        return Rotation.all(among: keys, now: now)
    }

    /// Why a key opens nothing now, whatever its state; nil when it does.
    private func fault(of hash: PublicKeyHash) -> String? {
        guard let entry = index.entry(hash) else { return KeyEntry.Condition.missing.explanation }
        if let explanation = entry.condition.explanation { return explanation }
        let holders = administration.hsmTokens.filter { entry.hsmTokens.contains($0.name) }
        guard holders.contains(where: \.isServing) else {
            let names = entry.hsmTokens.joined(separator: ", ")
            return entry.hsmTokens.count == 1
                ? "The only HSM token that holds it is not available now: \(names)."
                : "None of the HSM tokens that hold it is available now: \(names)."
        }
        return nil
    }

    private func rotation(
        of merchant: String, _ use: KeyUse, _ algorithm: KeyAlgorithm
    ) async throws(Refusal) -> Rotation {
        let all = try await rotations(of: merchant)
        guard let rotation = all.first(where: { $0.use == use && $0.algorithm == algorithm }) else { throw .defect }
        return rotation
    }

    // MARK: Starting

    struct Start: Sendable {
        let merchantIdentifier: String
        var use = KeyUse.processing
        /// Nil: what the merchant's key is now.
        let algorithm: KeyAlgorithm?
        /// Nil: where the merchant's key is now.
        let hsmToken: String?
    }

    struct Started: Sendable {
        let rotation: Rotation
        /// Whether the key was made now, or in a dry run would be.
        let created: Bool
        /// Nil in a dry run.
        let request: CertificateRequest?
    }

    /// Makes the new key, unless one waits for its certificate already, and its certificate request.
    func start(
        _ start: Start, by caller: Caller, dryRun: Bool, draft: AuditDraft
    ) async throws(Refusal) -> Started {
        draft.setEvent(.keyGenerate)
        let merchant = start.merchantIdentifier
        try KeyAdministration.requireMerchantIdentifier(merchant)
        draft.setSubject(merchant: merchant)
        await startLock.acquire()
        defer { startLock.release() }
        let before = try await rotations(of: merchant).filter { $0.use == start.use }
        guard !before.isEmpty else {
            throw Refusal(
                .keyNotFound, "This merchant has no key for \(start.use.name) that could be rotated.",
                details: "a first one: POST /v1/keys, or POST /v1/keys/import")
        }
        let algorithm = if let wanted = start.algorithm { wanted } else { try Self.algorithm(before) }
        let rotation = before.first { $0.algorithm == algorithm }
        if let rotation, rotation.phase == .certificate, let entry = rotation.newKey?.entry, !isLost(entry) {
            if let hsmToken = start.hsmToken, !entry.hsmTokens.contains(hsmToken) {
                throw Refusal(
                    .invalidState, "A new key waits for its certificate already, and not in the token \(hsmToken).",
                    details: "\(rotation.newKey?.short ?? "") in \(entry.hsmTokens.joined(separator: ", "))")
            }
            let request = try await administration.certificateRequest(
                for: entry, by: caller, dryRun: dryRun, draft: draft)
            return Started(rotation: rotation, created: false, request: request)
        }
        if let rotation, !rotation.oldKeys.isEmpty {
            throw Refusal(
                .invalidState,
                "This merchant has two active \(algorithm.name) keys already: a rotation is under way. Finish it first, "
                    + "or make a further key all the same (POST /v1/keys).",
                details: rotation.next)
        }
        let order = KeyAdministration.KeyOrder(
            merchantIdentifier: merchant, algorithm: algorithm, use: start.use,
            hsmToken: start.hsmToken ?? hsmTokenOfKey(rotation))
        switch try await administration.generate(order, by: caller, dryRun: dryRun, draft: draft) {
        case .wouldMake:
            guard let shown = rotation ?? before.first else { throw .defect }
            return Started(rotation: shown, created: true, request: nil)
        case .made(let entry, _):
            // The generation is recorded. If the request is refused, that is recorded too, as an event of its own.
            draft.recorded(at: nil)
            let request = try await administration.certificateRequest(
                for: entry, by: caller, dryRun: false, draft: draft)
            return Started(
                rotation: try await self.rotation(of: merchant, start.use, algorithm), created: true, request: request)
        }
    }

    /// All HSM tokens are available and none shows the key: its certificate would come in vain.
    private func isLost(_ entry: KeyEntry) -> Bool {
        entry.condition == .missing && administration.hsmTokens.allSatisfy(\.isServing)
    }

    /// What the merchant's payment tokens are encrypted with now.
    private static func algorithm(_ rotations: [Rotation]) throws(Refusal) -> KeyAlgorithm {
        let serving = rotations.filter { $0.newKey != nil }
        guard serving.count < 2 else {
            throw Refusal(
                .malformedRequest, "This merchant has an EC and an RSA key; say which of them is rotated.",
                details: "type: EC or RSA")
        }
        return (serving.first ?? rotations[0]).algorithm
    }

    /// Where the key is that is to be replaced: the first HSM token of the configuration that takes calls.
    private func hsmTokenOfKey(_ rotation: Rotation?) -> String? {
        let holders = rotation?.newKey?.entry?.hsmTokens ?? []
        return administration.hsmTokens.first { holders.contains($0.name) && $0.isServing }?.name ?? holders.first
    }

    // MARK: The certificate

    /// Stores the new key's certificate and activates the key; any other certificate is refused.
    func importCertificate(
        _ der: [UInt8], allowExpired: Bool, by caller: Caller, dryRun: Bool, draft: AuditDraft
    ) async throws(Refusal) -> (outcome: KeyAdministration.Outcome, rotation: Rotation) {
        draft.setEvent(.certificateImport(certificate: AuditDigest.of(der)))
        let certificate = try KeyAdministration.read(der)
        draft.setSubject(key: certificate.publicKeyHash)
        let known = index.entry(certificate.publicKeyHash)
        // A certificate of the wrong purpose or merchant is left to the import below, which says what is wrong with it.
        if let known, certificate.purpose.use == known.use {
            try await requireRecorded(known)
            if certificate.names(known.merchantIdentifier) {
                draft.setSubject(merchant: known.merchantIdentifier)
                try await requireAwaited(certificate, of: known)
            }
        }
        let outcome = try await administration.importCertificate(
            der, allowExpired: allowExpired, by: caller, dryRun: dryRun, draft: draft)
        guard let merchant = known?.merchantIdentifier else { throw .defect }
        guard let use = certificate.purpose.use else { throw .defect }
        return (outcome, try await rotation(of: merchant, use, certificate.algorithm))
    }

    private func requireRecorded(_ known: KeyEntry) async throws(Refusal) {
        guard try await administration.keyRecord(of: known.publicKeyHash) != nil else {
            throw Refusal(
                .invalidState,
                "This certificate's key was made by other means and is not in the ledger: no rotation "
                    + "concerns it. POST /v1/certificates stores the certificate; adopting the key takes it into service.",
                details: known.publicKeyHash.hex)
        }
    }

    /// The certificate must be the new key's. One that the new key has already is taken again: a repetition is no
    /// mistake.
    private func requireAwaited(_ certificate: MerchantCertificate, of known: KeyEntry) async throws(Refusal) {
        let rotation = try await rotations(of: known.merchantIdentifier)
            .first { $0.algorithm == known.algorithm && $0.use == known.use }
        if let rotation, let newKey = rotation.newKey, newKey.publicKeyHash == certificate.publicKeyHash {
            if rotation.isUnderWay || newKey.entry?.certificate?.der == certificate.der { return }
        } else if let rotation, rotation.leftOver.contains(where: { $0.publicKeyHash == certificate.publicKeyHash }) {
            // Somebody generated another key after the request had been sent to Apple.
            return
        } else if let rotation, rotation.isUnderWay, let newKey = rotation.newKey {
            throw Refusal(
                .certificateUnsuitable,
                "This certificate is for another key of the merchant than the new one: it was made from another "
                    + "request. Upload the one that POST /v1/rotations answers.",
                details: "the certificate's key is \(certificate.publicKeyHash.hex.prefix(16)), the new one "
                    + newKey.short)
        }
        throw Refusal(
            .invalidState,
            "No rotation of this merchant waits for a certificate; POST /v1/certificates takes it all the same.")
    }

    // MARK: The end

    struct Finish: Sendable {
        var use = KeyUse.processing
        let algorithm: KeyAlgorithm?
        /// Nil: the old keys open nothing from now on.
        let cutOff: Date?
        let force: Bool
        let reason: AuditReason
    }

    struct Finished: Sendable {
        let rotation: Rotation
        let retired: [PublicKeyHash]
    }

    /// Deactivates the old keys, all of them in one transaction.
    func finish(
        _ merchant: String, _ finish: Finish, by caller: Caller, dryRun: Bool, draft: AuditDraft
    ) async throws(Refusal) -> Finished {
        draft.setEvent(.keyStateChange(KeyStateChange(from: nil, to: .deactivated, reason: finish.reason)))
        draft.setSubject(merchant: merchant)
        let rotation = try await rotation(toFinish: finish, of: merchant)
        let now = now
        let retired: [KeyRecord]
        do throws(RotationFinishError) {
            retired = try rotation.finished(cutOff: finish.cutOff, force: finish.force, now: now)
        } catch {
            throw rotation.refusal(error)
        }
        let hashes = retired.map(\.publicKeyHash)
        if let first = hashes.first { draft.setSubject(key: first) }
        guard !dryRun else { return Finished(rotation: rotation, retired: hashes) }
        var change = AdministrativeChange(at: now, records: [])
        change.furtherKeys = retired.map { keyRecord in
            var auditRecord = administration.recorder.auditRecord(of: draft, by: caller)
            auditRecord.publicKeyHash = AuditDigest(bytes: keyRecord.publicKeyHash.bytes)
            return AdministrativeChange.KeyChange(keyRecord, precondition: .state(.active), record: auditRecord)
        }
        try await administration.recorder.apply(change, for: draft)
        for hash in hashes { try await refusing(ledger: await administration.catalogue.keyChanged(hash)) }
        let after = try await self.rotation(of: merchant, rotation.use, rotation.algorithm)
        return Finished(rotation: after, retired: hashes)
    }

    /// The merchant's rotation of the wanted algorithm; without one, the only rotation that has old keys, or whichever
    /// there is.
    private func rotation(toFinish finish: Finish, of merchant: String) async throws(Refusal) -> Rotation {
        let all = try await rotations(of: merchant).filter { $0.use == finish.use }
        guard let any = all.first else {
            throw Refusal(.invalidState, "This merchant has no key for \(finish.use.name).", details: "use")
        }
        if let algorithm = finish.algorithm {
            guard let rotation = all.first(where: { $0.algorithm == algorithm }) else {
                throw Refusal(.invalidState, "This merchant has no key of that type.", details: "type")
            }
            return rotation
        }
        let finishable = all.filter { !$0.oldKeys.isEmpty }
        guard finishable.count < 2 else {
            throw Refusal(
                .malformedRequest, "An EC and an RSA key of this merchant are being rotated; say which is finished.",
                details: "type: EC or RSA")
        }
        return finishable.first ?? any
    }
}

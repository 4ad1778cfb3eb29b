import AuditChain
import Foundation
import Ledger
import MerchantKeys
import PaymentToken
import Refusals
import WorkerProtocol

/// Guided rotations: a new key and its request, its certificate, and the old key's end. Between these steps nothing is
/// remembered but the keys themselves, so each may be done by other means too (key generate, key retire).
struct KeyRotations: Sendable {
    let administration: KeyAdministration
    let arrivals: RefusedArrivals
    /// Of starting: a second start finds the first one's key.
    private let lock = AsyncLock()

    /// For how long old keys open late tokens: they arrive for minutes to hours after Apple's switch.
    static let standardCutOff: TimeInterval = 7 * 86_400
    /// For how long a key is in use after its last token.
    static let stillInUse: TimeInterval = 3600
    /// How far back a new key's first token is looked for.
    private static let longestLook: TimeInterval = 30 * 86_400

    init(administration: KeyAdministration, arrivals: RefusedArrivals) {
        self.administration = administration
        self.arrivals = arrivals
    }

    private var index: KeyIndex { administration.catalogue.index }
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
                    details: "a key to begin with again: paytokenctl key generate, or key import")
            }
            throw Refusal(
                .keyNotFound, "There is no key of this merchant here; paytokenctl key list shows those there are.",
                details: "a merchant's first key: paytokenctl key generate, or key import")
        }
        return rotations
    }

    private func rotations(where isMeant: (KeyRecord) -> Bool) async throws(Refusal) -> [Rotation] {
        let now = now
        let records: [KeyRecord]
        let usage: [PublicKeyHash: KeyUses]
        do {
            keyRecords = try await administration.ledger.keyRecords().filter(isMeant)
            usage = try await administration.ledger.usage(since: now.addingTimeInterval(-Self.stillInUse))
        } catch {
            throw error.refusal
        }
        let keys = keyRecords.map { keyRecord in
            Rotation.Key(
                keyRecord: keyRecord, entry: index.entry(keyRecord.publicKeyHash),
                lastHour: usage[keyRecord.publicKeyHash] ?? KeyUses(),
                refusedLastHour: arrivals.lastHour(keyRecord.publicKeyHash, now: now),
                wasUsed: index.uses(keyRecord.publicKeyHash).count > 0, fault: fault(keyRecord.publicKeyHash))
        }
        let seen = Rotation.all(among: keys, now: now)
        let silent = seen.filter { $0.isUnderWay }.compactMap(\.newKey)
            .filter { $0.keyRecord.state == .active && !$0.isProven }
        guard !silent.isEmpty else { return seen }
        // A quiet merchant's new key may have opened its tokens earlier than within the last hour.
        var used: Set<PublicKeyHash> = []
        for key in silent {
            let since = max(key.keyRecord.createdAt, now.addingTimeInterval(-Self.longestLook))
            do {
                if try await administration.ledger.wasUsed(key.publicKeyHash, since: since) {
                    used.insert(key.publicKeyHash)
                }
            } catch {
                throw error.refusal
            }
        }
        return Rotation.all(
            among: keys.map { key in
                var key = key
                key.wasUsed = key.wasUsed || used.contains(key.publicKeyHash)
                return key
            }, now: now)
    }

    /// Why a key opens nothing now, whatever its state.
    private func fault(_ hash: PublicKeyHash) -> String? {
        guard let entry = index.entry(hash) else { return "No token shows this key now." }
        if let why = entry.condition.explanation { return why }
        let holders = administration.hsmTokens.filter { entry.hsmTokens.contains($0.name) }
        guard holders.contains(where: { $0.isServing }) else {
            return "The only token that holds it is not available now: \(entry.hsmTokens.joined(separator: ", "))."
        }
        return nil
    }

    private func rotation(of merchant: String, _ algorithm: KeyAlgorithm) async throws(Refusal) -> Rotation {
        guard let rotation = try await rotations(of: merchant).first(where: { $0.algorithm == algorithm }) else {
            throw .defect
        }
        return rotation
    }

    // MARK: Starting

    struct Start: Sendable {
        let merchantIdentifier: String
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
        draft.is(.keyGenerate)
        let merchant = start.merchantIdentifier
        try KeyAdministration.requireMerchantIdentifier(merchant)
        draft.concerns(merchant: merchant)
        await lock.acquire()
        defer { lock.release() }
        let before = try await rotations(of: merchant)
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
                "This merchant has two active \(algorithm.name) keys already: a rotation is under way. Finish it first "
                    + "(rotate finish), or make a further key all the same with key generate.",
                details: rotation.next)
        }
        let order = KeyAdministration.KeyOrder(
            merchantIdentifier: merchant, algorithm: algorithm, hsmToken: start.hsmToken ?? hsmTokenOfKey(rotation))
        switch try await administration.generate(order, by: caller, dryRun: dryRun, draft: draft) {
        case .wouldMake:
            guard let shown = rotation ?? before.first else { throw .defect }
            return Started(rotation: shown, created: true, request: nil)
        case .made(let entry, _):
            // A refusal from here on is one of its own in the record.
            draft.recorded(at: nil)
            let request = try await administration.certificateRequest(
                for: entry, by: caller, dryRun: false, draft: draft)
            return Started(
                rotation: try await self.rotation(of: merchant, algorithm), created: true, request: request)
        }
    }

    /// All tokens are there, and none shows it: nothing will come of waiting for it.
    private func isLost(_ entry: KeyEntry) -> Bool {
        entry.condition == .missing && administration.hsmTokens.allSatisfy { $0.isServing }
    }

    /// What the merchant's tokens are encrypted with now.
    private static func algorithm(_ rotations: [Rotation]) throws(Refusal) -> KeyAlgorithm {
        let serving = rotations.filter { $0.newKey != nil }
        guard serving.count < 2 else {
            throw Refusal(
                .malformedRequest, "This merchant has an EC and an RSA key; say which of them is rotated.",
                details: "type: --type ec or --type rsa")
        }
        return (serving.first ?? rotations[0]).algorithm
    }

    /// Where the key is that is to be replaced: the first token of the configuration that takes calls.
    private func hsmTokenOfKey(_ rotation: Rotation?) -> String? {
        let holders = rotation?.newKey?.entry?.hsmTokens ?? []
        return administration.hsmTokens.first { holders.contains($0.name) && $0.isServing }?.name ?? holders.first
    }

    // MARK: The certificate

    /// Stores the new key's certificate and activates the key; any other certificate is refused.
    func importCertificate(
        _ der: [UInt8], allowExpired: Bool, by caller: Caller, dryRun: Bool, draft: AuditDraft
    ) async throws(Refusal) -> (outcome: KeyAdministration.Outcome, rotation: Rotation) {
        draft.is(.certificateImport(certificate: AuditDigest.of(der)))
        let certificate = try KeyAdministration.read(der)
        draft.concerns(key: certificate.publicKeyHash)
        let known = index.entry(certificate.publicKeyHash)
        // What is wrong with the certificate itself is told first, as by every import.
        if let known, certificate.kind == .paymentProcessing { try await requireRecord(of: known) }
        if let known, certificate.kind == .paymentProcessing, certificate.names(known.merchantIdentifier) {
            draft.concerns(merchant: known.merchantIdentifier)
            try await requireAwaited(certificate, of: known)
        }
        let outcome = try await administration.importCertificate(
            der, allowExpired: allowExpired, by: caller, dryRun: dryRun, draft: draft)
        guard let merchant = known?.merchantIdentifier else { throw .defect }
        return (outcome, try await rotation(of: merchant, certificate.algorithm))
    }

    private func requireRecord(of known: KeyEntry) async throws(Refusal) {
        guard try await administration.keyRecord(of: known.publicKeyHash) != nil else {
            throw Refusal(
                .invalidState,
                "This certificate's key was made by other means and is not in the ledger: no rotation "
                    + "concerns it. certificate import stores the certificate, key adopt takes the key into service.",
                details: known.publicKeyHash.hex)
        }
    }

    /// Whether it is the new key's, or there already: a repetition is no mistake.
    private func requireAwaited(_ certificate: MerchantCertificate, of known: KeyEntry) async throws(Refusal) {
        let rotation = try await rotations(of: known.merchantIdentifier).first { $0.algorithm == known.algorithm }
        if let rotation, let newKey = rotation.newKey, newKey.publicKeyHash == certificate.publicKeyHash {
            if rotation.isUnderWay || newKey.entry?.certificate?.der == certificate.der { return }
        } else if let rotation, rotation.leftOver.contains(where: { $0.publicKeyHash == certificate.publicKeyHash }) {
            // Somebody generated another key after the request had been sent to Apple.
            return
        } else if let rotation, rotation.isUnderWay, let newKey = rotation.newKey {
            throw Refusal(
                .certificateUnsuitable,
                "This certificate is for another key of the merchant than the new one: it was made from another "
                    + "request. Upload the one that rotate start writes.",
                details: "the certificate's key is \(certificate.publicKeyHash.hex.prefix(16)), the new one "
                    + newKey.short)
        }
        throw Refusal(
            .invalidState,
            "No rotation of this merchant waits for a certificate; certificate import takes it all the same.")
    }

    // MARK: The end

    struct Finish: Sendable {
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
        let event = AuditEvent.keyStateChange(
            KeyStateChange(from: nil, to: .deactivated, reason: finish.reason))
        draft.is(event)
        draft.concerns(merchant: merchant)
        let all = try await rotations(of: merchant)
        let candidates = all.filter { rotation in
            finish.algorithm.map { $0 == rotation.algorithm } ?? !rotation.oldKeys.isEmpty
        }
        guard candidates.count < 2 else {
            throw Refusal(
                .malformedRequest, "An EC and an RSA key of this merchant are being rotated; say which is finished.",
                details: "type: --type ec or --type rsa")
        }
        guard let rotation = candidates.first ?? all.first(where: { _ in finish.algorithm == nil }) else {
            throw Refusal(.invalidState, "This merchant has no key of that type.", details: "type")
        }
        let now = now
        let retired = try rotation.finished(cutOff: finish.cutOff, force: finish.force, now: now)
        let hashes = retired.map(\.publicKeyHash)
        if let first = hashes.first { draft.concerns(key: first) }
        guard !dryRun else { return Finished(rotation: rotation, retired: hashes) }
        var change = AdministrativeChange(at: now, records: [])
        change.furtherKeys = retired.map { key in
            var auditRecord = administration.recorder.auditRecord(of: draft, by: caller)
            auditRecord.publicKeyHash = AuditDigest(bytes: key.publicKeyHash.bytes)
            return AdministrativeChange.KeyChange(key, precondition: .state(.active), record: auditRecord)
        }
        try await administration.recorder.apply(change, for: draft)
        do throws(LedgerFailure) {
            for hash in hashes { try await administration.catalogue.keyChanged(hash) }
        } catch {
            throw error.refusal
        }
        return Finished(rotation: try await self.rotation(of: merchant, rotation.algorithm), retired: hashes)
    }
}

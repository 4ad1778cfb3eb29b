import AuditChain
import DaemonConfiguration
import FairShares
import Foundation
import KeyTypes
import Ledger
import MerchantKeys
import PaymentToken
import Refusals
import UsageRecording

/// Guides a merchant from an old key to a new one. Its steps generate the new key with a certificate request, import
/// the certificate, and deactivate the old key. For a Google Pay key, a person states what happened in Google's console
/// (GooglePayKeySteps). Only the keys themselves are stored between these steps. An operator may therefore also do a step
/// with another command, such as key generate or key retire.
struct KeyRotations: Sendable {
    let administration: KeyAdministration
    let arrivals: RefusedPaymentTokenCounts
    /// Returns true if this host's access rules permit decryption.
    var servesPayments: @Sendable () -> Bool = { true }
    /// Returns `google_pay.quiet` in seconds.
    var quiet: @Sendable () -> TimeInterval = { GooglePayRotation.standardQuiet }
    /// Allows one start of a rotation at a time. The second of two concurrent starts thus finds the key that the first has
    /// made.
    private let startLock = AsyncLock()
    let useSearches = KeyUseSearches()

    /// The default time for which old keys decrypt late payment tokens. Such payment tokens arrive for minutes to hours
    /// after Apple has switched to the new key.
    static let standardCutOff: TimeInterval = 7 * 86_400
    /// The seconds for which a key counts as in use after its last payment token.
    static let stillInUse: TimeInterval = 3600
    /// The length in seconds of the period up to now in which the ledger is searched for a new key's first payment token.
    static let firstUseSearchPeriod: TimeInterval = 30 * 86_400

    var index: KeyIndex { administration.catalogue.index }
    var ledger: any Ledger { administration.ledger }
    var now: Date { administration.clock.now() }

    // MARK: Reading

    /// Returns the rotations that are under way, of all merchants.
    func underWay() async throws(Refusal) -> [Rotation] {
        try await rotations { _ in true }.filter(\.isUnderWay)
    }

    /// Returns a merchant's rotations, under way or not: one for each use and algorithm of its keys.
    ///
    /// - Throws: `key_not_found` if the ledger has no key of that merchant that could be rotated.
    func rotations(of merchant: String) async throws(Refusal) -> [Rotation] {
        let rotations = try await rotations { $0.merchantIdentifier == merchant }
        guard !rotations.isEmpty else {
            if index.entries.contains(where: { $0.merchantIdentifier == merchant }) {
                throw Refusal(
                    .keyNotFound, "All keys of this merchant are compromised, destroyed or not adopted.",
                    details: "to start with a new key: POST /v1/keys, or POST /v1/keys/import")
            }
            throw Refusal(
                .keyNotFound, "This merchant has no key here; GET /v1/keys lists the keys.",
                details: "for a first key: POST /v1/keys, or POST /v1/keys/import")
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
        let underWay = seen.filter(\.isUnderWay)
        guard !underWay.isEmpty else { return seen }
        let new = Set(underWay.compactMap(\.newKey?.publicKeyHash))
        let old = Set(underWay.flatMap(\.oldKeys).map(\.publicKeyHash))
        for place in keys.indices {
            let hash = keys[place].publicKeyHash
            guard new.contains(hash) || old.contains(hash) else { continue }
            try await complete(&keys[place], isNew: new.contains(hash), now: now)
        }
        return Rotation.all(among: keys, now: now)
    }

    /// Returns the reason why no HSM token can use the key now; nil if an HSM token can use it. The key's state does
    /// not matter.
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

    func rotation(
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
        /// The new key's algorithm; nil for the algorithm of the merchant's current key.
        let algorithm: KeyAlgorithm?
        /// The name of the HSM token that is to generate the new key; nil for the one that holds the merchant's current
        /// key.
        let hsmToken: String?
    }

    struct Started: Sendable {
        let rotation: Rotation
        /// True if this call generated the new key, or would generate it in a dry run.
        let created: Bool
        /// The new key's certificate request; nil in a dry run, and for a Google Pay key.
        let request: CertificateRequest?
    }

    /// Generates the new key and its certificate request. If a key is already waiting for its certificate, only makes the
    /// request.
    func start(
        _ start: Start, by caller: Caller, dryRun: Bool, draft: AuditDraft
    ) async throws(Refusal) -> Started {
        draft.setEvent(.keyGenerate())
        let merchant = start.merchantIdentifier
        try KeyAdministration.requireMerchantIdentifier(merchant, start.use)
        draft.setSubject(merchant: merchant, of: start.use.wallet)
        await startLock.acquire()
        defer { startLock.release() }
        let before = try await rotations(of: merchant).filter { $0.use == start.use }
        guard !before.isEmpty else {
            throw Refusal(
                .keyNotFound, "This merchant has no key for \(start.use.name) that could be rotated.",
                details: "for a first key: POST /v1/keys, or POST /v1/keys/import")
        }
        let algorithm = if let wanted = start.algorithm { wanted } else { try Self.algorithm(before) }
        let rotation = before.first { $0.algorithm == algorithm }
        if let rotation, rotation.newKey?.awaitsActivation == true, let entry = rotation.newKey?.entry, !isLost(entry) {
            if let hsmToken = start.hsmToken, !entry.hsmTokens.contains(hsmToken) {
                throw Refusal(
                    .invalidState,
                    "A new key is already waiting, but not in HSM token \(hsmToken).",
                    details: "\(rotation.newKey?.short ?? "") in \(entry.hsmTokens.joined(separator: ", "))")
            }
            let request = try await request(for: entry, by: caller, dryRun: dryRun, draft: draft)
            return Started(rotation: rotation, created: false, request: request)
        }
        if let rotation, !rotation.oldKeys.isEmpty {
            throw Refusal(
                .invalidState,
                "This merchant already has two active \(algorithm.name) keys: a rotation is under way. Finish it first, "
                    + "or make another key anyway (POST /v1/keys).",
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
            // The generation is already recorded. The draft must not refer to the record of the generation, so that a
            // refused certificate request gets its own record.
            if start.use.hasCertificate { draft.recorded(at: nil) }
            let request = try await request(for: entry, by: caller, dryRun: false, draft: draft)
            return Started(
                rotation: try await self.rotation(of: merchant, start.use, algorithm), created: true, request: request)
        }
    }

    private func request(
        for entry: KeyEntry, by caller: Caller, dryRun: Bool, draft: AuditDraft
    ) async throws(Refusal) -> CertificateRequest? {
        guard entry.use.hasCertificate else { return nil }
        return try await administration.certificateRequest(for: entry, by: caller, dryRun: dryRun, draft: draft)
    }

    /// Returns true if all HSM tokens are open and none shows the key. A certificate for the key would then be useless.
    private func isLost(_ entry: KeyEntry) -> Bool {
        entry.condition == .missing && administration.hsmTokens.allSatisfy(\.isServing)
    }

    /// Returns the algorithm of the merchant's current key. Throws if the merchant has both a current EC key and a
    /// current RSA key.
    private static func algorithm(_ rotations: [Rotation]) throws(Refusal) -> KeyAlgorithm {
        let serving = rotations.filter { $0.newKey != nil }
        guard serving.count < 2 else {
            throw Refusal(
                .malformedRequest, "This merchant has an EC and an RSA key; name the one to rotate.",
                details: "type: EC or RSA")
        }
        return (serving.first ?? rotations[0]).algorithm
    }

    /// Returns the name of the HSM token that holds the key to replace. If several HSM tokens hold the key, prefers the
    /// first in the configuration that is open. Nil if no HSM token holds the key.
    private func hsmTokenOfKey(_ rotation: Rotation?) -> String? {
        let holders = rotation?.newKey?.entry?.hsmTokens ?? []
        return administration.hsmTokens.first { holders.contains($0.name) && $0.isServing }?.name ?? holders.first
    }

    // MARK: The certificate

    /// Stores the certificate of a rotation's new key, and activates the key. Also accepts a certificate for another
    /// generated key that has none yet. Refuses all other certificates.
    func importCertificate(
        _ der: [UInt8], allowExpired: Bool, by caller: Caller, dryRun: Bool, draft: AuditDraft
    ) async throws(Refusal) -> (outcome: KeyAdministration.Outcome, rotation: Rotation) {
        draft.setEvent(.certificateImport(certificate: AuditDigest.of(der)))
        let certificate = try KeyAdministration.read(der)
        draft.setSubject(key: certificate.publicKeyHash)
        let known = index.entry(certificate.publicKeyHash)
        // A certificate of the wrong purpose or merchant is refused by importCertificate below, which says what is wrong.
        if let known, certificate.purpose.use == known.use {
            try await requireRecorded(known)
            if certificate.names(known.merchantIdentifier) {
                draft.setSubject(merchant: known.merchantIdentifier)
                try await requireForNewKey(certificate, of: known)
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
                "This certificate's key was made outside paytokend and is not in the ledger, so no rotation includes "
                    + "it. Store the certificate with POST /v1/certificates, then adopt the key.",
                details: known.publicKeyHash.hex)
        }
    }

    /// Throws unless the certificate is for the new key of a rotation, or for another generated key that has none yet.
    /// A certificate that the new key already has is accepted too, since repeating the import is not an error.
    private func requireForNewKey(_ certificate: MerchantCertificate, of known: KeyEntry) async throws(Refusal) {
        let rotation = try await rotations(of: known.merchantIdentifier)
            .first { $0.algorithm == known.algorithm && $0.use == known.use }
        if let rotation, let newKey = rotation.newKey, newKey.publicKeyHash == certificate.publicKeyHash {
            if rotation.isUnderWay || newKey.entry?.certificate?.der == certificate.der { return }
        } else if let rotation, rotation.leftOver.contains(where: { $0.publicKeyHash == certificate.publicKeyHash }) {
            // The request for this key was sent to Apple before another key was generated, so the certificate that
            // Apple issued for it is accepted.
            return
        } else if let rotation, rotation.isUnderWay, let newKey = rotation.newKey {
            throw Refusal(
                .certificateUnsuitable,
                "This certificate is for another key of the merchant, not for the new one: it was made from another "
                    + "request. Upload the request that POST /v1/rotations returns.",
                details: "the certificate's key is \(certificate.publicKeyHash.hex.prefix(16)), the new one "
                    + newKey.short)
        }
        throw Refusal(
            .invalidState,
            "No rotation of this merchant waits for a certificate; store it with POST /v1/certificates.")
    }

    // MARK: The end

    struct Finish: Sendable {
        var use = KeyUse.processing
        let algorithm: KeyAlgorithm?
        /// The time until which the old keys decrypt; nil if they stop at once.
        let cutOff: Date?
        let force: Bool
        let reason: AuditReason
        /// True if this host serves no payments, and the new key has opened payment tokens on those that do.
        var isServedElsewhere = false
        /// True if every node has proved the new key, and a person says that a test has succeeded.
        var isProven = false
        /// The key that must be the new one; nil for the newest active key. Another key may become active meanwhile.
        var newKey: PublicKeyHash?
        /// The old key to retire; nil for all.
        var oldKey: PublicKeyHash?
        /// The time at which a person removed the old key in Google's console; nil for keys of other wallets.
        var removedAt: Date?
    }

    struct Finished: Sendable {
        let rotation: Rotation
        let retired: [PublicKeyHash]
    }

    /// Finishes a merchant's rotation: deactivates the rotation's old keys in one transaction.
    ///
    /// - Parameter renewal: the end of the renewal in the same transaction, and its record; nil for a rotation without one.
    func finish(
        _ merchant: String, _ finish: Finish, with renewal: (AdministrativeChange.RenewalStep, AuditRecord)? = nil,
        by caller: Caller, dryRun: Bool, draft: AuditDraft
    ) async throws(Refusal) -> Finished {
        draft.setEvent(.keyStateChange(KeyStateChange(from: nil, to: .deactivated, reason: finish.reason)))
        draft.setSubject(merchant: merchant, of: finish.use.wallet)
        let rotation = try await rotation(toFinish: finish, of: merchant)
        if let newKey = finish.newKey, rotation.newKey?.publicKeyHash != newKey {
            throw Refusal(
                .invalidState,
                "The renewed key is not the newest active key of this merchant, so no key is deactivated.",
                details: "GET /v1/rotations/{merchant}")
        }
        let now = now
        let retired: [KeyRecord]
        do throws(RotationFinishError) {
            retired = try rotation.finished(
                only: finish.oldKey, cutOff: finish.cutOff, force: finish.force,
                isServedElsewhere: finish.isServedElsewhere,
                isProven: finish.isProven, now: now)
        } catch {
            throw rotation.refusal(error)
        }
        let hashes = retired.map(\.publicKeyHash)
        if let first = hashes.first { draft.setSubject(key: first) }
        guard !dryRun else { return Finished(rotation: rotation, retired: hashes) }
        var change = AdministrativeChange(at: now, records: renewal.map { [$0.1] } ?? [])
        change.renewal = renewal?.0
        change.furtherKeys = retired.map { keyRecord in
            var auditRecord = administration.recorder.auditRecord(of: draft, by: caller)
            auditRecord.publicKeyHash = AuditDigest(bytes: keyRecord.publicKeyHash.bytes)
            auditRecord.event = .keyStateChange(
                KeyStateChange(
                    from: nil, to: .deactivated, cutOff: keyRecord.cutOff.map { AuditTime($0) },
                    removedAt: finish.removedAt.map { AuditTime($0) }, reason: finish.reason))
            return AdministrativeChange.KeyChange(keyRecord, precondition: .state(.active), record: auditRecord)
        }
        try await administration.recorder.apply(change, for: draft)
        for hash in hashes { try await refusing(ledger: await administration.catalogue.keyChanged(hash)) }
        let after = try await self.rotation(of: merchant, rotation.use, rotation.algorithm)
        return Finished(rotation: after, retired: hashes)
    }

    /// Returns the merchant's rotation of the requested algorithm. If no algorithm is requested, returns the only
    /// rotation that has old keys, and throws if several have. If none has old keys, returns any rotation of the
    /// merchant.
    private func rotation(toFinish finish: Finish, of merchant: String) async throws(Refusal) -> Rotation {
        let ofEachUse = try await rotations(of: merchant)
        let all = ofEachUse.filter { $0.use == finish.use }
        guard let any = all.first else {
            if finish.use == .processing, ofEachUse.contains(where: { $0.use == .googlePay }) {
                throw Refusal(
                    .invalidState,
                    "An old Google Pay key is deactivated by a person's statement that it was removed in Google's console.",
                    details: "POST /v1/rotations/removed")
            }
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
                .malformedRequest, "An EC and an RSA key of this merchant are being rotated; name the one to finish.",
                details: "type: EC or RSA")
        }
        return finishable.first ?? any
    }
}

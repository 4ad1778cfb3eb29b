import AuditChain
import Foundation
import HostSystem
import KeyTypes
import Ledger
import Locks
import Logging
import MerchantKeys
import PaymentToken
import Refusals
import UsageRecording

/// The work of a node with merchants' keys for open renewals: it makes the certificate request, imports the certificate,
/// and proves the new key. The node that reaches Apple may have no merchant's key, so both are exchanged in the ledger.
///
/// Nothing here changes anything at Apple.
final class RenewalWork: Sendable {
    private let administration: KeyAdministration
    private let proving: KeyProving
    private let search: KeySearch
    private let gauges: RenewalGauges
    private let logger: Logger
    /// The time for all pauses. A test sets it.
    private let instant: @Sendable () -> ContinuousClock.Instant

    private struct State {
        /// The time until which nothing is tried for a key, after a failure.
        var paused: [PublicKeyHash: ContinuousClock.Instant] = [:]
        /// The same for proofs only, with the number of failed proofs. Each leaves a record, so the pauses grow.
        var failedProofs: [PublicKeyHash: (count: Int, until: ContinuousClock.Instant)] = [:]
        /// The keys that need no proof as they are, and the time until which this counts.
        var proved: [PublicKeyHash: (entry: KeyEntry, until: ContinuousClock.Instant)] = [:]
        /// True if the last reading of the open renewals failed.
        var isUnread = false
        /// The reason for which a key's renewal waits for this node. It is logged once.
        var waiting: [PublicKeyHash: String] = [:]
        /// The digests of the certificates that this process has imported. A key may keep a newer one.
        var imported: Set<AuditDigest> = []
    }

    private let state = Mutex(State())

    private static let interval = Duration.seconds(2)
    private static let pauseAfterFailure = Duration.seconds(30)
    private static let longestPause = Duration.seconds(3600)
    /// The time between two searches for the proofs of a key that needs none. The ledger may have hundreds of open renewals.
    private static let proofInterval = Duration.seconds(30)
    /// The age from which a proof is repeated: half of the age from which it no longer counts.
    private static let proofAge = Renewal.longestProofAge / 2

    init(
        administration: KeyAdministration, proving: KeyProving, search: KeySearch, gauges: RenewalGauges,
        logger: Logger, instant: @escaping @Sendable () -> ContinuousClock.Instant = { .now }
    ) {
        (self.administration, self.proving, self.search) = (administration, proving, search)
        (self.gauges, self.logger, self.instant) = (gauges, logger, instant)
    }

    func start() -> Task<Void, Never> { Task.repeating(every: Self.interval) { [self] in await run() } }

    /// Takes the steps of the open renewals that are this node's.
    func run() async {
        let open: [StoredRenewal]
        do throws(LedgerFailure) {
            open = try await administration.ledger.openRenewals()
            state.withLock { $0.isUnread = false }
        } catch {
            let wasUnread = state.withLock { state in
                defer { state.isUnread = true }
                return state.isUnread
            }
            if !wasUnread {
                logger.warning("the open renewals were not read", metadata: ["reason": "\(error.description)"])
            }
            return
        }
        gauges.show(open)
        for stored in open {
            guard let key = stored.renewal.newKey, !isPaused(key) else { continue }
            await search.search(for: key)
            do throws(Refusal) {
                guard let entry = administration.catalogue.index.entry(key), !entry.hsmTokens.isEmpty else { continue }
                try await advance(stored, entry)
                state.withLock { $0.waiting[key] = nil }
            } catch {
                guard pause(key, because: error.message) else { continue }
                logger.notice(
                    "a renewal waits for this node",
                    metadata: ["key": "\(key.hex.prefix(16))", "reason": "\(error.message)"])
            }
        }
    }

    private func isPaused(_ key: PublicKeyHash) -> Bool {
        state.withLock { state in state.paused[key].map { instant() < $0 } ?? false }
    }

    /// Returns true if the reason is another than that of the last pause.
    private func pause(_ key: PublicKeyHash, because reason: String) -> Bool {
        state.withLock { state in
            state.paused[key] = instant() + Self.pauseAfterFailure
            defer { state.waiting[key] = reason }
            return state.waiting[key] != reason
        }
    }

    private func advance(_ stored: StoredRenewal, _ entry: KeyEntry) async throws(Refusal) {
        var entry = entry
        // First the import: wallets may use the certificate already.
        if let certificate = stored.certificate, let imported = try await importing(certificate, entry) {
            entry = imported
        }
        if stored.request == nil,
            let request = try await administration.certificateRequest(
                for: entry, by: nil, dryRun: false, draft: AuditDraft())
        {
            var change = AdministrativeChange(at: administration.clock.now(), records: [])
            change.renewal = .store(request: request.der, of: stored.identifier)
            try await refusing(ledger: await administration.ledger.apply(change))
        }
        let key = entry.publicKeyHash
        let mayProve = state.withLock { state in state.failedProofs[key].map { $0.until <= instant() } ?? true }
        // Before the start by this node's clock, a proof would not count.
        let now = administration.clock.now()
        let since = Optional(stored).firstProof(at: now, longestAge: Self.proofAge)
        guard mayProve, since <= now, try await needsProof(entry, since: since) else { return }
        // Payments may reach each HSM token of this node, so this node's proofs count for all of them.
        let missing = administration.catalogue.index.hsmTokens(
            proving.hsmTokens, without: key, of: entry.merchantIdentifier, entry.use, entry.algorithm)
        guard missing.isEmpty else {
            throw Refusal(
                .invalidState,
                "The new key is not in the HSM tokens \(missing.joined(separator: ", ")) of this node; clone it.")
        }
        let isProved = try await proving.prove(entry, by: nil, draft: AuditDraft()).isProved
        state.withLock { state in
            let count = isProved ? 0 : min((state.failedProofs[key]?.count ?? 0) + 1, 8)
            let pause = min(Self.pauseAfterFailure * (1 << max(count - 1, 0)), Self.longestPause)
            state.failedProofs[key] = count == 0 ? nil : (count, instant() + pause)
        }
    }

    /// Imports Apple's certificate, unless the key has it or it was imported before.
    private func importing(_ certificate: [UInt8], _ entry: KeyEntry) async throws(Refusal) -> KeyEntry? {
        let digest = AuditDigest.of(certificate)
        guard entry.certificate?.der != certificate, !state.withLock({ $0.imported.contains(digest) }) else {
            return nil
        }
        let outcome = try await administration.importCertificate(
            certificate, allowExpired: false, by: nil, dryRun: false, draft: AuditDraft())
        state.withLock { _ = $0.imported.insert(digest) }
        guard case .changed(let changed, _) = outcome else { return nil }
        return changed
    }

    /// Returns true unless each of this node's HSM tokens that show the key has proved it, with its certificate if it has one,
    /// since the last failure of one that no longer does.
    private func needsProof(_ entry: KeyEntry, since: Date) async throws(Refusal) -> Bool {
        let ledger = administration.ledger
        let isKnown = state.withLock { state in
            state.proved[entry.publicKeyHash].map { $0.entry == entry && instant() < $0.until } ?? false
        }
        guard !isKnown else { return false }
        let certificate = entry.certificate.flatMap { AuditDigest(bytes: $0.sha256) }
        let newest = Dictionary(
            try await refusing(ledger: await ledger.proofs(of: entry.publicKeyHash, since: since))
                .filter { $0.node.name == ledger.node }.map { ($0.hsmToken, $0) }
        ) { first, _ in first }
        let shown = proving.hsmTokens.filter(entry.hsmTokens.contains)
        let isMissing = shown.contains { newest[$0].map { !$0.succeeded || $0.certificate != certificate } ?? true }
        guard !isMissing else { return true }
        // An earlier failure outweighs a proof that followed it closely. This HSM token may have been removed meanwhile.
        let latest = administration.clock.now().addingTimeInterval(-Renewal.largestProofDuration)
        let success = newest.values.filter(\.succeeded).map(\.at).max() ?? .distantPast
        let isOutweighed = newest.values.contains {
            !$0.succeeded && $0.at < latest && $0.at >= success.addingTimeInterval(-Renewal.largestProofDuration)
        }
        if !isOutweighed {
            state.withLock { $0.proved[entry.publicKeyHash] = (entry, instant() + Self.proofInterval) }
        }
        return isOutweighed
    }
}

import ConfigurationFile
import DaemonAPI
import DaemonConfiguration
import Encodings
import Foundation
import HTTPListener
import KeyTypes
import Ledger
import MerchantKeys
import PaymentToken
import Refusals
import ServerProgram
import UsageRecording
import WorkerProtocol
import WorkerSupervision

/// Verifies and decrypts payment tokens of both wallets. Decryption and verification follow the steps of Apple's "Payment
/// token format reference" from top to bottom, and stop at the first failure. Verification ends after step 1. A
/// ``WalletPayment`` has what differs between the wallets.
///
/// The order is part of the public contract, and security depends on it. The HSM receives only what the wallet's company
/// signed. A claim is made only for a payment that was decrypted and compared. Only a claimed payment leaves the daemon.
struct TokenDecryptor: Sendable {
    let policies: CurrentPolicies
    let keys: KeyIndex
    let hsm: any TransactionDecrypting
    let opening: FirstOpening
    let commit: UseCommit
    let ledgerClock: LedgerClock
    let arrivals: RefusedPaymentTokenCounts
    let instruments: Instruments
    let refusedMessages = RefusedMessages()

    private var ledger: any Ledger { commit.recorder.ledger }
    private var faults: FaultLog { commit.recorder.faults }
    private var clock: WallClock { ledgerClock.clock }

    /// Verifies, decrypts and claims a payment token of Apple Pay.
    /// - Parameters:
    ///   - draft: collects the facts for the audit record as they become known.
    ///   - origin: the request's connection. If the peer closes the connection before the HSM call begins, that call is
    ///     not made. Once the HSM call has begun, the release continues even if the peer closes the connection.
    ///   - turn: the peer's turn on the event loop of its connection. This function ends the turn once the wallet's
    ///     signature has been verified.
    func decrypt(
        _ request: DecryptRequest, for caller: Caller, draft: AuditDraft, from origin: RequestOrigin? = nil,
        turn: LoopTurn? = nil
    ) async throws(Refusal) -> ReleasedPayment {
        let (policies, now) = (policies.current, clock.now())
        // Step 1: verify Apple's signature, its certificate chain, and its signing time.
        let payment = try await ApplePayment(request, for: caller, trust: policies.trust, draft: draft)
        turn?.end()
        let released = try await release(payment, for: caller, policies, at: now, draft: draft, from: origin)
        return payment.answer(released)
    }

    /// Carries out steps 2 to 7 for a payment token whose signature has been verified, and counts a refusal.
    func release<Payment: WalletPayment>(
        _ payment: Payment, for caller: Caller, _ policies: Policies, at now: Date, draft: AuditDraft,
        from origin: RequestOrigin?
    ) async throws(Refusal) -> Released<Payment.Payload> {
        var key: KeyEntry?
        do throws(Refusal) {
            return try await release(payment, for: caller, policies, at: now, draft: draft, from: origin, with: &key)
        } catch {
            if let hash = key?.publicKeyHash {
                instruments.count(error, of: hash)
                if error.code != .transactionReplayed, error != .peerHasLeft { arrivals.count(hash, at: clock.now()) }
            }
            throw error
        }
    }

    /// - Parameter usedKey: receives the key that an Apple Pay token names, once the caller is known to be allowed to use
    ///   it, or the key that opened a Google Pay message. The parameter keeps its value if a later step throws.
    private func release<Payment: WalletPayment>(
        _ payment: Payment, for caller: Caller, _ policies: Policies, at now: Date, draft: AuditDraft,
        from origin: RequestOrigin?, with usedKey: inout KeyEntry?
    ) async throws(Refusal) -> Released<Payment.Payload> {
        var release = try payment.release(for: caller, at: now)
        let window = caller.signingTimeWindow ?? policies.signingTimeWindow
        let repeatability = try await repeatability(of: payment, window, release: release)
        release.allowsFirstRelease = repeatability == nil

        // Step 2: find the merchant keys: the one that an Apple Pay token names, or those of a Google Pay merchant.
        let known = try await knownKeys(for: payment, at: now)
        let merchant = known[0].merchantIdentifier
        draft.setSubject(merchant: merchant, of: Payment.wallet)
        try payment.requirePermission(of: caller, for: merchant)
        // A Google Pay message names no key, so its refusal before the decryption counts for none.
        if Payment.wallet == .applePay { usedKey = known[0] }
        try payment.checkBeforeDecryption(merchant: merchant, for: caller, draft: draft)
        let (usable, unavailable) = try await usableKeys(known, for: Payment.wallet, at: now)

        if repeatability == .no { throw Self.replayed }
        if repeatability == .byOther { throw Self.releasedByOther }
        // This check precedes the HSM call. Otherwise a caller that repeats without end would take the HSM's time from
        // other callers.
        if repeatability == .tooOften || ledger.isUsedUp(release.transactionId) { throw Self.repeatedTooOften }

        // Nothing would be released, so the HSM is not used.
        try commit.gate.admit()
        guard origin?.hasLeft != true else { throw .peerHasLeft }
        try payment.checkTimesBeforeDecryption(window, for: caller, release: release, draft: draft)
        ledger.releasesUnderWay.begin()
        defer { ledger.releasesUnderWay.end() }
        // Steps 3 and 4: restore the symmetric key in the HSM, and decrypt the payment data.
        let (key, opened) = try await open(
            payment, with: usable, or: unavailable, for: caller, draft: draft, from: origin)
        usedKey = key
        release.publicKeyHash = key.publicKeyHash
        draft.setSubject(key: key.publicKeyHash)
        draft.used(hsmToken: opened.hsmToken, protection: opened.tier)
        let payload: Payment.Payload
        do throws(Refusal) {
            // Step 6 comes before step 5: no claim is made for a payment that the caller does not expect.
            payload = try payment.check(opened.plaintext, window, for: caller, release: &release, draft: draft)
        } catch {
            await countIfRepeat(release)
            throw error
        }

        // Step 5: claim the transaction, so that the payment is released only once.
        let claimed = try await claim(release, by: caller, draft: draft)
        keys.countUse(key.publicKeyHash, at: now)
        instruments.keyUses.increment([key.publicKeyHash.hex])

        // Step 7: return the payment, which the caller may now process.
        return Released(
            key: key, opened: opened, payload: payload, isRepeat: claimed.isRepeat, audit: claimed.audit)
    }

    /// A payment that was decrypted, compared and claimed. Its plaintext leaves the daemon in the answer alone.
    struct Released<Payload: Sendable>: Sendable {
        let key: KeyEntry
        let opened: OpenedTransaction
        let payload: Payload
        /// True if the same caller received the payment before.
        let isRepeat: Bool
        /// The reference of the release's audit record.
        let audit: AuditReference?
    }

    /// Refuses a payment token outside the signing-time window, unless its release may be a repeat. The contract
    /// exempts repeats from the window, but from no other check. Only the claim, which is made later, decides if the
    /// release is a repeat.
    ///
    /// A Google Pay message shows its times only after its decryption. Its claim is therefore read in any case, and a
    /// message that was released to another caller, or under another reference, is refused before the HSM is used.
    ///
    /// - Returns: nil if a first release is permitted, as far as is known before the decryption. Otherwise the kind of
    ///   repeat, never ``Repeatability/unclaimed``; ``Repeatability/no`` only for a Google Pay message.
    private func repeatability<Payment: WalletPayment>(
        of payment: Payment, _ window: SigningTimeWindow, release: Release
    ) async throws(Refusal) -> Repeatability? {
        guard let signedAt = release.signedAt else {
            let repeatability = try await repeatability(of: release)
            guard repeatability == .unclaimed else { return repeatability }
            if let refusal = payment.refusalOfFirstRelease { throw refusal }
            return nil
        }
        do throws(Refusal) {
            try window.check(signingTime: signedAt, now: release.at)
            return nil
        } catch {
            guard release.referenceDigest != nil else { throw error }
            let repeatability = try await repeatability(of: release)
            guard repeatability != .no, repeatability != .unclaimed else { throw error }
            return repeatability
        }
    }

    /// Returns the payment's keys, at least one. Waits for a key that no HSM token has listed yet, while the HSM tokens
    /// are opened for the first time, and until ``LedgerGate`` has compared the ledger with the HSM token.
    private func knownKeys<Payment: WalletPayment>(
        for payment: Payment, at now: Date
    ) async throws(Refusal) -> [KeyEntry] {
        var known = payment.keys(in: keys, at: now)
        if commit.gate.position == .waiting || known.contains(where: { $0.condition == .missing }) {
            let (keys, gate) = (keys, commit.gate)
            await opening.pass {
                gate.position != .waiting
                    && !payment.keys(in: keys, at: now).contains { $0.condition == .missing }
            }
            known = payment.keys(in: keys, at: now)
        }
        guard !known.isEmpty else { throw payment.unknownKey(in: keys) }
        return known
    }

    /// Returns the keys that may decrypt now, and a refusal if another key might decrypt too and is not available.
    /// - Throws: the reason why the first key may not, if none may.
    private func usableKeys(
        _ known: [KeyEntry], for wallet: Wallet, at now: Date
    ) async throws(Refusal) -> (usable: [KeyEntry], unavailable: Refusal?) {
        let keyTime =
            known.contains { $0.state == .deactivated }
            ? try await refusing(ledger: await ledgerClock.compare()).confirmed : now
        var usable: [KeyEntry] = []
        var (refusal, unavailable): (Refusal?, Refusal?)
        for key in known {
            do throws(Refusal) {
                try requireDecrypting(of: key, for: wallet, at: keyTime)
                usable.append(key)
            } catch {
                refusal = refusal ?? error
                if error.code == .hsmUnavailable { unavailable = error }
            }
        }
        if let refusal, usable.isEmpty { throw refusal }
        return (usable, unavailable)
    }

    private func requireDecrypting(of key: KeyEntry, for wallet: Wallet, at now: Date) throws(Refusal) {
        switch key.condition {
        // No wallet encrypts to a key of another use. An Apple Pay token can still name one, since Apple's signature does
        // not cover the publicKeyHash.
        case _ where key.use != wallet.keyUse:
            throw Refusal(
                .keyNotActive,
                "The key's use is \(key.use.name) and never changes: it opens no payment tokens of this wallet.")
        // An HSM token may list a missing key again later. The refusal of a missing key therefore permits a retry,
        // unless the key's state forbids decryption.
        case .served, .missing:
            guard key.decrypts(at: now) else { throw Self.notActive(key) }
            if key.condition == .missing {
                throw Refusal(.hsmUnavailable, "The ledger has the merchant key, but no HSM token lists it at present.")
            }
        case .external:
            throw Refusal(
                .keyNotActive, "The merchant key was made outside paytokend and has not been adopted; adopt it first.")
        case .inconsistent:
            // The HSM token's worker also lists a key as inconsistent if the HSM token has no tier for the key's type,
            // since the worker then cannot test the key.
            if key.decrypts(at: now), let lack = hsm.missingTier(for: key) {
                throw Refusal(
                    .hsmUnavailable, "The HSM that holds the merchant key cannot open payments for keys of its type.",
                    details: lack)
            }
            throw Refusal(
                .keyNotActive,
                "The merchant key, its identifier and its certificate disagree; GET /v1/keys/{key} says how.")
        }
    }

    /// The refusal for a key whose state does not decrypt.
    private static func notActive(_ key: KeyEntry) -> Refusal {
        guard key.state == .deactivated, let cutOff = key.cutOff else {
            return Refusal(
                .keyNotActive, "The merchant key is in the state \(key.state.rawValue), in which it does not decrypt.")
        }
        return Refusal(
            .keyNotActive,
            "The merchant key is in the state deactivated and its cut-off, \(RFC3339.string(cutOff)), has passed: it no "
                + "longer decrypts.")
    }

    /// Opens the payment with the first key that fits. Only a Google Pay message has several keys, since it names none.
    /// - Parameter unavailable: the refusal if a further key could not be tried; nil if all can.
    /// - Throws: `decryption_failed` if no key fits; another refusal if a key could not be tried.
    private func open<Payment: WalletPayment>(
        _ payment: Payment, with keys: [KeyEntry], or unavailable: Refusal?, for caller: Caller, draft: AuditDraft,
        from origin: RequestOrigin?
    ) async throws(Refusal) -> (KeyEntry, OpenedTransaction) {
        var untried = unavailable
        var hasReachedHSM = false
        for key in keys {
            do throws(Refusal) {
                let decryption = try payment.decryption(with: key)
                draft.tries(key.publicKeyHash)
                return (key, try await open(decryption, with: key, for: caller, draft: draft, from: origin))
            } catch {
                // A later key that was not sent does not undo an earlier use.
                hasReachedHSM = hasReachedHSM || draft.facts.mayHaveReachedHSM
                draft.mayHaveReachedHSM(hasReachedHSM)
                if error.code == .decryptionFailed { continue }
                // After a passed deadline or ended workers, for example, each further key would cost the same again.
                guard error.code == .hsmUnavailable, error.retryAfter == nil, error != .peerHasLeft else { throw error }
                untried = untried ?? error
            }
        }
        throw untried ?? .decryptionFailed
    }

    private func open(
        _ decryption: Decryption, with key: KeyEntry, for caller: Caller, draft: AuditDraft, from origin: RequestOrigin?
    ) async throws(Refusal) -> OpenedTransaction {
        draft.mayHaveReachedHSM(true)
        do {
            let opened = try await hsm.decrypt(
                decryption, heldBy: key.hsmTokens,
                for: Requester(caller, from: origin))
            faults.ended(Self.hsmComponent)
            return opened
        } catch {
            draft.mayHaveReachedHSM(!error.isUnsent)
            if error == PendingCall.abandonedByCaller { throw .peerHasLeft }
            let refusal = error.refusal
            if refusal.code != .decryptionFailed { faults.began(Self.hsmComponent, error.message) }
            throw refusal
        }
    }

    /// The HSM's component name in fault log lines.
    private static let hsmComponent = "hsm"

    private static let repeatedTooOften = Refusal(
        .transactionReplayed, "This transaction was released before; do not process it a second time.",
        details: "the same caller gets it again only with the reference of the first request, and its "
            + "\(Release.maximumRepeats) repeats are used up")

    private static let replayed = Refusal(
        .transactionReplayed, "This transaction was released before; do not process it a second time.",
        details: "the same caller gets it again only with the reference of the first request")

    private static let releasedByOther = Refusal(
        .transactionReplayed,
        "This transaction was released before, by an attempt that this request does not name; do not process it a second "
            + "time.",
        details: "the last release was by an attempt that is not in after")

    /// Counts a repeat that is refused because its payment is not what the caller expects. Such a repeat counts towards
    /// the limit of repeats, since it used the HSM as much as a released one. If counting fails, the repeat is refused
    /// for its original reason.
    private func countIfRepeat(_ release: Release) async {
        guard release.referenceDigest != nil else { return }
        do throws(LedgerFailure) {
            try await ledger.countRefusedRepeat(release)
        } catch {
            faults.began(FaultLog.ledger, error.description)
        }
    }

    private func repeatability(of release: Release) async throws(Refusal) -> Repeatability {
        // Before the ledger is compared nothing is released, and the comparison needs the ledger's reader.
        let gate = commit.gate
        await opening.pass { gate.position != .waiting }
        try gate.admit()
        do throws(LedgerFailure) {
            return try await ledger.wouldRepeat(release)
        } catch {
            faults.began(FaultLog.ledger, error.description)
            throw error.refusal
        }
    }

    /// Claims the transaction in the ledger.
    /// - Returns: two values. `isRepeat` is true if the same caller received the payment before; `audit` is the
    ///   reference of the audit record.
    private func claim(
        _ release: Release, by caller: Caller, draft: AuditDraft
    ) async throws(Refusal) -> (isRepeat: Bool, audit: AuditReference?) {
        let outcome = try await commit.make(of: draft, by: caller, refusal: \.refusal) {
            (ledger, auditRecord) async throws(LedgerFailure) in
            let recorded = try await ledger.release(release, recording: auditRecord)
            return (recorded.verdict, recorded.sequence)
        }
        switch outcome.verdict {
        case .released, .repeated:
            guard !outcome.isTooLate else {
                throw Refusal(
                    .ledgerUnavailable,
                    "The release was recorded, but too late for an answer; repeat with the same reference.")
            }
            return (outcome.verdict == .repeated, outcome.audit)
        case .replayed:
            throw Self.replayed
        case .repeatedTooOften:
            throw Self.repeatedTooOften
        case .releasedByOther:
            throw Self.releasedByOther
        case .forgotten(let before):
            throw Refusal(
                .transactionReplayed,
                "This transaction may have been released before: the ledger no longer has claims for payment tokens "
                    + "this old.",
                details: "payment tokens signed before \(RFC3339.string(before)) are refused; if that time is recent, "
                    + "check this host's clock and GET /v1/status")
        case .beforeRestore(let fence):
            throw Refusal(
                .transactionReplayed,
                "This transaction may have been released before: an older ledger, which lacks later releases, was "
                    + "taken into service.",
                details: "payment tokens signed before \(RFC3339.string(fence)) are refused")
        case .held:
            throw Refusal(
                .ledgerUnavailable,
                "No host releases payments at present, because the ledger may be an older copy; GET /v1/status says "
                    + "what to do.")
        case .keyNotActive:
            if let key = keys.entry(release.publicKeyHash), !key.decrypts(at: clock.now()) {
                throw Self.notActive(key)
            }
            throw Refusal(.keyNotActive, "The merchant key's state was changed; the key no longer decrypts.")
        }
    }
}

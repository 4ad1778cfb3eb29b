import ConfigurationFile
import DaemonAPI
import Encodings
import Foundation
import HTTPListener
import Ledger
import MerchantKeys
import PaymentToken
import Refusals
import ServerProgram
import StrictJSON
import WorkerProtocol
import WorkerSupervision

/// Verifies and decrypts payment tokens. Decryption and verification follow the steps of Apple's "Payment token format
/// reference" from top to bottom, and stop at the first failure. Verification ends after step 1.
///
/// The order is part of the public contract, and security depends on it. The HSM receives only what Apple signed. A claim
/// is made only for a payment that was decrypted and compared. Only a claimed payment leaves the daemon.
struct TokenDecryptor: Sendable {
    let policies: CurrentPolicies
    let keys: KeyIndex
    let hsm: any TransactionDecrypting
    let opening: FirstOpening
    let commit: UseCommit
    let ledgerClock: LedgerClock
    let arrivals: RefusedPaymentTokenCounts

    private var ledger: any Ledger { commit.ledger }
    private var instruments: Instruments { commit.instruments }
    private var faults: FaultLog { commit.faults }

    private var clock: WallClock { ledgerClock.clock }

    /// Verifies, decrypts and claims a payment token.
    /// - Parameters:
    ///   - draft: collects the facts for the audit record as they become known.
    ///   - origin: the request's connection. If the peer closes the connection before the HSM call begins, that call is
    ///     not made. Once the HSM call has begun, the release continues even if the peer closes the connection.
    ///   - turn: the peer's turn on the event loop of its connection. This function ends the turn once Apple's
    ///     signature has been verified.
    func decrypt(
        _ request: DecryptRequest, for caller: Caller, draft: AuditDraft, from origin: RequestOrigin? = nil,
        turn: LoopTurn? = nil
    ) async throws(Refusal) -> ReleasedPayment {
        var key: KeyEntry?
        do throws(Refusal) {
            return try await decrypt(request, for: caller, draft: draft, from: origin, turn: turn, with: &key)
        } catch {
            if let hash = key?.publicKeyHash {
                instruments.count(error, of: hash)
                if error.code != .transactionReplayed, error != .peerHasLeft { arrivals.count(hash, at: clock.now()) }
            }
            throw error
        }
    }

    /// - Parameter usedKey: receives the key once Apple's signature has been verified and the caller is known to be
    ///   allowed to use the key. The parameter keeps its value if a later step throws.
    private func decrypt(
        _ request: DecryptRequest, for caller: Caller, draft: AuditDraft, from origin: RequestOrigin?, turn: LoopTurn?,
        with usedKey: inout KeyEntry?
    ) async throws(Refusal) -> ReleasedPayment {
        let policies = policies.current
        let now = clock.now()

        let expected = try request.expected.map(ExpectedDetails.init) ?? .nothing
        let missing = expected.missing(of: caller.requireExpected)
        guard missing.isEmpty else { throw DecryptRequest.lacksExpected(missing) }

        // Step 1: verify Apple's signature, its certificate chain, and its signing time.
        let paymentToken = try PaymentToken(json: request.token)
        draft.setSubject(paymentToken)
        let (evidence, _) = try await Self.verify(paymentToken, trust: policies.trust)
        turn?.end()
        var release = try Release(of: paymentToken, for: caller, request, at: now)
        let window = caller.signingTimeWindow ?? policies.signingTimeWindow
        release.signedAt = evidence.signingTime
        let repeatability = try await checkWindow(window, signingTime: evidence.signingTime, release: release)
        release.allowsFirstRelease = repeatability == nil

        // Step 2: find the merchant key that the payment token names.
        var known = keys.entry(paymentToken.publicKeyHash)
        if known?.condition == .missing || commit.gate.position == .waiting {
            await opening.pass(for: paymentToken.publicKeyHash, in: keys, commit.gate)
            known = keys.entry(paymentToken.publicKeyHash)
        }
        guard let key = known else {
            throw Refusal(
                .unknownPublicKeyHash, "No merchant key here has the public key hash that the payment token names.",
                details: "publicKeyHash \(paymentToken.publicKeyHash.hex)")
        }
        let merchant = key.merchantIdentifier
        draft.setSubject(merchant: merchant)
        guard caller.allows(merchant: merchant) else {
            throw Refusal(.forbidden, "No access rule lets this caller use this merchant's key.")
        }
        guard request.merchants?.contains(where: { MerchantPattern($0).matches(merchant) }) ?? true else {
            throw Refusal(
                .forbidden, "The payment token's merchant is not among the merchants that the request names.",
                details: DecryptRequest.merchantsDetails)
        }
        usedKey = key
        try expected.checkMerchant(merchant)
        try expected.checkApplicationData(paymentToken)
        let keyTime =
            key.state == .deactivated ? try await refusing(ledger: await ledgerClock.compare()).confirmed : now
        try requireDecrypting(of: key, at: keyTime)

        if repeatability == .byOther { throw Self.releasedByOther }
        // This check precedes the HSM call. Otherwise a caller that repeats without end would take the HSM's time from
        // other callers.
        if repeatability == .tooOften || ledger.isUsedUp(paymentToken.transactionIdentifier) {
            throw Self.repeatedTooOften
        }

        guard origin?.hasLeft != true else { throw .peerHasLeft }
        ledger.releasesUnderWay.begin()
        defer { ledger.releasesUnderWay.end() }
        // Steps 3 and 4: restore the symmetric key in the HSM, and decrypt the payment data.
        let opened = try await open(paymentToken, with: key, for: caller, draft: draft, from: origin)
        draft.used(hsmToken: opened.hsmToken, protection: opened.tier)
        do throws(Refusal) {
            let payload = try PaymentPayload(plaintext: opened.plaintext)
            // Step 6 comes before step 5: no claim is made for a payment that the caller does not expect.
            try expected.checkCurrency(payload)
            try expected.checkAmount(payload)
        } catch {
            await countIfRepeat(release)
            throw error
        }

        // Step 5: claim the transaction, so that the payment is released only once.
        let claimed = try await claim(release, by: caller, draft: draft)
        keys.countUse(paymentToken.publicKeyHash, at: now)
        instruments.keyUses.increment([paymentToken.publicKeyHash.hex])

        // Step 7: return the payment, which the caller may now process.
        return ReleasedPayment(
            transactionIdentifier: paymentToken.transactionIdentifier, merchantIdentifier: merchant,
            publicKeyHash: paymentToken.publicKeyHash, version: paymentToken.version, signingTime: evidence.signingTime,
            protection: opened.tier, checked: expected.checkedMembers, isRepeat: claimed.isRepeat,
            paymentData: opened.plaintext, audit: claimed.audit)
    }

    /// Verifies Apple's signature, its certificate chain and its signing time (step 1 of Apple's reference). No key is
    /// used, and no claim is made.
    ///
    /// - Parameter moment: the time at which the signing-time window is evaluated; nil for the current time.
    func verify(
        _ json: JSONValue, at moment: Date?, for caller: Caller, draft: AuditDraft
    ) async throws(Refusal) -> VerifiedPaymentToken {
        let policies = policies.current
        let paymentToken = try PaymentToken(json: json)
        draft.setSubject(paymentToken)
        let (evidence, chain) = try await Self.verify(paymentToken, trust: policies.trust)
        let window = caller.signingTimeWindow ?? policies.signingTimeWindow
        try window.check(signingTime: evidence.signingTime, now: moment ?? clock.now())
        return VerifiedPaymentToken(paymentToken: paymentToken, signingTime: evidence.signingTime, chain: chain)
    }

    private static func verify(
        _ paymentToken: PaymentToken, trust: TrustPolicy
    ) async throws(Refusal) -> (SignatureEvidence, VerifiedChain) {
        let evidence = try SignatureEvidence(of: paymentToken)
        return (evidence, try await trust.evaluate(evidence))
    }

    /// Refuses a payment token outside the signing-time window, unless its release may be a repeat. The contract
    /// exempts repeats from the window, but from no other check. Only the claim, which is made later, decides if the
    /// release is a repeat.
    ///
    /// - Returns: nil inside the window, where a first release is permitted. Outside the window, the kind of repeat;
    ///   ``Repeatability/no`` is never returned, since it causes a refusal.
    private func checkWindow(
        _ window: SigningTimeWindow, signingTime: Date, release: Release
    ) async throws(Refusal) -> Repeatability? {
        do throws(Refusal) {
            try window.check(signingTime: signingTime, now: release.at)
            return nil
        } catch {
            guard release.referenceDigest != nil else { throw error }
            let repeatability = try await repeatability(of: release)
            guard repeatability != .no else { throw error }
            return repeatability
        }
    }

    private func requireDecrypting(of key: KeyEntry, at now: Date) throws(Refusal) {
        switch key.condition {
        // Apple never encrypts to an identity key or a service key. A payment token can still name one, since Apple's
        // signature does not cover the publicKeyHash.
        case _ where key.use != .processing:
            throw Refusal(
                .keyNotActive,
                "The key is \(key.use == .identity ? "an identity" : "a service") key: it signs and never decrypts.")
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

    private func open(
        _ paymentToken: PaymentToken, with key: KeyEntry, for caller: Caller, draft: AuditDraft,
        from origin: RequestOrigin?
    ) async throws(Refusal) -> OpenedTransaction {
        let scheme: RestorationScheme
        let otherInfo: [UInt8]
        switch (paymentToken.version, key.algorithm) {
        case (.ecV1, .ec):
            scheme = .ecV1
            otherInfo = OtherInfo.ecV1(merchantIdentifier: key.merchantIdentifier)
        case (.rsaV1, .rsa):
            scheme = .rsaV1
            otherInfo = []
        default:
            // The payment token's version does not match the key's algorithm, so Apple did not encrypt the payment
            // token to this key.
            throw .decryptionFailed
        }
        let decryption = Decryption(
            publicKeyHash: paymentToken.publicKeyHash.bytes, scheme: scheme,
            keyMaterial: try paymentToken.restorationInput(),
            otherInfo: otherInfo, ciphertext: paymentToken.encryptedData)
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
            throw Refusal(
                .transactionReplayed, "This transaction was released before; do not process it a second time.",
                details: "the same caller gets it again only with the reference of the first request")
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

/// The interface of the HSM tokens that the decryptor uses.
protocol TransactionDecrypting: Sendable {
    /// Decrypts one payment token's data.
    /// - Parameters:
    ///   - holders: the configured names of the HSM tokens that list the key.
    ///   - requester: the caller. The queued calls of all callers are served round robin.
    func decrypt(
        _ decryption: Decryption, heldBy holders: [String], for requester: Requester
    ) async throws(WorkerFailure) -> OpenedTransaction

    /// Returns a description of the tier that the HSM tokens with this key lack, and of the remedy. Nil if the key's fault
    /// is not a missing tier.
    func missingTier(for key: KeyEntry) -> String?
}

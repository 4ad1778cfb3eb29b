import AuditChain
import DaemonConfiguration
import GooglePayToken
import KeyTypes
import Ledger
import MerchantKeys
import PaymentToken
import Refusals
import UsageRecording
import WorkerProtocol
import WorkerSupervision

// The generation of keys inside an HSM token, and the requests for their certificates.
extension KeyAdministration {
    struct KeyOrder: Sendable {
        let merchantIdentifier: String
        let algorithm: KeyAlgorithm
        var use = KeyUse.processing
        /// The configured name of the HSM token that is to generate the key; nil if there is only one HSM token.
        let hsmToken: String?
    }

    enum Generated: Sendable {
        case made(KeyEntry, warnings: [String])
        /// The dry run found no reason to refuse the generation.
        case wouldMake(hsmToken: String)
    }

    /// Generates a merchant's key pair inside one HSM token. The key decrypts nothing before its certificate is imported,
    /// or a person states that it is in Google's console.
    ///
    /// If a worker ends during the generation, the next worker finds the outcome, and the merchant's next generation
    /// completes an unfinished pair. If the daemon ends after the generation but before its commit to the ledger, the
    /// HSM token keeps a key that no ledger knows. That key is listed as external and never used, and the same command
    /// generates another key.
    func generate(
        _ order: KeyOrder, by caller: Caller, dryRun: Bool, draft: AuditDraft
    ) async throws(Refusal) -> Generated {
        draft.setEvent(.keyGenerate())
        let merchant = order.merchantIdentifier
        try Self.requireMerchantIdentifier(merchant, order.use)
        draft.setSubject(merchant: merchant, of: order.use.wallet)
        guard order.use != .googlePay || order.algorithm == .ec else {
            throw Refusal(
                .malformedRequest, "A Google Pay key is EC: Google encrypts to no other.",
                details: "type: EC, or leave it out")
        }
        guard order.use != .identity || order.algorithm == .rsa else {
            throw Refusal(
                .malformedRequest, "An identity key is RSA: Apple issues Merchant Identity certificates for no other.",
                details: "type: RSA, or leave it out")
        }
        let hsmToken = try hsmTokenForNewKey(order.hsmToken)
        // Without this, a person could make a Google Pay key that cannot become active.
        if order.use == .googlePay { try requireRoom(for: order.use, of: merchant) }
        guard !dryRun else { return .wouldMake(hsmToken: hsmToken.name) }
        try await requireWritableLedger()
        draft.used(hsmToken: hsmToken.name)
        // Only one generation runs at a time. If a worker ends and leaves an unfinished key pair, that pair could
        // otherwise belong to either of two generations.
        await generationLock.acquire()
        defer { generationLock.release() }
        let hash = try await newKey(order, in: hsmToken)
        draft.setSubject(key: hash)
        draft.setEvent(
            .keyGenerate(
                key: KeyFacts(algorithm: order.algorithm, origin: .generated, wallet: order.use.wallet)))
        let keyRecord = KeyRecord(
            publicKeyHash: hash, merchantIdentifier: merchant, algorithm: order.algorithm, use: order.use,
            state: .preActivation, createdAt: clock.now(), origin: .generated)
        // Since the caller does not learn of a key that the ledger refuses, that key is destroyed.
        try await apply(
            AdministrativeChange(
                at: clock.now(), key: keyRecord, precondition: .absent,
                records: [recorder.auditRecord(of: draft, by: caller)]),
            of: hash, newIn: [hsmToken], for: draft)
        return .made(try await newEntry(hash, in: hsmToken), warnings: soleHolderWarning(hsmToken.name))
    }

    /// Creates a PKCS#10 certificate request, which the key signs inside its HSM token. The request is recorded before it
    /// is returned.
    ///
    /// - Parameter caller: the person who asked; nil if the daemon itself did.
    /// - Returns: the request; nil in a dry run.
    func certificateRequest(
        for entry: KeyEntry, by caller: Caller?, dryRun: Bool, draft: AuditDraft
    ) async throws(Refusal) -> CertificateRequest? {
        draft.setEvent(.csrCreate)
        draft.setSubject(entry)
        guard entry.use.hasCertificate else {
            throw Refusal(
                .invalidState,
                "A \(entry.use == .service ? "service" : "Google Pay") key has no certificate, so it signs no request for one."
            )
        }
        guard entry.state == .preActivation || entry.state == .active else {
            throw Refusal(
                .invalidState,
                "A key in the state \(entry.state.rawValue) can no longer get a certificate; make a new key.")
        }
        if case .inconsistent(let reason) = entry.condition {
            throw Refusal(.invalidState, "The key is inconsistent and signs nothing.", details: reason)
        }
        guard let information = catalogue.index.subjectPublicKeyInfo(entry.publicKeyHash),
            let hsmToken = hsmTokens.first(where: { entry.hsmTokens.contains($0.name) && $0.isServing })
        else {
            throw Refusal(
                .hsmUnavailable, "No HSM token that is available now shows this key.", details: Self.seeStatus)
        }
        guard !dryRun else { return nil }
        try gate.admit()
        draft.used(hsmToken: hsmToken.name)
        let request = try await refusing(
            hsm: await CertificateRequest(
                subjectPublicKeyInfo: information,
                merchantIdentifier: entry.merchantIdentifier.isEmpty
                    ? entry.publicKeyHash.hex : entry.merchantIdentifier,
                sign: { bytes throws(WorkerFailure) in
                    try await hsmToken.signRequest(bytes, publicKeyHash: entry.publicKeyHash.bytes)
                }))
        draft.recorded(at: try await recorder.append(recorder.auditRecord(of: draft, by: caller)))
        return request
    }

    static func requireMerchantIdentifier(_ merchant: String, _ use: KeyUse = .processing) throws(Refusal) {
        if use == .googlePay {
            guard GooglePayMerchant(merchant) != nil else {
                throw Refusal(
                    .malformedRequest,
                    "A merchant's identifier at Google has 1 to \(GooglePayMerchant.maximumLength) letters, digits, - and _; "
                        + "Apple's, with points, are for Apple Pay keys.", details: "merchantIdentifier")
            }
            return
        }
        guard !merchant.hasPrefix("BCR2") || merchant.contains(".") else {
            throw Refusal(
                .malformedRequest,
                "This looks like a merchant's identifier at Google. Name Apple's identifier of the merchant, or the wallet: "
                    + "--wallet google-pay; in the API, use google-pay.", details: "merchantIdentifier")
        }
        guard MerchantIdentifier.isPossible(merchant) else {
            throw Refusal(
                .malformedRequest, "A merchant identifier has 1 to 255 bytes, no control characters, and is not blank.",
                details: "merchantIdentifier")
        }
    }

    /// Returns the HSM token with this name, or the only one if `name` is nil. Throws if it is not open now.
    private func hsmTokenForNewKey(_ name: String?) throws(Refusal) -> any HSMTokenAdministering {
        let names = hsmTokens.map(\.name).joined(separator: ", ")
        guard name != nil || hsmTokens.count == 1 else {
            throw Refusal(
                .malformedRequest,
                "There are several HSM tokens (\(names)), and a key is generated in one of them; name it.",
                details: "token")
        }
        guard let hsmToken = name == nil ? hsmTokens.first : hsmTokens.first(where: { $0.name == name }) else {
            throw Refusal(
                .malformedRequest, "The configuration has no HSM token of that name.",
                details: "the HSM tokens are \(names)")
        }
        guard hsmToken.isServing else {
            throw Refusal(
                .hsmUnavailable, "HSM token \(hsmToken.name) is not available, so no key was made.",
                details: Self.seeStatus)
        }
        return hsmToken
    }

    private func newKey(
        _ order: KeyOrder, in hsmToken: any HSMTokenAdministering
    ) async throws(Refusal) -> PublicKeyHash {
        let made = try await refusing(
            hsm: await hsmToken.generateKey(
                order.algorithm, use: order.use, merchantIdentifier: order.merchantIdentifier,
                known: Set(catalogue.index.entries.map(\.publicKeyHash.bytes))))
        let hash = PublicKeyHash.of(subjectPublicKeyInfo: made.subjectPublicKeyInfo)
        guard made.identifier == hash.bytes else { throw .defect }
        return hash
    }

    /// Returns the new key's index entry. The key has already been generated and recorded, so this function must not
    /// fail if the HSM token cannot be read again. After a failure, the caller would generate another key.
    private func newEntry(
        _ hash: PublicKeyHash, in hsmToken: any HSMTokenAdministering
    ) async throws(Refusal) -> KeyEntry {
        do throws(Refusal) {
            try await refresh(hash, in: hsmToken)
        } catch {
            try? await catalogue.keyChanged(hash)
        }
        guard let entry = catalogue.index.entry(hash) else { throw .defect }
        return entry
    }

    private func soleHolderWarning(_ hsmToken: String) -> [String] {
        guard hsmTokens.count > 1 else { return [] }
        return [
            "The key is in HSM token \(hsmToken) only: a key made inside an HSM token can leave it only by the vendor's "
                + "cloning. To have a key in several HSM tokens, import it."
        ]
    }
}

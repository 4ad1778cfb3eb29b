import AuditChain
import Ledger
import MerchantKeys
import PaymentToken
import Refusals
import WorkerProtocol

// Keys that are made inside a token, and the requests for their certificates.
extension KeyAdministration {
    struct KeyOrder: Sendable {
        let merchantIdentifier: String
        let algorithm: KeyAlgorithm
        /// A name from the configuration; nil where there is only one.
        let hsmToken: String?
    }

    enum Generated: Sendable {
        case made(KeyEntry, warnings: [String])
        /// A dry run found nothing against it.
        case wouldMake(hsmToken: String)
    }

    /// Makes a merchant's key pair inside one token. It opens nothing before its certificate is imported.
    ///
    /// A worker that ends meanwhile is asked again, and what was left unfinished in the token is finished by the next
    /// generation for the merchant. A daemon that ends between token and ledger leaves a key that no ledger knows:
    /// listed as external, used for nothing; the same command makes another.
    func generate(
        _ order: KeyOrder, by caller: Caller, dryRun: Bool, draft: AuditDraft
    ) async throws(Refusal) -> Generated {
        draft.is(.keyGenerate)
        let merchant = order.merchantIdentifier
        try Self.requireMerchantIdentifier(merchant)
        draft.concerns(merchant: merchant)
        let hsmToken = try hsmTokenForNewKey(order.hsmToken)
        guard !dryRun else { return .wouldMake(hsmToken: hsmToken.name) }
        try await proveLedgerWritable()
        draft.used(hsmToken: hsmToken.name)
        // What a worker's end left behind is told from another order's key only when there is no other.
        await lock.acquire()
        defer { lock.release() }
        let hash = try await newKey(order, in: hsmToken)
        draft.concerns(key: hash)
        let key = KeyRecord(
            publicKeyHash: hash, merchantIdentifier: merchant, algorithm: order.algorithm, state: .preActivation,
            createdAt: clock.now(), origin: .generated)
        do throws(Refusal) {
            try await recorder.apply(
                AdministrativeChange(
                    at: clock.now(), key: key, precondition: .absent,
                    records: [recorder.auditRecord(of: draft, by: caller)]),
                for: draft)
        } catch {
            throw await withdrawal(of: hash, from: hsmToken, after: error)
        }
        return .made(try await entry(new: hash, in: hsmToken), warnings: soleHolderWarning(hsmToken.name))
    }

    /// A PKCS#10 request that the key signs inside its token, recorded before it is given away.
    ///
    /// - Returns: the key, and the request; none in a dry run.
    func certificateRequest(
        for entry: KeyEntry, by caller: Caller, dryRun: Bool, draft: AuditDraft
    ) async throws(Refusal) -> CertificateRequest? {
        draft.is(.csrCreate)
        draft.concerns(entry)
        guard entry.state == .preActivation || entry.state == .active else {
            throw Refusal(
                .invalidState, "A key that is \(entry.state.rawValue) gets no certificate any more; make a new key.")
        }
        if case .inconsistent(let reason) = entry.condition {
            throw Refusal(.invalidState, "The key is inconsistent and signs nothing.", details: reason)
        }
        guard let information = catalogue.index.subjectPublicKeyInfo(entry.publicKeyHash),
            let hsmToken = hsmTokens.first(where: { entry.hsmTokens.contains($0.name) && $0.isServing })
        else {
            throw Refusal(
                .hsmUnavailable, "No token that is available now shows this key.",
                details: "paytokenctl status says why")
        }
        guard !dryRun else { return nil }
        try gate.admit()
        draft.used(hsmToken: hsmToken.name)
        let request: CertificateRequest
        do {
            request = try await CertificateRequest(
                subjectPublicKeyInfo: information,
                merchantIdentifier: entry.merchantIdentifier.isEmpty
                    ? entry.publicKeyHash.hex : entry.merchantIdentifier,
                sign: { bytes throws(WorkerFailure) in
                    try await hsmToken.signRequest(bytes, publicKeyHash: entry.publicKeyHash.bytes)
                })
        } catch {
            throw error.refusal
        }
        draft.recorded(at: try await recorder.append(recorder.auditRecord(of: draft, by: caller)))
        return request
    }

    static func requireMerchantIdentifier(_ merchant: String) throws(Refusal) {
        guard MerchantIdentifier.isPossible(merchant) else {
            throw Refusal(
                .malformedRequest, "A merchant identifier has 1 to 255 bytes and no control characters.",
                details: "merchantIdentifier")
        }
    }

    /// The named token or the only one; it takes calls now.
    func hsmTokenForNewKey(_ name: String?) throws(Refusal) -> any TokenAdministering {
        let names = hsmTokens.map(\.name).joined(separator: ", ")
        guard name != nil || hsmTokens.count == 1 else {
            throw Refusal(
                .malformedRequest,
                "There are several tokens (\(names)), and a generated key is in one of them only. Name it.",
                details: "token")
        }
        guard let hsmToken = name == nil ? hsmTokens.first : hsmTokens.first(where: { $0.name == name }) else {
            throw Refusal(
                .malformedRequest, "The configuration has no token of that name.", details: "the tokens are \(names)")
        }
        guard hsmToken.isServing else {
            throw Refusal(
                .hsmUnavailable, "The token \(hsmToken.name) is not available, so no key was made.",
                details: "paytokenctl status says why")
        }
        return hsmToken
    }

    private func newKey(
        _ order: KeyOrder, in hsmToken: any TokenAdministering
    ) async throws(Refusal) -> PublicKeyHash {
        let made: KeyDescription
        do {
            made = try await hsmToken.generateKey(
                order.algorithm, merchantIdentifier: order.merchantIdentifier,
                known: Set(catalogue.index.entries.map(\.publicKeyHash.bytes)))
        } catch {
            throw error.refusal
        }
        let hash = PublicKeyHash.of(subjectPublicKeyInfo: made.subjectPublicKeyInfo)
        guard made.identifier == hash.bytes else { throw .defect }
        return hash
    }

    /// The key as the index has it. It is made and recorded by now: whatever does not work here is no reason to make
    /// another one.
    private func entry(new hash: PublicKeyHash, in hsmToken: any TokenAdministering) async throws(Refusal) -> KeyEntry {
        do throws(Refusal) {
            try await lookAgain(at: hash, in: hsmToken)
        } catch {
            try? await catalogue.keyChanged(hash)
        }
        guard let entry = catalogue.index.entry(hash) else { throw .defect }
        return entry
    }

    /// The ledger did not take the key's record: nobody has heard of the key, so it is taken out again.
    private func withdrawal(
        of hash: PublicKeyHash, from hsmToken: any TokenAdministering, after refusal: Refusal
    ) async -> Refusal {
        if (try? await hsmToken.destroyKey(hash)) != nil { return refusal }
        try? await lookAgain(at: hash, in: hsmToken)
        return Refusal(
            refusal.code, refusal.message,
            details:
                "The token \(hsmToken.name) keeps a key that is not recorded, \(hash.hex.prefix(16)); nothing uses it.")
    }

    private func soleHolderWarning(_ hsmToken: String) -> [String] {
        guard hsmTokens.count > 1 else { return [] }
        return [
            "The key is in the token \(hsmToken) only: a key that was made inside a token leaves it by the vendor's own "
                + "cloning at most. Import a key that several tokens are to hold."
        ]
    }
}

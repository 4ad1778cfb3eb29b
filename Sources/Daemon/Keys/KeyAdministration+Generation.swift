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
        let token: String?
    }

    enum Generated: Sendable {
        case made(KeyEntry, remarks: [String])
        /// A dry run found nothing against it.
        case wouldMake(token: String)
    }

    /// Makes a merchant's key pair inside one token. It opens nothing before its certificate is imported.
    ///
    /// A worker that ends meanwhile is asked again, and what was left unfinished in the token is finished by the next
    /// generation for the merchant. A daemon that ends between token and ledger leaves a key that no ledger knows:
    /// listed as external, used for nothing; the same command makes another.
    func generate(
        _ order: KeyOrder, by caller: Caller, dryRun: Bool, record requestRecord: RequestRecord
    ) async throws(Refusal) -> Generated {
        requestRecord.is(.keyGenerate)
        let merchant = order.merchantIdentifier
        try Self.judgeMerchant(merchant)
        requestRecord.concerns(merchant: merchant)
        let token = try tokenForNewKey(order.token)
        guard !dryRun else { return .wouldMake(token: token.name) }
        try await proveLedgerWritable()
        requestRecord.used(token: token.name)
        // What a worker's end left behind is told from another order's key only when there is no other.
        await turn.take()
        defer { turn.give() }
        let hash = try await newKey(order, in: token)
        requestRecord.concerns(key: hash)
        let key = KeyRecord(
            publicKeyHash: hash, merchantIdentifier: merchant, algorithm: order.algorithm, state: .preActivation,
            createdAt: clock.now(), origin: .generated)
        do throws(Refusal) {
            try await recorder.apply(
                AdministrativeChange(
                    at: clock.now(), key: key, precondition: .absent,
                    records: [recorder.record(of: requestRecord, by: caller)]),
                for: requestRecord)
        } catch {
            throw await withdrawal(of: hash, from: token, after: error)
        }
        return .made(try await entry(new: hash, in: token), remarks: soleHolderRemark(token.name))
    }

    /// A PKCS#10 request that the key signs inside its token, recorded before it is given away.
    ///
    /// - Returns: the key, and the request; none in a dry run.
    func certificateRequest(
        for entry: KeyEntry, by caller: Caller, dryRun: Bool, record requestRecord: RequestRecord
    ) async throws(Refusal) -> CertificateRequest? {
        requestRecord.is(.csrCreate)
        requestRecord.concerns(entry)
        guard entry.state == .preActivation || entry.state == .active else {
            throw Refusal(
                .invalidState, "A key that is \(entry.state.rawValue) gets no certificate any more; make a new key.")
        }
        if case .inconsistent(let reason) = entry.condition {
            throw Refusal(.invalidState, "The key is inconsistent and signs nothing.", details: reason)
        }
        guard let information = catalogue.index.subjectPublicKeyInfo(entry.publicKeyHash),
            let token = tokens.first(where: { entry.tokens.contains($0.name) && $0.isServing })
        else {
            throw Refusal(
                .hsmUnavailable, "No token that is available now shows this key.",
                details: "paytokenctl status says why")
        }
        guard !dryRun else { return nil }
        try gate.admit()
        requestRecord.used(token: token.name)
        let request: CertificateRequest
        do {
            request = try await CertificateRequest(
                subjectPublicKeyInfo: information,
                merchantIdentifier: entry.merchantIdentifier.isEmpty
                    ? entry.publicKeyHash.hex : entry.merchantIdentifier,
                sign: { bytes throws(WorkerFailure) in
                    try await token.signRequest(bytes, publicKeyHash: entry.publicKeyHash.bytes)
                })
        } catch {
            throw error.refusal
        }
        requestRecord.recorded(at: try await recorder.append(recorder.record(of: requestRecord, by: caller)))
        return request
    }

    static func judgeMerchant(_ merchant: String) throws(Refusal) {
        guard MerchantIdentifier.isPossible(merchant) else {
            throw Refusal(
                .malformedRequest, "A merchant identifier has 1 to 255 bytes and no control characters.",
                details: "merchantIdentifier")
        }
    }

    /// The named token or the only one; it takes calls now.
    func tokenForNewKey(_ name: String?) throws(Refusal) -> any TokenAdministering {
        let names = tokens.map(\.name).joined(separator: ", ")
        guard name != nil || tokens.count == 1 else {
            throw Refusal(
                .malformedRequest,
                "There are several tokens (\(names)), and a generated key is in one of them only. Name it.",
                details: "token")
        }
        guard let token = name == nil ? tokens.first : tokens.first(where: { $0.name == name }) else {
            throw Refusal(
                .malformedRequest, "The configuration has no token of that name.", details: "the tokens are \(names)")
        }
        guard token.isServing else {
            throw Refusal(
                .hsmUnavailable, "The token \(token.name) is not available, so no key was made.",
                details: "paytokenctl status says why")
        }
        return token
    }

    private func newKey(
        _ order: KeyOrder, in token: any TokenAdministering
    ) async throws(Refusal) -> PublicKeyHash {
        let made: KeyDescription
        do {
            made = try await token.generateKey(
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
    private func entry(new hash: PublicKeyHash, in token: any TokenAdministering) async throws(Refusal) -> KeyEntry {
        do throws(Refusal) {
            try await lookAgain(at: hash, in: token)
        } catch {
            try? await catalogue.keyChanged(hash)
        }
        guard let entry = catalogue.index.entry(hash) else { throw .defect }
        return entry
    }

    /// The ledger did not take the key's record: nobody has heard of the key, so it is taken out again.
    private func withdrawal(
        of hash: PublicKeyHash, from token: any TokenAdministering, after refusal: Refusal
    ) async -> Refusal {
        if (try? await token.destroyKey(hash)) != nil { return refusal }
        try? await lookAgain(at: hash, in: token)
        return Refusal(
            refusal.code, refusal.message,
            details:
                "The token \(token.name) keeps a key that is not recorded, \(hash.hex.prefix(16)); nothing uses it.")
    }

    private func soleHolderRemark(_ token: String) -> [String] {
        guard tokens.count > 1 else { return [] }
        return [
            "The key is in the token \(token) only: a key that was made inside a token leaves it by the vendor's own "
                + "cloning at most. Import a key that several tokens are to hold."
        ]
    }
}

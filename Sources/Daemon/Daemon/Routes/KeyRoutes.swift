import AuditChain
import DaemonAPI
import Encodings
import Foundation
import KeyTypes
import Ledger
import MerchantKeys
import PaymentToken
import Refusals
import ServerProgram
import UsageRecording

/// The handlers of `/v1/keys` and its subpaths, and of `POST /v1/certificates`.
struct KeyRoutes: Sendable {
    let administration: KeyAdministration
    let lifecycle: KeyLifecycle
    let summaries: KeySummaries
    /// The ledger, from which the nodes whose HSM tokens have each key are read; nil if only one node uses the ledger.
    let holders: (any Ledger)?
    let attributes: KeyAttributeReading
    let proving: KeyProving

    // MARK: Reading

    /// Handles `GET /v1/keys`. Returns up to `limit` keys (100 by default, at most 1,000) in the order of their hashes,
    /// after the key that `after` names. The answer's `next` is the value of `after` for the next request.
    func list(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        let limit = try Self.limit(request.query["limit"])
        let index = summaries.index
        let entries = request.query["after"].map { index.entries(after: $0) } ?? index.entries[...]
        let page = entries.prefix(limit)
        let answer = await ListAnswer(
            items: summaries.summaries(of: page, heldBy: nodes()),
            next: page.count < entries.count ? page.last?.publicKeyHash.hex : nil)
        return EndpointAnswer(http: .json(status: 200, answer.json()))
    }

    /// Handles `GET /v1/keys/{key}`. Returns the key with its current attributes in each HSM token.
    func show(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        let entry = try summaries.index.entry(named: request.pathArguments[0])
        var summary = await summaries.summaries(of: [entry], heldBy: nodes())[0]
        summary.attributes = await attributes.attributes(of: entry.publicKeyHash, in: entry.shownBy)
        return try .json(summary)
    }

    /// Returns the nodes whose HSM tokens have each key. Returns nil if the nodes cannot be read; the answer then shows
    /// the keys without nodes.
    private func nodes() async -> [PublicKeyHash: [KeyHolder]]? {
        do throws(LedgerFailure) {
            return try await holders?.keyHolders()
        } catch {
            return nil
        }
    }

    private static func limit(_ text: String?) throws(Refusal) -> Int {
        guard let text else { return 100 }
        guard let limit = Int(text), (1...1000).contains(limit) else {
            throw Refusal(.malformedRequest, "The query's limit must be a number from 1 to 1000.")
        }
        return limit
    }

    /// Handles `GET /v1/keys/{key}/public-key`.
    func publicKey(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        try .json(
            PublicKeyAnswer(of: try summaries.index.entry(named: request.pathArguments[0]), in: summaries.index))
    }

    // MARK: New keys

    /// Handles `POST /v1/keys`: generates a key pair inside an HSM token.
    func generate(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        request.draft.setEvent(.keyGenerate())
        let body = try KeyGenerationRequest(parsing: request.body)
        let (use, algorithm) = (try Self.use(body.use, orGooglePay: true), try Self.algorithm(body.type))
        let outcome = try await administration.generate(
            KeyAdministration.KeyOrder(
                merchantIdentifier: body.merchantIdentifier, algorithm: algorithm, use: use, hsmToken: body.token),
            by: request.knownCaller(), dryRun: request.isDryRun(), draft: request.draft)
        return switch outcome {
        case .made(let entry, let warnings): try .json(summaries.summary(entry, warnings))
        case .wouldMake(let hsmToken):
            try .json(
                KeyGenerationDryRun(
                    merchantIdentifier: body.merchantIdentifier, algorithm: algorithm.name, use: use.name,
                    token: hsmToken))
        }
    }

    /// Handles `POST /v1/keys/{key}/csr`: makes the certificate signing request for Apple's portal.
    func certificateRequest(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        request.draft.setEvent(.csrCreate)
        _ = try EmptyRequest(parsing: request.body)
        let entry = try summaries.index.entry(named: request.pathArguments[0])
        let made = try await administration.certificateRequest(
            for: entry, by: request.knownCaller(), dryRun: request.isDryRun(), draft: request.draft)
        return try .json(
            CertificateRequestAnswer(
                publicKeyHash: entry.publicKeyHash.base64,
                merchantIdentifier: entry.merchantIdentifier.isEmpty ? nil : entry.merchantIdentifier,
                algorithm: entry.algorithm.name, csr: made?.pem))
    }

    /// Handles `POST /v1/keys/{key}/proofs`: has each HSM token that shows the key prove it.
    func prove(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        request.draft.setEvent(.keyProof(certificate: nil))
        _ = try EmptyRequest(parsing: request.body)
        let entry = try summaries.index.entry(named: request.pathArguments[0])
        let outcome = try await proving.prove(entry, by: request.knownCaller(), draft: request.draft)
        return try .json(KeyProofAnswer(outcome))
    }

    /// - Parameter allowsGooglePay: false for steps that only Apple's certificates have.
    static func use(_ name: String?, orGooglePay allowsGooglePay: Bool = false) throws(Refusal) -> KeyUse {
        guard let name else { return .processing }
        // Apple makes service keys, so they are neither generated nor rotated here.
        guard let use = KeyUse(name: name), use.hasCertificate || use == .googlePay && allowsGooglePay else {
            throw Refusal(
                .malformedRequest,
                "use must be \(allowsGooglePay ? "processing, identity or google-pay" : "processing or identity").",
                details: "use")
        }
        return use
    }

    static func algorithm(_ name: String) throws(Refusal) -> KeyAlgorithm {
        guard let algorithm = KeyAlgorithm(name: name) else {
            throw Refusal(.malformedRequest, "type must be EC or RSA.", details: "type")
        }
        return algorithm
    }

    // MARK: Imports

    /// Handles `POST /v1/keys/import`: imports a private key, with its certificate if keys of its use have one. The
    /// request has the key once for each HSM token, encrypted so that only that HSM token's worker can decrypt it.
    func importKey(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        request.draft.setEvent(.keyImport(certificate: nil, approval: nil))
        let body = try KeyImportRequest(parsing: request.body)
        var sealedKeys: [KeyAdministration.SealedKey] = []
        for key in body.sealedKeys {
            sealedKeys.append(
                KeyAdministration.SealedKey(
                    hsmToken: key.token, encapsulatedKey: try Self.base64(key.encapsulatedKey, "encapsulatedKey"),
                    sealedPrivateKey: try Self.base64(key.sealedPrivateKey, "sealedPrivateKey")))
        }
        let outcome = try await administration.importKey(
            KeyAdministration.KeyImport(
                publicPart: try Self.publicPart(of: body), sealedKeys: sealedKeys, allowExpired: body.allowExpired,
                approval: try Self.approval(body.approval)),
            by: request.knownCaller(), dryRun: request.isDryRun(), draft: request.draft)
        return try answer(outcome)
    }

    /// - Throws: malformed_request unless the request has a certificate, or the public key of a use without certificates.
    private static func publicPart(
        of body: KeyImportRequest
    ) throws(Refusal) -> KeyAdministration.KeyImport.PublicPart {
        switch (body.use.map { KeyUse(name: $0) }, body.certificate, body.publicKey) {
        case (nil, let certificate?, nil):
            .certificate(try base64(certificate, "certificate"), merchantIdentifier: body.merchantIdentifier)
        case (.service, nil, let publicKey?) where body.merchantIdentifier == nil:
            .servicePublicKey(try base64(publicKey, "publicKey"))
        case (.googlePay, nil, let publicKey?) where body.merchantIdentifier != nil:
            .googlePayPublicKey(
                try base64(publicKey, "publicKey"), merchantIdentifier: body.merchantIdentifier ?? "")
        default:
            throw Refusal(
                .malformedRequest,
                "A merchant's key needs certificate, without use and publicKey. A service key needs use service and "
                    + "publicKey, without certificate and merchantIdentifier. A Google Pay key needs use google-pay, publicKey "
                    + "and merchantIdentifier, without certificate.", details: "certificate")
        }
    }

    /// Handles `POST /v1/certificates`: imports Apple's certificate for a key that is already in an HSM token.
    func importCertificate(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        request.draft.setEvent(.certificateImport(certificate: nil))
        let body = try CertificateImportRequest(parsing: request.body)
        let outcome = try await administration.importCertificate(
            Self.base64(body.certificate, "certificate"), allowExpired: body.allowExpired,
            by: request.knownCaller(), dryRun: request.isDryRun(), draft: request.draft)
        return try answer(outcome)
    }

    private func answer(_ outcome: KeyAdministration.Outcome) throws(Refusal) -> EndpointAnswer {
        if case .pending(let approval) = outcome { return try .pending(approval) }
        return try .json(summaries.summary(outcome))
    }

    private static func approval(_ text: String?) throws(Refusal) -> ApprovalIdentifier? {
        guard let text else { return nil }
        guard let identifier = ApprovalIdentifier(hex: text) else {
            throw Refusal(.approvalInvalid, ApprovalConflict.unknown.description)
        }
        return identifier
    }

    static func base64(_ text: String, _ name: String) throws(Refusal) -> [UInt8] {
        guard let bytes = Base64.decode(text, padding: .required), !bytes.isEmpty else {
            throw Refusal(.malformedRequest, "\(name) is not base64.", details: name)
        }
        return bytes
    }

    // MARK: States

    /// Handles `POST /v1/keys/{key}/state`: changes the state of a key.
    func changeState(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        request.draft.setEvent(.keyStateChange(KeyStateChange(from: nil, to: nil)))
        let body = try KeyStateRequest(parsing: request.body)
        guard let state = KeyState(rawValue: body.to), state != .preActivation else {
            throw Refusal(
                .malformedRequest, "to must be active, suspended, deactivated, compromised or destroyed.", details: "to"
            )
        }
        guard body.cutOff == nil || state == .deactivated else {
            throw Refusal(.malformedRequest, "cutOff is for deactivated keys only.", details: "cutOff")
        }
        return try await answer(
            lifecycle.change(
                request.pathArguments[0],
                KeyLifecycle.StateChange(to: state, reason: AuditReason(body.reason), cutOff: body.cutOff),
                by: request.knownCaller(), dryRun: request.isDryRun(), draft: request.draft))
    }

    /// Handles `POST /v1/keys/{key}/adopt`: takes into the ledger a key that another program generated in the HSM token.
    func adopt(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        request.draft.setEvent(.keyAdopt(approval: nil))
        let body = try KeyAdoptionRequest(parsing: request.body)
        let (name, reason) = (request.pathArguments[0], AuditReason(body.reason))
        switch (body.use.map { KeyUse(name: $0) }, body.merchantIdentifier) {
        case (nil, nil) where body.approval == nil:
            return try await answer(
                lifecycle.adopt(
                    name, reason: reason, by: request.knownCaller(), dryRun: request.isDryRun(), draft: request.draft))
        case (.googlePay, let merchant?):
            return try answer(
                await administration.adopt(
                    name,
                    KeyAdministration.GooglePayKeyAdoption(
                        merchantIdentifier: merchant, reason: reason, approval: try Self.approval(body.approval)),
                    by: request.knownCaller(), dryRun: request.isDryRun(), draft: request.draft))
        default:
            throw Refusal(
                .malformedRequest,
                "A Google Pay key needs use google-pay and merchantIdentifier. Any other key is adopted with the merchant of its "
                    + "certificate, without use, merchantIdentifier and approval.", details: "use")
        }
    }

    private func answer(_ outcome: KeyLifecycle.Outcome) async throws(Refusal) -> EndpointAnswer {
        switch outcome {
        case .changed(let entry):
            return try .json(summaries.summary(entry))
        case .pending(let approval):
            return try .pending(approval)
        case .wouldChange(let entry, let state, let needsApproval):
            var summary = summaries.summary(entry)
            summary.state = state.rawValue
            summary.remark = KeySummaries.dryRunRemark(needsApproval: needsApproval)
            return try .json(summary)
        }
    }
}

extension KeyProofAnswer {
    fileprivate init(_ outcome: KeyProving.Outcome) {
        self.init(
            publicKeyHash: outcome.key.publicKeyHash.base64, merchantIdentifier: outcome.key.merchantIdentifier,
            certificateSha256: outcome.certificate?.hex, proved: outcome.isProved,
            items: outcome.results.map { result in
                Item(
                    token: result.hsmToken, proved: result.failure == nil, tier: result.protection?.rawValue,
                    code: result.failure?.code.rawValue, message: result.failure?.message, audit: result.audit)
            }, withoutKey: outcome.withoutKey)
    }
}

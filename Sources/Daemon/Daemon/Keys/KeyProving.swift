import AuditChain
import DaemonAPI
import DaemonConfiguration
import Encodings
import KeyTesting
import KeyTypes
import Ledger
import MerchantKeys
import PaymentToken
import Refusals
import TLSHandshake
import UsageRecording
import WorkerProtocol
import WorkerSupervision

/// Has a key prove itself in each HSM token that shows it, and records the results.
///
/// A processing key opens a message that the daemon encrypts to the key's certificate as a wallet does, by the same call
/// that opens payments. An identity key signs a made-up TLS handshake, by the call that signs for merchant sessions. The
/// daemon compares the result and forgets it. The caller supplies no byte of the message, and receives none of the
/// result, so a proof gives no caller a decryption or a signature.
struct KeyProving: Sendable {
    let keys: KeyIndex
    let hsm: any ProvingHSM
    let gate: LedgerGate
    let recorder: UsageRecorder
    /// The configured names of the HSM tokens, in the configuration's order.
    let hsmTokens: [String]

    /// The results of one request.
    struct Outcome: Sendable {
        let key: KeyEntry
        /// SHA-256, in DER, of the certificate for which the messages were made; nil if the key has none.
        let certificate: AuditDigest?
        /// One element for each HSM token that shows the key, in the configuration's order. For the key of an open renewal, then
        /// one, refused, for each that shows the key which it replaces: the node does not prove the key without it.
        let results: [HSMTokenResult]
        /// The configured HSM tokens that do not show the key.
        let withoutKey: [String]

        var isProved: Bool { results.allSatisfy { $0.failure == nil } }
    }

    /// The result in one HSM token.
    struct HSMTokenResult: Sendable {
        let hsmToken: String
        /// The tier in which a processing key opened the message; nil otherwise.
        var protection: ProtectionTier?
        /// The reason why the key is not proved; nil if it is.
        var failure: Refusal?
        /// False if the HSM token cannot have used the key.
        var mayHaveReachedHSM = true
        var audit: AuditReference?
    }

    /// Proves a key in each HSM token that shows it. Each result has an audit record, which is durable when the call
    /// returns. An HSM token that fails is a result, and no error.
    ///
    /// - Parameters:
    ///   - caller: the person who asked; nil if the daemon itself did.
    ///   - draft: receives the facts of the request, and the place of its last audit record.
    /// - Throws: `invalid_state` for a key that must not be used, `hsm_unavailable` if no HSM token shows the key, and
    ///   `ledger_unavailable`.
    func prove(_ key: KeyEntry, by caller: Caller?, draft: AuditDraft) async throws(Refusal) -> Outcome {
        draft.setSubject(key)
        let certificate = key.certificate.flatMap { AuditDigest(bytes: $0.sha256) }
        draft.setEvent(.keyProof(certificate: certificate))
        try gate.admit()
        try await requireProvable(key)
        let challenge = try Challenge(key, publicKey: publicKey(of: key))
        let lacking = try await lacking(key)
        var results = await withTaskGroup(of: (Int, HSMTokenResult).self) { group in
            for (place, hsmToken) in shown(key).enumerated() {
                group.addTask { (place, await result(of: challenge, in: hsmToken)) }
            }
            var results: [(Int, HSMTokenResult)] = []
            for await result in group { results.append(result) }
            return results.sorted { $0.0 < $1.0 }.map(\.1)
        }
        results += lacking.map {
            HSMTokenResult(hsmToken: $0, failure: Self.withoutKey, mayHaveReachedHSM: false)
        }
        let records = results.map { result in
            draft.used(hsmToken: result.hsmToken, protection: result.protection)
            draft.mayHaveReachedHSM(result.mayHaveReachedHSM)
            return recorder.auditRecord(
                of: draft, by: caller, outcome: result.failure.map { .refused($0.code) } ?? .ok)
        }
        let sequences = try await recorder.append(records)
        for place in results.indices { results[place].audit = recorder.reference(sequences[place]) }
        draft.recorded(at: sequences.last)
        return Outcome(
            key: key, certificate: certificate, results: results,
            withoutKey: hsmTokens.filter { !key.hsmTokens.contains($0) })
    }

    private func shown(_ key: KeyEntry) -> [String] { hsmTokens.filter(key.hsmTokens.contains) }

    /// Returns the HSM tokens that lack the key of an open renewal or a new Google Pay key, and show an active key that it
    /// replaces, or may do so.
    private func lacking(_ key: KeyEntry) async throws(Refusal) -> [String] {
        if key.use != .googlePay || key.state != .preActivation {
            let open = try await refusing(ledger: await recorder.ledger.openRenewals())
            guard open.contains(where: { $0.renewal.newKey == key.publicKeyHash }) else { return [] }
        }
        return keys.hsmTokens(
            hsmTokens, without: key.publicKeyHash, of: key.merchantIdentifier, key.use, key.algorithm)
    }

    // MARK: Checks

    /// Throws unless the key may be used. The state is read from the store, since another node may have changed it.
    /// A key before its activation may be used: a proof is the only use that it has.
    private func requireProvable(_ key: KeyEntry) async throws(Refusal) {
        guard key.use != .service else {
            throw Refusal(.invalidState, "A service key has no certificate, and signs for Apple's API only.")
        }
        if case .inconsistent(let reason) = key.condition {
            throw Refusal(.invalidState, "The key is inconsistent and is not used.", details: reason)
        }
        guard let known = try await refusing(ledger: await recorder.ledger.keyRecord(key.publicKeyHash)) else {
            throw Refusal(.invalidState, "The key was made outside paytokend and has not been adopted; adopt it first.")
        }
        let mayBeUsed =
            switch known.state {
            case .preActivation, .active, .deactivated: true
            case .suspended, .compromised, .destroyed: false
            }
        guard mayBeUsed else {
            throw Refusal(
                .invalidState, "A key in the state \(known.state.rawValue) must not be used, so it is not proved.")
        }
        guard !shown(key).isEmpty else {
            throw Refusal(
                .hsmUnavailable, "No HSM token that is available now shows this key.",
                details: KeyAdministration.seeStatus)
        }
    }

    /// Returns the public key that Apple certified; without a certificate, the one that an HSM token shows.
    private func publicKey(of key: KeyEntry) throws(Refusal) -> SubjectPublicKeyInfo {
        let certified = key.certificate.flatMap { try? CertificateFields(der: $0.der).subjectPublicKeyInfo }
        guard let der = certified.map({ Array($0) }) ?? keys.subjectPublicKeyInfo(key.publicKeyHash),
            let publicKey = try? SubjectPublicKeyInfo(der: der), publicKey.publicKeyHash == key.publicKeyHash.bytes
        else {
            throw Refusal(
                .hsmUnavailable, "No HSM token shows the key's public half.", details: KeyAdministration.seeStatus)
        }
        return publicKey
    }

    // MARK: One HSM token

    /// The facts from which the message for each HSM token is made.
    private struct Challenge {
        let key: KeyEntry
        let publicKey: SubjectPublicKeyInfo
        /// OtherInfo with the merchant that Apple certified, which wallets use.
        let walletsInfo: [UInt8]

        init(_ key: KeyEntry, publicKey: SubjectPublicKeyInfo) {
            (self.key, self.publicKey) = (key, publicKey)
            walletsInfo =
                key.certificate?.merchantIdentifierHash.map(OtherInfo.ecV1(merchantIdentifierHash:))
                ?? OtherInfo.ecV1(merchantIdentifier: key.merchantIdentifier)
        }
    }

    private func result(of challenge: Challenge, in hsmToken: String) async -> HSMTokenResult {
        var result = HSMTokenResult(hsmToken: hsmToken)
        do throws(WorkerFailure) {
            if challenge.key.use == .identity {
                result.failure = try await signs(challenge, in: hsmToken) ? nil : Self.wrongSignature
            } else {
                let opened = try await opens(challenge, in: hsmToken)
                (result.protection, result.failure) = (opened.tier, opened.isRight ? nil : Self.wrongPlaintext)
            }
        } catch {
            // The worker's reason is for operators, who alone ask for proofs.
            result.failure = Refusal(error.refusal.code, error.message)
            result.mayHaveReachedHSM = !error.isUnsent
        }
        return result
    }

    /// Has the HSM token open a message that is encrypted as a wallet does it. The call is the one that opens payments:
    /// as there, the merchant comes from the ledger, and not from the certificate.
    private func opens(
        _ challenge: Challenge, in hsmToken: String
    ) async throws(WorkerFailure) -> (isRight: Bool, tier: ProtectionTier) {
        guard
            let message = try? TestTransaction(
                for: challenge.publicKey, challenge.key.scheme, otherInfo: challenge.walletsInfo)
        else {
            throw WorkerFailure(.protocolViolation, "Nothing can be encrypted to the public key.", isUnsent: true)
        }
        var input = message.input
        if input.scheme == .ecV1 {
            input.otherInfo = OtherInfo.ecV1(merchantIdentifier: challenge.key.merchantIdentifier)
        }
        let opened = try await hsm.decrypt(input, heldBy: [hsmToken], for: Requester())
        return (opened.plaintext == message.plaintext, opened.tier)
    }

    /// Has the HSM token sign a made-up handshake, by the algorithm that it prefers.
    private func signs(_ challenge: Challenge, in hsmToken: String) async throws(WorkerFailure) -> Bool {
        let algorithm = hsm.tlsAlgorithms(of: [hsmToken]).first ?? .pssSHA256
        let input =
            algorithm == .pssSHA256
            ? TestHandshake.tls13()
            : TestHandshake.tls12(certificate: challenge.key.certificate?.der ?? challenge.publicKey.der)
        let signing = TLSSigning(
            publicKeyHash: challenge.key.publicKeyHash.bytes, algorithm: algorithm, input: input)
        let (signature, _) = try await hsm.sign(signing, heldBy: [hsmToken], for: Requester())
        return challenge.publicKey.isValid(signature, of: input, algorithm)
    }

    private static let withoutKey = Refusal(
        .hsmUnavailable, "The HSM token shows an active key that this one is to replace, and does not show this one.")
    private static let wrongPlaintext = Refusal(
        .decryptionFailed, "The HSM token opened the message, but not to what was encrypted.")
    private static let wrongSignature = Refusal(
        .hsmUnavailable, "The HSM token's signature does not verify with the key's public half.")
}

/// The interface of the HSM tokens that ``KeyProving`` uses. A call goes to the HSM token that it names.
protocol ProvingHSM: TransactionDecrypting {
    /// Signs a TLS handshake with an identity key.
    /// - Returns: the signature, and the name of the HSM token that made it.
    func sign(
        _ signing: TLSSigning, heldBy holders: [String], for requester: Requester
    ) async throws(WorkerFailure) -> (signature: [UInt8], hsmToken: String)

    /// Returns the algorithms that all serving HSM tokens among these support now, in order of preference; an empty
    /// array if none serves.
    func tlsAlgorithms(of holders: [String]) -> [TLSSignatureAlgorithm]
}

import AuditChain
import DaemonAPI
import DaemonConfiguration
import Encodings
import Foundation
import GooglePayToken
import KeyTypes
import PaymentToken
import Refusals
import ServerProgram
import UsageRecording

/// The handlers of `POST /v1/decrypt`, `POST /v1/verify` and of the same paths below `/v1/google-pay`, which payment
/// backends call.
struct DecryptionRoutes: Sendable {
    let decryptor: TokenDecryptor
    let firstReleases: CallerFirstReleases

    func decrypt(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        let caller = try request.knownCaller()
        request.draft.setEvent(.decrypt(reference: nil))
        let turn = try await request.waitForTurn()
        defer { turn?.end() }
        let body = try DecryptRequest(parsing: request.body)
        request.draft.setEvent(.decrypt(reference: body.common.reference.map { AuditDigest.of($0.utf8) }))
        let payment = try await decryptor.decrypt(
            body, for: caller, draft: request.draft, from: request.origin, turn: turn)
        firstReleases.released(to: caller.peer.uid)
        return EndpointAnswer(
            http: .json(status: 200, payment.json), outcome: payment.isRepeat ? "repeat" : "ok",
            metadata: [
                "transaction.id": .string(payment.transactionIdentifier.hex),
                "key.hash": .string(payment.publicKeyHash.hex), "merchant": .string(payment.merchantIdentifier),
                "protection": .string(payment.protection.rawValue),
            ])
    }

    /// Decrypts a Google Pay message.
    func decryptGooglePay(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        let caller = try request.knownCaller()
        request.draft.setEvent(.decryptGooglePay(GooglePayDecryption()))
        let turn = try await request.waitForTurn()
        defer { turn?.end() }
        _ = try decryptor.googleRootKeys()
        let body = try GooglePayDecryptRequest(parsing: request.body)
        request.draft.setEvent(
            .decryptGooglePay(
                GooglePayDecryption(
                    reference: body.common.reference.map { AuditDigest.of($0.utf8) }, amount: AuditText(body.amount),
                    currency: AuditText(body.currency))))
        let (answer, payment) = try await decryptor.decrypt(
            body, for: caller, draft: request.draft, from: request.origin, turn: turn)
        firstReleases.released(to: caller.peer.uid)
        return EndpointAnswer(
            http: .json(status: 200, answer), outcome: payment.isRepeat ? "repeat" : "ok",
            metadata: [
                "wallet": .string(Wallet.googlePay.rawValue), "key.hash": .string(payment.key.publicKeyHash.hex),
                "merchant": .string(payment.key.merchantIdentifier),
                "protection": .string(payment.opened.tier.rawValue),
            ])
    }

    /// Verifies that Apple signed the payment token. No key is used, and no claim is made.
    ///
    /// The answer's transactionId is only what the payment token states. Apple's signature covers data ‖ transactionId ‖
    /// applicationData without their lengths, so it stays valid if a sender moves bytes from one field to the next.
    /// `PaymentToken` permits only a move of 32 bytes, and only decryption detects it. A caller that must be sure of the
    /// transactionId has to decrypt.
    func verify(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        try await answer(request, .verify) { (caller) async throws(Refusal) in
            let body = try VerifyRequest(parsing: request.body)
            let verified = try await decryptor.verify(body.token, at: body.at, for: caller, draft: request.draft)
            return VerifyAnswer(
                version: verified.paymentToken.version.rawValue,
                transactionId: verified.paymentToken.transactionIdentifier.hex,
                publicKeyHash: verified.paymentToken.publicKeyHash.base64, signingTime: verified.signingTime,
                chain: verified.chain.certificates.map(CertificateSummary.init))
        }
    }

    /// Verifies that Google signed the payment token for the merchant that the request names. No key is used, and no
    /// claim is made.
    func verifyGooglePay(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        try await answer(request, .verifyGooglePay) { (_) async throws(Refusal) in
            let roots = try decryptor.googleRootKeys()
            let body = try GooglePayVerifyRequest(parsing: request.body)
            let verified = try decryptor.verify(
                body.common.token, for: body.merchantIdentifier, under: roots, at: body.common.at, draft: request.draft)
            return GooglePayVerifyAnswer(
                version: GooglePayToken.version, transactionId: verified.paymentToken.transactionIdentifier.hex,
                merchantIdentifier: verified.merchant.identifier,
                chain: [GoogleKeySummary(verified.paymentToken.intermediateKey), GoogleKeySummary(verified.root)])
        }
    }

    /// Returns the public key that new payment requests of the merchant's site and apps should carry: the newest one that
    /// a person stated to be in Google's console, and that an HSM token of this host shows.
    func googlePayPublicKey(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        let caller = try request.knownCaller()
        _ = try decryptor.googleRootKeys()
        guard let merchant = request.query["merchantIdentifier"] else {
            throw Refusal(
                .malformedRequest, "The query needs the merchant's identifier at Google.", details: "merchantIdentifier"
            )
        }
        try caller.requireGooglePay(merchant: merchant)
        let active = decryptor.keys.googlePayKeys(of: merchant, at: Date()).filter { $0.state == .active }
        guard !active.isEmpty else { throw GooglePayment.unknownKey(of: merchant, in: decryptor.keys) }
        guard let here = active.first(where: { $0.condition == .served }) else {
            throw Refusal(.hsmUnavailable, "No HSM token of this host can use the merchant's active keys at present.")
        }
        return try .json(PublicKeyAnswer(of: here, in: decryptor.keys))
    }

    /// The part of a verification that is the same for both wallets.
    private func answer<Answer: Encodable>(
        _ request: EndpointRequest, _ event: AuditEvent,
        _ verify: (Caller) async throws(Refusal) -> Answer
    ) async throws(Refusal) -> EndpointAnswer {
        let caller = try request.knownCaller()
        request.draft.setEvent(event)
        let turn = try await request.waitForTurn()
        defer { turn?.end() }
        return try .json(try await verify(caller))
    }
}

extension GoogleKeySummary {
    init(_ key: GoogleIntermediateKey) {
        self.init(notAfter: key.expiration, sha256: Hexadecimal.encode(key.key.publicKeyHash))
    }

    init(_ root: GoogleRootKey) {
        self.init(notAfter: root.expiration, sha256: Hexadecimal.encode(root.sha256))
    }
}

extension CertificateSummary {
    init(_ certificate: CertificateDescription) {
        self.init(
            subject: certificate.subject, issuer: certificate.issuer, serialNumber: certificate.serialNumber,
            notBefore: certificate.notBefore, notAfter: certificate.notAfter,
            sha256: certificate.sha256Hex)
    }
}

/// A payment that was verified, decrypted, compared and claimed: the content of a 200 answer of `POST /v1/decrypt`.
///
/// It contains the account number and the cryptogram in the clear, so nothing but that answer may use it. Its description
/// is the transaction identifier alone, so that a log cannot reveal the rest.
struct ReleasedPayment: Sendable {
    let transactionIdentifier: TransactionIdentifier
    let merchantIdentifier: String
    let publicKeyHash: PublicKeyHash
    let version: PaymentTokenVersion
    let signingTime: Date
    let protection: ProtectionTier
    /// The names of the members of `expected` that were compared.
    let checked: [String]
    let isRepeat: Bool
    /// The decrypted dictionary, byte for byte as Apple wrote it.
    let paymentData: [UInt8]
    /// The reference of the release's audit record.
    let audit: AuditReference?

    var json: [UInt8] {
        DecryptAnswer(
            transactionId: transactionIdentifier.hex, merchantIdentifier: merchantIdentifier,
            publicKeyHash: publicKeyHash.base64, version: version.rawValue, signingTime: signingTime,
            protection: protection.rawValue, checked: checked, repeated: isRepeat, audit: audit
        ).json(paymentData: paymentData)
    }
}

extension ReleasedPayment: CustomStringConvertible, CustomReflectable {
    var description: String { "ReleasedPayment(\(transactionIdentifier.hex))" }
    var customMirror: Mirror { Mirror(self, children: [:]) }
}

/// A payment token with a valid signature from Apple: the content of a 200 answer of `POST /v1/verify`.
struct VerifiedPaymentToken: Sendable {
    let paymentToken: PaymentToken
    let signingTime: Date
    let chain: VerifiedChain
}

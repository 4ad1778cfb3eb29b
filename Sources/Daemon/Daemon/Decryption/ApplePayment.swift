import ConfigurationFile
import Crypto
import DaemonAPI
import DaemonConfiguration
import Foundation
import KeyTypes
import Ledger
import MerchantKeys
import PaymentToken
import Refusals
import StrictJSON
import UsageRecording
import WorkerProtocol

/// A payment token that Apple signed, and the request that carries it.
struct ApplePayment: WalletPayment {
    static let wallet = Wallet.applePay

    private let signingTime: Date
    let refusalOfFirstRelease: Refusal? = nil
    private let request: DecryptRequest
    private let expected: ExpectedDetails
    private let paymentToken: PaymentToken

    /// Verifies Apple's signature and its certificate chain.
    init(
        _ request: DecryptRequest, for caller: Caller, trust: TrustPolicy, draft: AuditDraft
    ) async throws(Refusal) {
        self.request = request
        expected = try request.expected.map(ExpectedDetails.init) ?? .nothing
        let missing = expected.missing(of: caller.requireExpected)
        guard missing.isEmpty else { throw DecryptRequest.lacksExpected(missing) }
        paymentToken = try PaymentToken(ofApplePay: request.token)
        draft.setSubject(paymentToken)
        signingTime = try await TokenDecryptor.verify(paymentToken, trust: trust).0.signingTime
    }

    func release(for caller: Caller, at moment: Date) throws(Refusal) -> Release {
        var release = Release(
            transactionId: paymentToken.transactionIdentifier, publicKeyHash: paymentToken.publicKeyHash,
            caller: caller.name, referenceDigest: request.common.referenceDigest,
            contentDigest: Array(SHA256.hash(data: paymentToken.signedContent)),
            named: try NamedAttempt(of: request.common), at: moment)
        release.signedAt = signingTime
        return release
    }

    func keys(in index: KeyIndex, at now: Date) -> [KeyEntry] {
        index.entry(paymentToken.publicKeyHash).map { [$0] } ?? []
    }

    func unknownKey(in index: KeyIndex) -> Refusal {
        Refusal(
            .unknownPublicKeyHash, "No merchant key here has the public key hash that the payment token names.",
            details: "publicKeyHash \(paymentToken.publicKeyHash.hex)")
    }

    func requirePermission(of caller: Caller, for merchant: String) throws(Refusal) {
        guard caller.allows(merchant: merchant) else {
            throw Refusal(.forbidden, "No access rule lets this caller use this merchant's key.")
        }
        guard request.merchants?.contains(where: { MerchantPattern($0).matches(merchant) }) ?? true else {
            throw Refusal(
                .forbidden, "The payment token's merchant is not among the merchants that the request names.",
                details: DecryptRequest.merchantsDetails)
        }
    }

    func checkBeforeDecryption(merchant: String, for caller: Caller, draft: AuditDraft) throws(Refusal) {
        try expected.checkMerchant(merchant)
        try expected.checkApplicationData(paymentToken)
    }

    /// Apple Pay tokens show their signing time without a decryption.
    func checkTimesBeforeDecryption(
        _ window: SigningTimeWindow, for caller: Caller, release: Release, draft: AuditDraft
    ) throws(Refusal) {}

    func decryption(with key: KeyEntry) throws(Refusal) -> Decryption {
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
        return Decryption(
            publicKeyHash: paymentToken.publicKeyHash.bytes, scheme: scheme,
            keyMaterial: try paymentToken.restorationInput(),
            otherInfo: otherInfo, ciphertext: paymentToken.encryptedData)
    }

    func check(
        _ plaintext: [UInt8], _ window: SigningTimeWindow, for caller: Caller, release: inout Release, draft: AuditDraft
    ) throws(Refusal) -> PaymentPayload {
        let payload = try PaymentPayload(plaintext: plaintext)
        try expected.checkCurrency(payload)
        try expected.checkAmount(payload)
        return payload
    }

    func answer(_ released: TokenDecryptor.Released<PaymentPayload>) -> ReleasedPayment {
        ReleasedPayment(
            transactionIdentifier: paymentToken.transactionIdentifier,
            merchantIdentifier: released.key.merchantIdentifier, publicKeyHash: paymentToken.publicKeyHash,
            version: paymentToken.version, signingTime: signingTime, protection: released.opened.tier,
            checked: expected.checkedMembers, isRepeat: released.isRepeat, paymentData: released.opened.plaintext,
            audit: released.audit)
    }
}

extension TokenDecryptor {
    /// Verifies Apple's signature, its certificate chain and its signing time (step 1 of Apple's reference). No key is
    /// used, and no claim is made.
    ///
    /// - Parameter moment: the time at which the signing-time window is evaluated; nil for the current time.
    func verify(
        _ json: JSONValue, at moment: Date?, for caller: Caller, draft: AuditDraft
    ) async throws(Refusal) -> VerifiedPaymentToken {
        let policies = policies.current
        let paymentToken = try PaymentToken(ofApplePay: json)
        draft.setSubject(paymentToken)
        let (evidence, chain) = try await Self.verify(paymentToken, trust: policies.trust)
        let window = caller.signingTimeWindow ?? policies.signingTimeWindow
        try window.check(signingTime: evidence.signingTime, now: moment ?? ledgerClock.clock.now())
        return VerifiedPaymentToken(paymentToken: paymentToken, signingTime: evidence.signingTime, chain: chain)
    }

    fileprivate static func verify(
        _ paymentToken: PaymentToken, trust: TrustPolicy
    ) async throws(Refusal) -> (SignatureEvidence, VerifiedChain) {
        let evidence = try SignatureEvidence(of: paymentToken)
        return (evidence, try await trust.evaluate(evidence))
    }
}

extension PaymentToken {
    /// Parses a payment token of Apple Pay. The refusal of one of Google Pay says so.
    fileprivate init(ofApplePay json: JSONValue) throws(Refusal) {
        do throws(Refusal) {
            try self.init(json: json)
        } catch {
            let envelope = json.stringValue.flatMap { try? JSONValue(parsing: $0) } ?? json
            guard let members = envelope.objectValue, members["version"] == nil, members["data"] == nil,
                members["paymentData"] == nil,
                let google = ["protocolVersion", "signedMessage"].first(where: { members[$0] != nil })
            else { throw error }
            throw Refusal(
                error.code, "This is a payment token of Google Pay, which has a path of its own.",
                details: "token.\(google)")
        }
    }
}

extension ReleaseMembers {
    /// SHA-256 of the reference; nil without one.
    var referenceDigest: [UInt8]? { reference.map { Array(SHA256.hash(data: Array($0.utf8))) } }
}

extension NamedAttempt {
    /// Creates the attempt of a request; nil if the request has no `attempt`.
    init?(of request: ReleaseMembers) throws(Refusal) {
        guard let attempt = request.attempt else { return nil }
        self.init(try AttemptName(of: attempt), after: try request.after.map(AttemptName.init(of:)))
    }
}

extension AttemptName {
    fileprivate init(of text: String) throws(Refusal) {
        guard let name = AttemptName(hex: text) else {
            // The request's parser has already refused any name that is not 16 hexadecimal digits. If the name were
            // ignored here instead, the release could be repeated after any attempt.
            throw Refusal(.malformedRequest, "An attempt's name must be 16 hexadecimal digits.")
        }
        self = name
    }
}

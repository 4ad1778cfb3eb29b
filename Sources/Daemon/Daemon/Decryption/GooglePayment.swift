import AuditChain
import DaemonAPI
import DaemonConfiguration
import Encodings
import Foundation
import GooglePayToken
import KeyTypes
import Ledger
import MerchantKeys
import PaymentToken
import Refusals
import UsageRecording
import WorkerProtocol

/// A Google Pay message with valid signatures, and the request that carries it.
struct GooglePayment: WalletPayment {
    static let wallet = Wallet.googlePay

    let request: GooglePayDecryptRequest
    let verified: VerifiedGooglePayToken
    /// `google_pay.message_lifetime`.
    let lifetime: Duration
    let refusedMessages: RefusedMessages
    var refusalOfFirstRelease: Refusal?

    private var paymentToken: GooglePayToken { verified.paymentToken }

    /// - Throws: `forbidden` too, so that a caller without permission learns nothing of what was released.
    func release(for caller: Caller, at moment: Date) throws(Refusal) -> Release {
        try requirePermission(of: caller, for: verified.merchant.identifier)
        return Release(
            of: .googlePay,
            transactionId: GooglePayClaims.name(
                ofSignedMessage: paymentToken.transactionIdentifier, for: verified.merchant),
            // The decryptor replaces the hash by that of the key that opens the message.
            publicKeyHash: .of(subjectPublicKeyInfo: []), caller: caller.name,
            referenceDigest: request.common.referenceDigest, contentDigest: paymentToken.transactionIdentifier.bytes,
            named: try NamedAttempt(of: request.common), at: moment)
    }

    func keys(in index: KeyIndex, at now: Date) -> [KeyEntry] {
        index.googlePayKeys(of: verified.merchant.identifier, at: now)
    }

    func unknownKey(in index: KeyIndex) -> Refusal { Self.unknownKey(of: verified.merchant.identifier, in: index) }

    static func unknownKey(of merchant: String, in index: KeyIndex) -> Refusal {
        index.hasGooglePayKeys(of: merchant)
            ? Refusal(.keyNotActive, "None of the merchant's Google Pay keys is in use now.")
            : Refusal(.unknownPublicKeyHash, "No Google Pay key of this merchant is here.")
    }

    func requirePermission(of caller: Caller, for merchant: String) throws(Refusal) {
        try caller.requireGooglePay(merchant: merchant)
    }

    /// Refuses a message that was decrypted and refused too often for its kind of card number. Another rule or another
    /// expectation may permit that kind now, and the message is then decrypted again.
    func checkBeforeDecryption(merchant: String, for caller: Caller, draft: AuditDraft) throws(Refusal) {
        let transaction = paymentToken.transactionIdentifier
        guard let method = refusedMessages.usedUp(transaction, for: caller.name) else { return }
        draft.change { $0.authMethod = AuditText(method.rawValue) }
        try requirePermitted(
            method, for: caller,
            " This host has refused it \(Release.maximumRepeats) times for this reason, and does not decrypt it while the "
                + "kind is not permitted.")
    }

    func checkTimesBeforeDecryption(
        _ window: SigningTimeWindow, for caller: Caller, release: Release, draft: AuditDraft
    ) throws(Refusal) {
        guard let shown = refusedMessages.refusedForTimes(paymentToken.transactionIdentifier, for: caller.name),
            let refusal = Self.refusal(
                GooglePayMessageTimes(expiration: shown.expiration, lifetime: lifetime), window, of: release)
        else { return }
        draft.change { $0.authMethod = AuditText(shown.method.rawValue) }
        // As after a decryption, this check comes before the times.
        try requirePermitted(shown.method, for: caller)
        throw refusal
    }

    func decryption(with key: KeyEntry) throws(Refusal) -> Decryption {
        Decryption(
            publicKeyHash: key.publicKeyHash.bytes, scheme: .ecV2, keyMaterial: paymentToken.ephemeralPublicKey,
            otherInfo: [], ciphertext: paymentToken.encryptedMessage + paymentToken.tag)
    }

    func check(
        _ plaintext: [UInt8], _ window: SigningTimeWindow, for caller: Caller, release: inout Release, draft: AuditDraft
    ) throws(Refusal) -> GooglePayPayload {
        let payload = try GooglePayPayload(plaintext: plaintext)
        draft.change { $0.authMethod = AuditText(payload.authMethod.rawValue) }
        // This check comes before the times, so that the refusals of an expired message are counted too.
        do throws(Refusal) {
            try requirePermitted(payload.authMethod, for: caller)
        } catch {
            // The ledger counts the refusals of a message that has a claim.
            if release.allowsFirstRelease {
                refusedMessages.count(payload.authMethod, of: paymentToken.transactionIdentifier, for: caller.name)
            }
            throw error
        }
        let times = GooglePayMessageTimes(expiration: payload.messageExpiration, lifetime: lifetime)
        if let refusal = Self.refusal(times, window, of: release) {
            refusedMessages.remember(
                times.expiration, payload.authMethod, of: paymentToken.transactionIdentifier, for: caller.name)
            throw refusal
        }
        release.signedAt = times.signedAt
        release.messageClaim =
            GooglePayClaims(
                of: paymentToken.transactionIdentifier, messageId: payload.messageId, for: verified.merchant
            ).messageId
        return payload
    }

    /// Refuses a kind of card number that the caller's rule or the request does not permit.
    private func requirePermitted(
        _ method: GooglePayPayload.AuthMethod, for caller: Caller, _ more: String = ""
    ) throws(Refusal) {
        let permitted = caller.googlePay?.authMethods ?? []
        guard permitted.contains(method) else {
            throw Refusal(
                .authMethodNotAllowed,
                "The message has a card number of the kind \(method.rawValue), which this caller's access rule does not "
                    + "permit; ask Google for allowedAuthMethods: "
                    + "[\(permitted.map(\.rawValue).sorted().joined(separator: ", "))].\(more)",
                details: "authMethod")
        }
        guard request.authMethod.map({ $0.utf8.elementsEqual(method.rawValue.utf8) }) ?? true else {
            throw Refusal(
                .authMethodNotAllowed,
                "The message has a card number of another kind than the request expects: \(method.rawValue).\(more)",
                details: "expected.authMethod")
        }
    }

    /// Returns the refusal of a first release outside the times; nil for a repeat, which is exempt from them, as from
    /// Apple's window.
    private static func refusal(
        _ times: GooglePayMessageTimes, _ window: SigningTimeWindow, of release: Release
    ) -> Refusal? {
        guard release.allowsFirstRelease else { return nil }
        return switch times.fault(at: release.at, window: window.duration) {
        case nil: nil
        case .expired:
            Refusal(
                .messageExpired, "The message has expired; ask the customer to pay again, and check this host's clock.",
                details: "messageExpiration \(RFC3339.string(times.expiration))")
        case .signedInFuture:
            Refusal(
                .signingTimeOutsideWindow,
                "The message expires later than one of this moment could; check this host's clock and "
                    + "google_pay.message_lifetime.",
                details: "counts as signed \(Int(times.signedAt.timeIntervalSince(release.at).rounded())) s after the "
                    + "current time; \(window) are allowed")
        }
    }

    func answer(_ released: TokenDecryptor.Released<GooglePayPayload>) -> [UInt8] {
        GooglePayDecryptAnswer(
            transactionId: paymentToken.transactionIdentifier.hex, messageId: released.payload.messageId,
            authMethod: released.payload.authMethod.rawValue, merchantIdentifier: verified.merchant.identifier,
            publicKeyHash: released.key.publicKeyHash.base64, protection: released.opened.tier.rawValue,
            repeated: released.isRepeat, audit: released.audit
        ).json(paymentData: released.opened.plaintext)
    }
}

extension Caller {
    /// - Throws: `forbidden` unless the caller's access rule serves this merchant of Google Pay.
    func requireGooglePay(merchant: String) throws(Refusal) {
        guard googlePay?.allows(merchant: merchant) == true else {
            throw Refusal(.forbidden, "No access rule lets this caller use this merchant's Google Pay keys.")
        }
    }
}

import DaemonAPI
import DaemonConfiguration
import Foundation
import GooglePayToken
import HTTPListener
import PaymentToken
import Refusals
import StrictJSON
import UsageRecording

/// A payment token that Google signed for a merchant: the content of a 200 answer of `POST /v1/google-pay/verify`.
struct VerifiedGooglePayToken: Sendable {
    let paymentToken: GooglePayToken
    let merchant: GooglePayMerchant
    let root: GoogleRootKey
}

extension TokenDecryptor {
    /// Google's root keys in force, or those of the policies.
    ///
    /// - Throws: `not_found` if the configuration names none.
    func googleRootKeys(of policies: Policies? = nil) throws(Refusal) -> GoogleRootKeys {
        guard let roots = (policies ?? self.policies.current).googlePay else {
            throw Refusal(
                .notFound, "Google Pay is not configured: trust.google_pay names no file with Google's root keys.",
                details: "trust.google_pay")
        }
        return roots
    }

    /// Verifies Google's signatures. No key is used, and no claim is made.
    /// - Parameter moment: the time at which Google's keys must not have expired; nil for the current time.
    func verify(
        _ token: JSONValue, for merchantIdentifier: String, under roots: GoogleRootKeys, at moment: Date?,
        ignoringKeyExpiration ignoresKeyExpiration: Bool = false, draft: AuditDraft
    ) throws(Refusal) -> VerifiedGooglePayToken {
        guard let merchant = GooglePayMerchant(merchantIdentifier) else {
            throw Refusal(
                .malformedRequest,
                "merchantIdentifier is not a merchant's identifier at Google: 1 to \(GooglePayMerchant.maximumLength) "
                    + "letters, digits, - and _, without the prefix merchant:.",
                details: "merchantIdentifier")
        }
        let paymentToken = try GooglePayToken(json: token)
        draft.setSubject(paymentToken.transactionIdentifier)
        let root = try paymentToken.verify(
            for: merchant, under: roots, at: moment ?? ledgerClock.clock.now(),
            ignoringKeyExpiration: ignoresKeyExpiration)
        return VerifiedGooglePayToken(paymentToken: paymentToken, merchant: merchant, root: root)
    }

    /// Verifies, decrypts and claims a Google Pay message.
    /// - Returns: the answer's body.
    func decrypt(
        _ request: GooglePayDecryptRequest, for caller: Caller, draft: AuditDraft, from origin: RequestOrigin?,
        turn: LoopTurn?
    ) async throws(Refusal) -> (body: [UInt8], released: Released<GooglePayPayload>) {
        let (policies, now) = (policies.current, ledgerClock.clock.now())
        // Step 1: verify Google's signatures. A repeat is exempt from the expiration of the intermediate signing key, and
        // needs a reference.
        let verified = try verify(
            request.token, for: request.merchantIdentifier, under: googleRootKeys(of: policies), at: now,
            ignoringKeyExpiration: true, draft: draft)
        var payment = GooglePayment(
            request: request, verified: verified, lifetime: policies.messageLifetime,
            refusedMessages: refusedMessages)
        do throws(Refusal) {
            try verified.paymentToken.requireCurrentKey(at: now)
        } catch {
            guard request.common.reference != nil else { throw error }
            payment.refusalOfFirstRelease = error
        }
        turn?.end()
        let released = try await release(payment, for: caller, policies, at: now, draft: draft, from: origin)
        return (payment.answer(released), released)
    }
}

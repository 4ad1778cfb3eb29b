import DaemonAPI
import Foundation
import GooglePayToken
import PaymentToken
import Refusals

/// A payment token that Google signed for a merchant: the content of a 200 answer of `POST /v1/google-pay/verify`.
struct VerifiedGooglePayToken: Sendable {
    let paymentToken: GooglePayToken
    let merchant: GooglePayMerchant
    let root: GoogleRootKey
}

extension TokenDecryptor {
    /// Google's root keys in force.
    ///
    /// - Throws: `not_found` if the configuration names none.
    func googleRootKeys() throws(Refusal) -> GoogleRootKeys {
        guard let roots = policies.current.googlePay else {
            throw Refusal(
                .notFound, "Google Pay is not configured: trust.google_pay names no file with Google's root keys.",
                details: "trust.google_pay")
        }
        return roots
    }

    /// Verifies Google's signatures. No key is used, and no claim is made.
    func verify(
        _ request: GooglePayVerifyRequest, under roots: GoogleRootKeys, draft: AuditDraft
    ) throws(Refusal) -> VerifiedGooglePayToken {
        guard let merchant = GooglePayMerchant(request.merchantIdentifier) else {
            throw Refusal(
                .malformedRequest,
                "merchantIdentifier is not a merchant's identifier at Google: 1 to \(GooglePayMerchant.maximumLength) "
                    + "letters, digits, - and _, without the prefix merchant:.",
                details: "merchantIdentifier")
        }
        let paymentToken = try GooglePayToken(json: request.common.token)
        draft.setSubject(paymentToken.transactionIdentifier)
        let root = try paymentToken.verify(
            for: merchant, under: roots, at: request.common.at ?? ledgerClock.clock.now())
        return VerifiedGooglePayToken(paymentToken: paymentToken, merchant: merchant, root: root)
    }
}

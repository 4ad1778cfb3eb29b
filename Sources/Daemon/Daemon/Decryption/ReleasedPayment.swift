import Crypto
import DaemonAPI
import Foundation
import KeyTypes
import Ledger
import PaymentToken
import Refusals

/// A payment that was verified, opened, compared and claimed: what a 200 answer of `POST /v1/decrypt` says.
///
/// It holds the account number and the cryptogram in the clear, so it prints as its identifier alone and goes nowhere
/// but into the one answer.
struct ReleasedPayment: Sendable {
    let transactionIdentifier: TransactionIdentifier
    let merchantIdentifier: String
    let publicKeyHash: PublicKeyHash
    let version: PaymentTokenVersion
    let signingTime: Date
    let protection: ProtectionTier
    /// The members of `expected` that were compared.
    let checked: [String]
    let isRepeat: Bool
    /// The decrypted dictionary, byte for byte as Apple wrote it.
    let paymentData: [UInt8]
    /// Where the release is recorded.
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

/// A token whose signature was found to be Apple's: what a 200 answer of `POST /v1/verify` says.
struct VerifiedPaymentToken: Sendable {
    let paymentToken: PaymentToken
    let signingTime: Date
    let chain: VerifiedChain
}

extension Release {
    /// The claim that a token's release would make, known before anything is opened.
    init(of paymentToken: PaymentToken, for caller: Caller, _ request: DecryptRequest, at moment: Date) throws(Refusal)
    {
        self.init(
            transactionId: paymentToken.transactionIdentifier, publicKeyHash: paymentToken.publicKeyHash,
            caller: caller.name,
            referenceDigest: request.reference.map { Array(SHA256.hash(data: Array($0.utf8))) },
            contentDigest: Array(SHA256.hash(data: paymentToken.signedContent)), named: try NamedAttempt(of: request),
            at: moment)
    }
}

extension NamedAttempt {
    /// Nil where the request names none.
    fileprivate init?(of request: DecryptRequest) throws(Refusal) {
        guard let attempt = request.attempt else { return nil }
        self.init(try AttemptName(of: attempt), after: try request.after.map(AttemptName.init(of:)))
    }
}

extension AttemptName {
    fileprivate init(of text: String) throws(Refusal) {
        guard let name = AttemptName(hex: text) else {
            // The request's reader has the same rule; without a name the release would be after any.
            throw Refusal(.malformedRequest, "An attempt's name is not of 16 hexadecimal digits.")
        }
        self = name
    }
}

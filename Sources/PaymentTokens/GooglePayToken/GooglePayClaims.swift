internal import Crypto
public import PaymentToken

/// The names under which the ledger claims one message: a message is released only if neither was claimed before.
///
/// Each is a SHA-256 over length-prefixed parts that begin with the wallet and the kind. No name therefore equals one
/// of another kind, of another merchant, or an identifier that Apple chose for a transaction.
public struct GooglePayClaims: Sendable, Hashable {
    /// The name of the signed bytes.
    public let signedMessage: TransactionIdentifier
    /// The name of Google's `messageId`. A second message with the same one is a replay.
    public let messageId: TransactionIdentifier

    /// - Parameters:
    ///   - transaction: ``GooglePayToken/transactionIdentifier``.
    ///   - messageId: ``GooglePayPayload/messageId``.
    public init(of transaction: TransactionIdentifier, messageId: String, for merchant: GooglePayMerchant) {
        signedMessage = Self.name(ofSignedMessage: transaction, for: merchant)
        self.messageId = Self.name("message-id", merchant, Array(messageId.utf8))
    }

    /// The name of the signed bytes, which is known before the message is decrypted.
    public static func name(
        ofSignedMessage transaction: TransactionIdentifier, for merchant: GooglePayMerchant
    ) -> TransactionIdentifier {
        name("signed-message", merchant, transaction.bytes)
    }

    private static func name(
        _ kind: String, _ merchant: GooglePayMerchant, _ value: [UInt8]
    ) -> TransactionIdentifier {
        let texts = ["paytokend claim", "google-pay", kind, merchant.identifier]
        return TransactionIdentifier(sha256Of: GooglePayToken.signedBytes(texts.map { Array($0.utf8) } + [value]))
    }
}

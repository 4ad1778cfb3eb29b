import Crypto
import Foundation
import Ledger
import PaymentToken

extension Release {
    /// The claim that a token's release would make, known before anything is opened.
    init(of paymentToken: PaymentToken, for caller: Caller, reference: String?, at moment: Date) {
        self.init(
            transactionId: paymentToken.transactionIdentifier, publicKeyHash: paymentToken.publicKeyHash,
            caller: caller.name,
            referenceDigest: reference.map { Array(SHA256.hash(data: Array($0.utf8))) },
            contentDigest: Array(SHA256.hash(data: paymentToken.signedContent)), at: moment)
    }
}

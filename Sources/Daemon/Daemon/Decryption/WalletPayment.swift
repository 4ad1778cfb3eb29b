import Foundation
import Ledger
import MerchantKeys
import Refusals
import WorkerProtocol

/// A payment token whose signature has been verified, and the request that carries it: what only one wallet's payment
/// tokens have. ``TokenDecryptor`` uses the members in the order in which they are declared.
protocol WalletPayment: Sendable {
    /// Creates the release that the request asks for, from what is known before the payment token is decrypted.
    /// - Throws: `malformed_request`.
    func release(for caller: Caller, at moment: Date) throws(Refusal) -> Release
    /// The time that is compared with the signing-time window.
    var signingTime: Date { get }

    /// Step 2: returns the merchant key; nil if the index has none that fits.
    func key(in index: KeyIndex) -> KeyEntry?
    /// The refusal if there is no such key.
    var unknownKey: Refusal { get }
    /// Refuses a merchant that the caller's rule or the request does not permit.
    func requirePermission(of caller: Caller, for merchant: String) throws(Refusal)
    /// Compares with the caller's expectations what is known before the decryption.
    func checkBeforeDecryption(merchant: String) throws(Refusal)

    /// Steps 3 and 4: returns the HSM's task.
    /// - Throws: `decryption_failed` if the payment token cannot be for a key of this type.
    func decryption(with key: KeyEntry) throws(Refusal) -> Decryption

    /// Step 6: compares the decrypted payment with the caller's expectations.
    func check(plaintext: [UInt8]) throws(Refusal)
}

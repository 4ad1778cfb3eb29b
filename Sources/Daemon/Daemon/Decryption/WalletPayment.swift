import DaemonConfiguration
import Foundation
import KeyTypes
import Ledger
import MerchantKeys
import PaymentToken
import Refusals
import UsageRecording
import WorkerProtocol
import WorkerSupervision

/// A payment token whose signature has been verified, and the request that carries it: what only one wallet's payment
/// tokens have. ``TokenDecryptor`` uses the members in the order in which they are declared.
protocol WalletPayment: Sendable {
    /// The parsed plaintext.
    associatedtype Payload: Sendable
    static var wallet: Wallet { get }

    /// Creates the release that the request asks for, from what is known before the payment token is decrypted. Its
    /// `signedAt` is nil if only the plaintext shows the signing time.
    /// - Throws: `malformed_request`.
    func release(for caller: Caller, at moment: Date) throws(Refusal) -> Release
    /// The reason why only a repeat may be released; nil if there is none.
    var refusalOfFirstRelease: Refusal? { get }

    /// Step 2: returns the merchant keys that may fit, in the order in which they are tried. They have one merchant.
    func keys(in index: KeyIndex, at now: Date) -> [KeyEntry]
    /// The refusal if there is no such key.
    func unknownKey(in index: KeyIndex) -> Refusal
    /// Refuses a merchant that the caller's rule or the request does not permit.
    func requirePermission(of caller: Caller, for merchant: String) throws(Refusal)
    /// Checks what is known before the decryption: refuses a payment that the caller does not expect, and a Google Pay message
    /// that was refused too often. Stores in the draft what such a refusal is about.
    func checkBeforeDecryption(merchant: String, for caller: Caller, draft: AuditDraft) throws(Refusal)

    /// Refuses a first release for times that an earlier decryption for this caller showed. It is the last check before the
    /// HSM is used, so that the message gets no other answer than after a decryption.
    func checkTimesBeforeDecryption(
        _ window: SigningTimeWindow, for caller: Caller, release: Release, draft: AuditDraft
    ) throws(Refusal)

    /// Steps 3 and 4: returns the HSM's task.
    /// - Throws: `decryption_failed` if the payment token cannot be for a key of this type.
    func decryption(with key: KeyEntry) throws(Refusal) -> Decryption

    /// Step 6: parses the plaintext, compares the payment with the caller's expectations, and completes the release with
    /// what only the plaintext shows.
    func check(
        _ plaintext: [UInt8], _ window: SigningTimeWindow, for caller: Caller, release: inout Release, draft: AuditDraft
    ) throws(Refusal) -> Payload
}

/// The interface of the HSM tokens that the decryptor uses.
protocol TransactionDecrypting: Sendable {
    /// Decrypts one payment token's data.
    /// - Parameters:
    ///   - holders: the configured names of the HSM tokens that list the key.
    ///   - requester: the caller. The queued calls of all callers are served round robin.
    func decrypt(
        _ decryption: Decryption, heldBy holders: [String], for requester: Requester
    ) async throws(WorkerFailure) -> OpenedTransaction

    /// Returns a description of the tier that the HSM tokens with this key lack, and of the remedy. Nil if the key's fault
    /// is not a missing tier.
    func missingTier(for key: KeyEntry) -> String?
}

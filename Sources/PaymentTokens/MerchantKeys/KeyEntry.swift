public import Foundation
public import KeyTypes
public import PaymentToken

/// One merchant key as the daemon knows it: what the HSM tokens show of it, and what the ledger says of it.
public struct KeyEntry: Sendable, Equatable {
    public enum Condition: Sendable, Equatable {
        /// An HSM token shows it, the ledger knows it, and they agree. Its state still has to permit decryption.
        case served
        /// In an HSM token, without a record in the ledger: not adopted, so it does not decrypt.
        case external
        /// The HSM token's objects contradict each other or the ledger; the sentence says how. Not served.
        case inconsistent(String)
        /// The ledger knows it, or an HSM token showed it before, and none shows it now. It may come back.
        case missing
    }

    public let publicKeyHash: PublicKeyHash
    /// From the ledger; for an external key from its certificate, and empty when it has none.
    public let merchantIdentifier: String
    public let algorithm: KeyAlgorithm
    /// From the ledger; for a key that it does not know what the HSM token permits.
    public let use: KeyUse
    /// From the ledger; pre-activation for a key that it does not know.
    public let state: KeyState
    /// Until when a deactivated key still decrypts.
    public let cutOff: Date?
    public let condition: Condition
    /// Of several the newest valid one; nil when no HSM token holds one.
    public let certificate: MerchantCertificate?
    /// The configured names of the HSM tokens that show the key in good order.
    public let hsmTokens: [String]
    /// The configured names of all HSM tokens that show the key, in good order or not.
    public internal(set) var shownBy: [String] = []
    /// What a person should know though it stops nothing: no certificate, another HSM token's copy out of order.
    public let warnings: [String]

    /// Whether use and state permit decryption now. Whether the key is there to do it is ``condition``.
    public func decrypts(at now: Date) -> Bool {
        use == .processing && use.isPermitted(in: state, at: now, cutOff: cutOff)
    }

    /// Whether use and state permit signing TLS handshakes now.
    public func signs(at now: Date) -> Bool {
        use == .identity && use.isPermitted(in: state, at: now, cutOff: cutOff)
    }
}

extension KeyEntry.Condition {
    /// `served`, `external`, `inconsistent` or `missing`, as the API writes it.
    public var name: String {
        switch self {
        case .served: "served"
        case .external: "external"
        case .inconsistent: "inconsistent"
        case .missing: "missing"
        }
    }

    /// Why, in one sentence; nil when there is nothing to explain.
    public var explanation: String? {
        switch self {
        case .served: nil
        case .external: "The key was made in the token by other means; it decrypts when it has been adopted."
        case .inconsistent(let reason): reason
        case .missing: "No token shows this key now."
        }
    }
}

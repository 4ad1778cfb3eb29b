package import AuditChain
public import Foundation
public import KeyTypes
public import PaymentToken
import Refusals

/// A signature made with an identity key, which must not leave the process before the ledger has granted it.
public struct SignatureUse: Sendable, Equatable {
    /// The key that signed. Its state is checked in the record's transaction.
    public let publicKeyHash: PublicKeyHash
    /// The use that the signature needs. A key of another use is refused, whatever its state.
    public let use: KeyUse
    public let at: Date

    public init(publicKeyHash: PublicKeyHash, use: KeyUse, at: Date) {
        self.publicKeyHash = publicKeyHash
        self.use = use
        self.at = at
    }
}

/// The verdict on a ``SignatureUse``.
public enum SignatureVerdict: Sendable, Equatable {
    /// The signature may leave the process.
    case granted
    /// The ledger has no record of the key, or the key is not one of the signature's use or not active. The signature
    /// must not leave the process.
    case keyNotActive
    /// The ledger is on hold, so no signature may leave the process (``LedgerReleaseStatus``).
    case held

    /// The outcome for the audit record and the caller.
    package var outcome: AuditOutcome {
        switch self {
        case .granted: .ok
        case .keyNotActive: .refused(.keyNotActive)
        case .held: .refused(.ledgerUnavailable)
        }
    }
}

public typealias RecordedSignature = Recorded<SignatureVerdict>

package typealias SignatureDecision = Decision<SignatureVerdict>

extension SignatureUse {
    /// - Parameter key: the ledger's record of the key; nil if the ledger does not know it.
    package func verdict(_ key: KeyEligibility?) -> SignatureVerdict {
        key?.signs(as: use, at: at) == true ? .granted : .keyNotActive
    }
}

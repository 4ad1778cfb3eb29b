import AuditChain
public import Foundation
public import PaymentToken
import Refusals

/// A signature that an identity key has made and that has not been given away.
public struct SignatureUse: Sendable, Equatable {
    /// Its state is checked in the same transaction as the record.
    public let publicKeyHash: PublicKeyHash
    public let at: Date

    public init(publicKeyHash: PublicKeyHash, at: Date) {
        self.publicKeyHash = publicKeyHash
        self.at = at
    }
}

/// What became of a ``SignatureUse``.
public enum SignatureVerdict: Sendable, Equatable {
    /// Give it away.
    case granted
    /// The ledger has no record of the key, or it is no identity key, or not active. The signature must not leave.
    case keyNotActive
    /// Nothing leaves on any node at present (``LedgerReleaseStatus``).
    case held

    /// The outcome as a record and the caller have it.
    var outcome: AuditOutcome {
        switch self {
        case .granted: .ok
        case .keyNotActive: .refused(.keyNotActive)
        case .held: .refused(.ledgerUnavailable)
        }
    }
}

public typealias RecordedSignature = Recorded<SignatureVerdict>

typealias SignatureDecision = Decision<SignatureVerdict>

extension SignatureUse {
    /// - Parameter key: as the ledger has it; nil when it does not know the key.
    func verdict(_ key: KeyEligibility?) -> SignatureVerdict { key?.signs(at: at) == true ? .granted : .keyNotActive }
}

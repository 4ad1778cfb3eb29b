public import Foundation
public import PaymentToken
public import WorkerProtocol

/// What the ledger remembers of a key. The merchant and the state are believed from here, not from the token, where
/// anyone with the PIN can change labels and identifiers.
public struct KeyRecord: Sendable, Equatable {
    /// How the key came into the ledger.
    public enum Origin: String, Sendable, CaseIterable {
        /// Brought from a file.
        case imported
        /// Made inside the token.
        case generated
        /// Made in the token by other means, then taken over.
        case adopted
    }

    public var publicKeyHash: PublicKeyHash
    public var merchantIdentifier: String
    public var algorithm: KeyAlgorithm
    public var state: KeyState
    /// Until when a deactivated key still decrypts; nil in the other states.
    public var cutOff: Date?
    public var createdAt: Date
    public var origin: Origin

    public init(
        publicKeyHash: PublicKeyHash, merchantIdentifier: String, algorithm: KeyAlgorithm, state: KeyState,
        cutOff: Date? = nil, createdAt: Date, origin: Origin
    ) {
        self.publicKeyHash = publicKeyHash
        self.merchantIdentifier = merchantIdentifier
        self.algorithm = algorithm
        self.state = state
        self.cutOff = cutOff
        self.createdAt = createdAt
        self.origin = origin
    }

    public func decrypts(at now: Date) -> Bool { state.decrypts(at: now, cutOff: cutOff) }
}

extension KeyAlgorithm {
    /// `EC` or `RSA`, as the API and the ledger write it.
    public var name: String {
        switch self {
        case .ec: "EC"
        case .rsa: "RSA"
        }
    }

    public init?(name: String) {
        switch name {
        case "EC": self = .ec
        case "RSA": self = .rsa
        default: return nil
        }
    }
}

/// How often a key opened payments within a span of time.
public struct KeyUses: Sendable, Equatable {
    public var count: Int
    /// The newest; nil when there was none.
    public var last: Date?

    public init(count: Int = 0, last: Date? = nil) {
        self.count = count
        self.last = last
    }
}

public import Foundation
public import KeyTypes
public import PaymentToken

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
    /// Never changes.
    public var use: KeyUse
    public var state: KeyState
    /// Until when a deactivated key still decrypts; nil in the other states.
    public var cutOff: Date?
    public var createdAt: Date
    public var origin: Origin

    public init(
        publicKeyHash: PublicKeyHash, merchantIdentifier: String, algorithm: KeyAlgorithm,
        use: KeyUse = .processing, state: KeyState, cutOff: Date? = nil, createdAt: Date, origin: Origin
    ) {
        self.publicKeyHash = publicKeyHash
        self.merchantIdentifier = merchantIdentifier
        self.algorithm = algorithm
        self.use = use
        self.state = state
        self.cutOff = cutOff
        self.createdAt = createdAt
        self.origin = origin
    }

    /// Whether the key may do now what it is for: decrypt, or sign.
    public func serves(at now: Date) -> Bool { use.isPermitted(in: state, at: now, cutOff: cutOff) }
}

extension KeyUse {
    /// `processing` or `identity`, as the API and the ledger write it.
    public var name: String {
        switch self {
        case .processing: "processing"
        case .identity: "identity"
        }
    }

    public init?(name: String) {
        guard let known = Self.allCases.first(where: { $0.name == name }) else { return nil }
        self = known
    }

    /// Whether a key of this use may do what it is for.
    ///
    /// A deactivated processing key decrypts until its cut-off, because payment tokens under it arrive late. A deactivated
    /// identity key signs nothing: a signature key's originator-usage period is over then (SP 800-57 part 1 §5.3.6), and
    /// nothing arrives late.
    public func isPermitted(in state: KeyState, at now: Date, cutOff: Date?) -> Bool {
        switch self {
        case .processing: state.decrypts(at: now, cutOff: cutOff)
        case .identity: state == .active
        }
    }
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

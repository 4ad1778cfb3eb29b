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

/// Where a key stands in its life: SP 800-57 part 1 §7, with its names.
public enum KeyState: String, Sendable, CaseIterable {
    /// No certificate yet, or in a token but not adopted by the ledger.
    case preActivation = "pre-activation"
    case active
    /// Superseded: still decrypts until its cut-off, because tokens under it arrive for hours after a rotation.
    case deactivated
    /// Set aside, and may come back.
    case suspended
    /// Must never decrypt again.
    case compromised
    /// Gone from the token.
    case destroyed

    /// The transitions of SP 800-57 part 1 §7, with one restriction: an active key is not destroyed at once, it is
    /// deactivated, suspended or compromised first, so that a slip of the hand can be taken back.
    public func canBecome(_ next: KeyState) -> Bool {
        switch self {
        case .preActivation: [.active, .compromised, .destroyed].contains(next)
        case .active: [.suspended, .deactivated, .compromised].contains(next)
        case .deactivated: [.suspended, .compromised, .destroyed].contains(next)
        case .suspended: [.active, .deactivated, .compromised, .destroyed].contains(next)
        case .compromised: next == .destroyed
        case .destroyed: false
        }
    }

    /// Whether a key in this state decrypts now or may decrypt later. Compromised and destroyed are for good.
    public var canStillDecrypt: Bool {
        switch self {
        case .preActivation, .active, .suspended, .deactivated: true
        case .compromised, .destroyed: false
        }
    }

    /// Whether a key in this state decrypts at `now`.
    ///
    /// - Parameter cutOff: until when a deactivated key still decrypts; without one it does not.
    public func decrypts(at now: Date, cutOff: Date?) -> Bool {
        switch self {
        case .active: true
        case .deactivated: cutOff.map { now < $0 } ?? false
        case .preActivation, .suspended, .compromised, .destroyed: false
        }
    }
}

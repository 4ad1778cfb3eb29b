public import Foundation
public import KeyTypes
public import PaymentToken

/// The ledger's record of a key. It alone decides the merchant and the state: in the HSM token, anyone with the PIN
/// can change labels and identifiers.
public struct KeyRecord: Sendable, Equatable {
    /// The way in which the key entered the ledger.
    public enum Origin: String, Sendable, CaseIterable {
        /// Imported from a file.
        case imported
        /// Generated in the HSM token.
        case generated
        /// Created in the HSM token by other means, then adopted.
        case adopted
    }

    public var publicKeyHash: PublicKeyHash
    public var merchantIdentifier: String
    public var algorithm: KeyAlgorithm
    /// The key's use, which never changes.
    public var use: KeyUse
    public var state: KeyState
    /// The time until which a deactivated key still decrypts; nil in the other states.
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

    /// Returns true if the key may now decrypt or sign, according to its use.
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

    /// Returns true if the state permits a key of this use to decrypt or sign.
    ///
    /// A deactivated processing key decrypts until its cut-off, because payment tokens encrypted to it arrive late. A
    /// deactivated identity key signs nothing: the originator-usage period of a signature key has then ended (SP 800-57
    /// part 1 §5.3.6). No signature is needed later.
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

/// The number of payments that a key decrypted within a period.
public struct KeyUses: Sendable, Equatable {
    public var count: Int
    /// The time of the newest payment; nil if there was none.
    public var last: Date?

    public init(count: Int = 0, last: Date? = nil) {
        self.count = count
        self.last = last
    }
}

/// A key's state, with the names of SP 800-57 part 1 §7.
public enum KeyState: String, Sendable, CaseIterable {
    /// No certificate yet, or in an HSM token but not yet adopted into the ledger.
    case preActivation = "pre-activation"
    case active
    /// Superseded. The key still decrypts until its cut-off, because payment tokens encrypted to it arrive for hours
    /// after a rotation.
    case deactivated
    /// Temporarily out of use; it may be resumed.
    case suspended
    /// Must never decrypt again.
    case compromised
    /// Deleted from the HSM token.
    case destroyed

    /// Returns true for a transition of SP 800-57 part 1 §7, with one restriction. An active key cannot be destroyed
    /// directly: it must first be deactivated, suspended or compromised, so that a mistake can be undone.
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

    /// Returns true if a key in this state decrypts now or may decrypt later. Compromised and destroyed are final.
    public var canStillDecrypt: Bool {
        switch self {
        case .preActivation, .active, .suspended, .deactivated: true
        case .compromised, .destroyed: false
        }
    }

    /// Returns true if a key in this state decrypts at `now`.
    ///
    /// - Parameter cutOff: the time until which a deactivated key still decrypts; without one, it does not decrypt.
    public func decrypts(at now: Date, cutOff: Date?) -> Bool {
        switch self {
        case .active: true
        case .deactivated: cutOff.map { now < $0 } ?? false
        case .preActivation, .suspended, .compromised, .destroyed: false
        }
    }
}

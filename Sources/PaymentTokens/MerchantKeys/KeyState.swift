public import Foundation

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

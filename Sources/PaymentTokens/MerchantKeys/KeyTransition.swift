public import Foundation

/// Why a key's state is not changed.
public enum KeyTransitionError: Error, Sendable, Equatable {
    /// SP 800-57 has no such transition, or the key is in that state already.
    case impossible(from: KeyState, to: KeyState)
    /// A suspended key does not decrypt. Retiring it with a cut-off would let it decrypt again.
    case cutOffForSuspendedKey
    /// A deactivated identity key signs nothing, so a cut-off would promise what is not.
    case cutOffForIdentityKey
    case cutOffNotInFuture
    /// It lies further ahead than ``KeyRecord/longestCutOff``.
    case cutOffTooFarAhead
}

/// A key's record before and after a change of its state: what SP 800-57 part 1 §7 permits, and what becomes of the
/// cut-off. A key that has lost the right to decrypt must not get it back by a detour over another state.
extension KeyRecord {
    /// Late payment tokens arrive for days after a rotation; a key that opens them for longer has not been retired.
    public static let longestCutOff: TimeInterval = 90 * 86_400

    /// The record that the change leads to. A key that was deactivated, then suspended, returns to deactivated even if
    /// active was asked for.
    ///
    /// - Parameter end: until when a key that is deactivated now still decrypts; nil: not at all.
    public func changed(to wanted: KeyState, cutOff end: Date?, at now: Date) throws(KeyTransitionError) -> KeyRecord {
        let isReturning = wanted == .active && state == .suspended && cutOff != nil
        let target: KeyState = isReturning ? .deactivated : wanted
        guard state != target, state.canBecome(target) else { throw .impossible(from: state, to: wanted) }
        var next = self
        next.state = target
        switch target {
        case .deactivated where isReturning: break
        case .deactivated:
            // Nil, and not the present moment: a request counts by the time at which it came, and requests that came
            // before this moment and still wait for the HSM must not be released either.
            next.cutOff = nil
            if let end { next.cutOff = try cutOffWhenRetired(end, at: now) }
        case .suspended: return suspended(at: now)
        case .preActivation, .active, .compromised, .destroyed: next.cutOff = nil
        }
        return next
    }

    /// A suspended key's record shows by its cut-off that the key had been deactivated. A key that was deactivated
    /// without a cut-off therefore gets this moment's: otherwise resuming it would make it active.
    public func suspended(at now: Date) -> KeyRecord {
        var next = self
        if state == .deactivated, cutOff == nil { next.cutOff = now }
        next.state = .suspended
        return next
    }

    private func cutOffWhenRetired(_ end: Date, at now: Date) throws(KeyTransitionError) -> Date {
        guard use == .processing else { throw .cutOffForIdentityKey }
        guard state != .suspended else { throw .cutOffForSuspendedKey }
        guard end > now else { throw .cutOffNotInFuture }
        guard end <= now.addingTimeInterval(Self.longestCutOff) else { throw .cutOffTooFarAhead }
        return end
    }
}

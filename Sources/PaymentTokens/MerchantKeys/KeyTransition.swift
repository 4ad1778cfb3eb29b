public import Foundation

/// A refused change of a key's state.
public enum KeyTransitionError: Error, Sendable, Equatable {
    /// SP 800-57 has no such transition, or the key already has that state.
    case impossible(from: KeyState, to: KeyState)
    /// A suspended key does not decrypt. Retiring it with a cut-off would let it decrypt again.
    case cutOffForSuspendedKey
    /// A deactivated identity or service key signs nothing, so a cut-off would have no effect.
    case cutOffForSigningKey
    case cutOffNotInFuture
    /// The cut-off is later than ``KeyRecord/longestCutOff`` allows.
    case cutOffTooFarAhead
}

/// Changes of a key's state: the transitions that SP 800-57 part 1 §7 permits, and their effect on the cut-off. A key
/// that may no longer decrypt must not regain that ability through another state.
extension KeyRecord {
    /// The longest time for which a deactivated key may still decrypt, 90 days. Late payment tokens arrive for days
    /// after a rotation. A key that decrypted for longer would not be retired.
    public static let longestCutOff: TimeInterval = 90 * 86_400

    /// The record after the change. A key that was deactivated, then suspended, returns to deactivated even if active
    /// was requested.
    ///
    /// - Parameter end: the time until which a newly deactivated key still decrypts; nil if it stops immediately.
    public func changed(to wanted: KeyState, cutOff end: Date?, at now: Date) throws(KeyTransitionError) -> KeyRecord {
        let isReturning = wanted == .active && state == .suspended && cutOff != nil
        let target: KeyState = isReturning ? .deactivated : wanted
        guard state != target, state.canBecome(target) else { throw .impossible(from: state, to: wanted) }
        var next = self
        next.state = target
        switch target {
        case .deactivated where isReturning: break
        case .deactivated:
            // The cut-off is nil and not the current time, because it is compared with a request's time of arrival.
            // With the current time as cut-off, requests that arrived earlier and still wait for the HSM would be
            // released.
            next.cutOff = nil
            if let end { next.cutOff = try cutOffWhenRetired(end, at: now) }
        case .suspended: return suspended(at: now)
        case .preActivation, .active, .compromised, .destroyed: next.cutOff = nil
        }
        return next
    }

    /// Returns the key's record after a suspension. A suspended key with a cut-off was deactivated before. Therefore a
    /// key that was deactivated without a cut-off gets the current time as its cut-off. Otherwise resuming it would
    /// make it active.
    public func suspended(at now: Date) -> KeyRecord {
        var next = self
        if state == .deactivated, cutOff == nil { next.cutOff = now }
        next.state = .suspended
        return next
    }

    private func cutOffWhenRetired(_ end: Date, at now: Date) throws(KeyTransitionError) -> Date {
        guard use.restores else { throw .cutOffForSigningKey }
        guard state != .suspended else { throw .cutOffForSuspendedKey }
        guard end > now else { throw .cutOffNotInFuture }
        guard end <= now.addingTimeInterval(Self.longestCutOff) else { throw .cutOffTooFarAhead }
        return end
    }
}

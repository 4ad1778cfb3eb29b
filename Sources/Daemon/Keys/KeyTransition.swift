import Foundation
import MerchantKeys
import Refusals

/// A key's record before and after a change of its state: what SP 800-57 part 1 §7 permits, and what becomes of the
/// cut-off. Power that was taken from a key must not come back by a detour over another state.
extension KeyRecord {
    /// Late tokens arrive for days after a rotation; a key that opens them for longer has not been retired.
    static let longestCutOff: TimeInterval = 90 * 86_400

    /// The record that the change leads to. A suspended key that had been deactivated goes back to that, whatever was
    /// asked for.
    ///
    /// - Parameter cutOff: until when a key that is deactivated now still decrypts; nil: not at all.
    /// - Throws: `invalid_state`; `malformed_request` for a cut-off that cannot be.
    func changed(to wanted: KeyState, cutOff end: Date?, at now: Date) throws(Refusal) -> KeyRecord {
        let isReturning = wanted == .active && state == .suspended && cutOff != nil
        let target: KeyState = isReturning ? .deactivated : wanted
        guard state != target, state.canBecome(target) else {
            throw Refusal(
                .invalidState, "A key that is \(state.rawValue) cannot become \(wanted.rawValue).",
                details: "from \(state.rawValue) it can become \(state.successors)")
        }
        var next = self
        next.state = target
        switch target {
        case .deactivated where isReturning: break
        case .deactivated:
            // Without a cut-off, not even one of this moment: a request is judged by the time at which it came, and
            // those that came before must not be released any more.
            next.cutOff = nil
            if let end { next.cutOff = try Self.judged(end, retiring: state, at: now) }
        case .suspended: return suspended(at: now)
        case .preActivation, .active, .compromised, .destroyed: next.cutOff = nil
        }
        return next
    }

    /// Set aside. A cut-off is how a suspended key's record says that it had been deactivated: one that was retired at
    /// once, without any, gets this moment's, else resuming would make it active.
    func suspended(at now: Date) -> KeyRecord {
        var next = self
        if state == .deactivated, cutOff == nil { next.cutOff = now }
        next.state = .suspended
        return next
    }

    private static func judged(_ cutOff: Date, retiring state: KeyState, at now: Date) throws(Refusal) -> Date {
        // Retiring takes power away, and must not give any back.
        guard state != .suspended else {
            throw Refusal(
                .malformedRequest,
                "A suspended key is retired without a cut-off; resume it first if it is to decrypt.", details: "cutOff")
        }
        guard cutOff > now else {
            throw Refusal(.malformedRequest, "cutOff must lie in the future.", details: "cutOff")
        }
        guard cutOff <= now.addingTimeInterval(longestCutOff) else {
            throw Refusal(
                .malformedRequest, "cutOff must lie at most \(Int(longestCutOff / 86_400)) days ahead.",
                details: "cutOff")
        }
        return cutOff
    }
}

extension KeyState {
    /// The states that can follow, each with the command that leads to it.
    fileprivate var successors: String {
        let ways: [(KeyState, String)] = [
            (.active, self == .preActivation ? "certificate import" : "key resume"), (.suspended, "key suspend"),
            (.deactivated, "key retire"), (.compromised, "key compromise"), (.destroyed, "key destroy"),
        ]
        let possible = ways.filter { canBecome($0.0) }.map { "\($0.0.rawValue) (\($0.1))" }
        return possible.isEmpty ? "nothing else" : possible.joined(separator: ", ")
    }
}

public import Foundation
public import Refusals

extension Rotation {
    /// The old keys' records as they are once the rotation is finished.
    ///
    /// - Parameters:
    ///   - cutOff: until when they still open tokens; nil: they do not from now on.
    ///   - force: finishes although tokens still arrive under the old key, or none has under the new one.
    /// - Throws: `invalid_state`; `malformed_request` for a cut-off in the past.
    public func finished(cutOff: Date?, force: Bool, now: Date) throws(Refusal) -> [KeyRecord] {
        guard !oldKeys.isEmpty else {
            throw Refusal(
                .invalidState, "Merchant \(merchantIdentifier) has no old \(algorithm.name) key to deactivate.",
                details: next)
        }
        guard let newKey, newKey.record.state == .active else {
            throw Refusal(
                .invalidState,
                "The new key has no certificate yet, so the old one is still needed. Import it first (rotate import).")
        }
        if let cutOff, cutOff <= now {
            throw Refusal(.malformedRequest, "cutOff must lie in the future.", details: "cutOff")
        }
        if !force { try judgeUse(of: newKey) }
        return oldKeys.map { key in
            var record = key.record
            (record.state, record.cutOff) = (.deactivated, cutOff)
            return record
        }
    }

    private func judgeUse(of newKey: Key) throws(Refusal) {
        let anyway = "or finish with --force."
        if let entry = newKey.entry, entry.condition != .served {
            throw Refusal(
                .invalidState,
                "The new key is \(entry.condition.name), so it opens nothing now. Mend that first, \(anyway)",
                details: entry.condition.explanation)
        }
        if oldInLastHour > 0 {
            throw Refusal(
                .invalidState,
                "\(Self.tokens(oldInLastHour)) arrived under the old key within the last hour, the last one at "
                    + "\(lastUnderOld?.formatted(.iso8601) ?? "an unknown time"). Wait until none has for an hour, "
                    + anyway,
                details: oldKeys.filter { $0.lastHour.count > 0 }.map(\.short).joined(separator: ", "))
        }
        guard newKey.isProven else {
            throw Refusal(
                .invalidState,
                "No token has arrived under the new key yet. Activate its certificate in Apple's developer portal "
                    + "first, \(anyway)", details: newKey.short)
        }
    }
}

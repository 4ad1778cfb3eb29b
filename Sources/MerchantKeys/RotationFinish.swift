public import Foundation
public import Refusals

extension Rotation {
    /// The old keys' records as they are once the rotation is finished.
    ///
    /// - Parameters:
    ///   - cutOff: until when they still open tokens; nil: they do not from now on.
    ///   - force: finishes although the old key still opens tokens, or the new one has opened none.
    /// - Throws: `invalid_state`; `malformed_request` for a cut-off in the past or too far away.
    public func finished(cutOff: Date?, force: Bool, now: Date) throws(Refusal) -> [KeyRecord] {
        guard !oldKeys.isEmpty else {
            throw Refusal(
                .invalidState, "Merchant \(merchantIdentifier) has no old \(algorithm.name) key to deactivate.",
                details: next)
        }
        guard let newKey, newKey.keyRecord.state == .active else {
            throw Refusal(
                .invalidState,
                "The new key has no certificate yet, so the old one is still needed. Import it first (rotate import).")
        }
        if let cutOff, cutOff <= now || cutOff > now.addingTimeInterval(Self.longestCutOff) {
            throw Refusal(
                .malformedRequest, "cutOff must lie in the future, and within 90 days.", details: "cutOff")
        }
        try requireServing(newKey)
        if !force { try requireProven(of: newKey) }
        return oldKeys.map { key in
            var keyRecord = key.keyRecord
            (keyRecord.state, keyRecord.cutOff) = (.deactivated, cutOff)
            return keyRecord
        }
    }

    /// Late tokens arrive for hours after Apple's switch, not for months.
    static let longestCutOff: TimeInterval = 90 * 86_400

    /// What no haste excuses: without the new key, or with the wrong one for the new one, payments end.
    private func judge(_ newKey: Key) throws(Refusal) {
        if let fault = newKey.fault {
            throw Refusal(
                .invalidState,
                "The new key \(newKey.short) opens nothing now, so the old one is still needed. Mend that "
                    + "first.", details: fault)
        }
        if let younger = oldKeys.first(where: { $0.isCertified(after: newKey) }) {
            throw Refusal(
                .invalidState,
                "Key \(younger.short), which came earlier, has a younger certificate than \(newKey.short), so it is not "
                    + "certain which of them Apple uses. Retire the right one by its name: paytokenctl key retire KEY.")
        }
    }

    private func requireProven(of newKey: Key) throws(Refusal) {
        let anyway = "or finish with --force."
        if oldInLastHour > 0 {
            throw Refusal(
                .invalidState,
                "The old key opened \(Self.paymentTokens(oldInLastHour)) within the last hour, the last one at "
                    + "\(lastUnderOld?.formatted(.iso8601) ?? "an unknown time"). Wait until it has opened none for an "
                    + "hour, \(anyway)",
                details: oldKeys.filter { $0.lastHour.count > 0 }.map(\.short).joined(separator: ", "))
        }
        guard newKey.isProven else {
            throw Refusal(
                .invalidState,
                "The new key has opened no token yet. Activate its certificate in Apple's developer portal "
                    + "first, \(anyway)", details: newKey.short)
        }
    }
}

extension Rotation.Key {
    fileprivate func isCertified(after other: Rotation.Key) -> Bool {
        guard let mine = entry?.certificate?.notBefore, let others = other.entry?.certificate?.notBefore else {
            return false
        }
        return mine > others
    }
}

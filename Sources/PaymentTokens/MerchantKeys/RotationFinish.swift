public import Foundation

/// Why a rotation cannot be finished.
public enum RotationFinishError: Error, Sendable, Equatable {
    case noOldKey
    /// The new key waits for its certificate, or there is no new key.
    case newKeyNotActive
    /// Of the cut-off: active keys can always be deactivated.
    case transition(KeyTransitionError)
    /// The new key opens nothing now, for this reason.
    case newKeyFault(Rotation.Key, String)
    /// Old by the day on which it came, and yet with the younger certificate: it is not certain which of the two Apple
    /// encrypts to.
    case oldKeyHasYoungerCertificate(old: Rotation.Key, new: Rotation.Key)
    /// Opened payment tokens within the last hour. Force finishes all the same.
    case oldKeyInUse
    /// Has not opened a payment token yet. Force finishes all the same.
    case newKeyUnproven(Rotation.Key)
}

extension Rotation {
    /// The old keys' records as they are once the rotation is finished.
    ///
    /// - Parameters:
    ///   - cutOff: until when they still open payment tokens; nil: they do not from now on.
    ///   - force: finishes although the old key is in use, or the new one is unproven.
    public func finished(cutOff: Date?, force: Bool, now: Date) throws(RotationFinishError) -> [KeyRecord] {
        guard !oldKeys.isEmpty else { throw .noOldKey }
        guard let newKey, newKey.keyRecord.state == .active else { throw .newKeyNotActive }
        var retired: [KeyRecord] = []
        do throws(KeyTransitionError) {
            for key in oldKeys { retired.append(try key.keyRecord.changed(to: .deactivated, cutOff: cutOff, at: now)) }
        } catch {
            throw .transition(error)
        }
        // Force does not excuse these two: without a new key that works, or with the wrong one taken for it, payments
        // end.
        if let fault = newKey.fault { throw .newKeyFault(newKey, fault) }
        if let younger = oldKeys.first(where: { $0.isCertified(after: newKey) }) {
            throw .oldKeyHasYoungerCertificate(old: younger, new: newKey)
        }
        if !force {
            guard oldInLastHour == 0 else { throw .oldKeyInUse }
            guard newKey.isProven else { throw .newKeyUnproven(newKey) }
        }
        return retired
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

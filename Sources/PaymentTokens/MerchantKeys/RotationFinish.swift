public import Foundation
public import PaymentToken

/// A rotation that cannot be finished.
public enum RotationFinishError: Error, Sendable, Equatable {
    case noOldKey
    /// The named key is not one that the newest key replaces.
    case notOld(PublicKeyHash)
    /// The new key waits for its certificate, or there is no new key.
    case newKeyNotActive
    /// The cut-off is not allowed. Without a cut-off, active keys can always be deactivated.
    case transition(KeyTransitionError)
    /// The new key decrypts nothing now, for the given reason.
    case newKeyFault(Rotation.Key, String)
    /// The key that arrived first has the newer certificate, so it is uncertain which of the two keys Apple encrypts
    /// to.
    case oldKeyHasYoungerCertificate(old: Rotation.Key, new: Rotation.Key)
    /// These old keys are in use (``Rotation/Key/isInUse(at:)``). `force` overrides this.
    case oldKeyInUse([Rotation.Key])
    /// The new key has not decrypted a payment token yet. `force` overrides this.
    case newKeyUnproven(Rotation.Key)
}

extension Rotation {
    /// The old keys' records after the rotation.
    ///
    /// - Parameters:
    ///   - key: the old key to retire; nil for all.
    ///   - cutOff: the time until which the old keys still decrypt; nil if they stop immediately.
    ///   - force: true to finish although the old key is in use, or the new one is unproven.
    ///   - isServedElsewhere: true if this host serves no payments, so that its HSM tokens need not show the new key.
    ///   - isProven: true if the new key has proved itself otherwise than by a use.
    public func finished(
        only key: PublicKeyHash? = nil, cutOff: Date?, force: Bool, isServedElsewhere: Bool = false,
        isProven: Bool = false, now: Date
    ) throws(RotationFinishError) -> [KeyRecord] {
        let oldKeys = oldKeys.filter { key == nil || $0.publicKeyHash == key }
        guard !oldKeys.isEmpty else { throw key.map { .notOld($0) } ?? .noOldKey }
        guard let newKey, newKey.keyRecord.state == .active else { throw .newKeyNotActive }
        var retired: [KeyRecord] = []
        do throws(KeyTransitionError) {
            for key in oldKeys { retired.append(try key.keyRecord.changed(to: .deactivated, cutOff: cutOff, at: now)) }
        } catch {
            throw .transition(error)
        }
        // `force` does not override these two cases: payments would stop, because the new key does not work or the
        // wrong key was taken for the new one.
        if !isServedElsewhere, let fault = newKey.fault { throw .newKeyFault(newKey, fault) }
        if let younger = oldKeys.first(where: { $0.isCertified(after: newKey) }) {
            throw .oldKeyHasYoungerCertificate(old: younger, new: newKey)
        }
        if !force {
            let used = oldKeys.filter { $0.isInUse(at: now) }
            guard used.isEmpty else { throw .oldKeyInUse(used) }
            guard isProven || newKey.isProven else { throw .newKeyUnproven(newKey) }
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

import Foundation
import MerchantKeys

// One key in two ledgers, before they become one.
extension KeyRecord {
    /// The record that forbids whatever one of the two forbids. Merchant and algorithm must be the same in both; the rest is this
    /// one's.
    ///
    /// Destroyed before compromised before suspended before deactivated before pre-activation before active. A key that one has
    /// deactivated, or suspended after that, decrypts until the earlier cut-off at most, and after a resumption returns to
    /// deactivated: a suspended key shows that by its cut-off.
    ///
    /// - Parameter now: the cut-off of a key that was deactivated without one, where the other has it as suspended.
    func stricter(with other: KeyRecord, at now: Date) throws(KeyRecordConflict) -> KeyRecord {
        guard merchantIdentifier == other.merchantIdentifier else { throw .anotherMerchant }
        guard algorithm == other.algorithm else { throw .anotherAlgorithm }
        guard use == other.use else { throw .anotherUse }
        let both = [self, other]
        var next = self
        next.state = both.map(\.state).max { $0.strictness < $1.strictness } ?? state
        next.cutOff =
            switch next.state {
            case .destroyed, .compromised, .preActivation, .active: nil
            case .suspended: both.compactMap { $0.suspended(at: now).cutOff }.min()
            case .deactivated:
                // Without one a deactivated key does not decrypt, and neither does one that is not active yet.
                both.contains { $0.state == .preActivation || ($0.state == .deactivated && $0.cutOff == nil) }
                    ? nil : both.compactMap(\.cutOff).min()
            }
        return next
    }
}

extension KeyState {
    fileprivate var strictness: Int {
        switch self {
        case .active: 0
        case .preActivation: 1
        case .deactivated: 2
        case .suspended: 3
        case .compromised: 4
        case .destroyed: 5
        }
    }
}

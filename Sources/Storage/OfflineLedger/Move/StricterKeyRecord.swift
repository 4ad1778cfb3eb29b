import Foundation
import Ledger
import MerchantKeys
import PostgreSQLLedger
import SQLiteLedger

// Merges one key's records in two ledgers.
extension KeyRecord {
    /// Returns a record that forbids everything that either record forbids. Merchant, algorithm and use must be equal;
    /// the rest is this record's.
    ///
    /// The strictest state wins: destroyed, then compromised, suspended, deactivated, pre-activation, active. A key
    /// that one side has deactivated, or deactivated and then suspended, decrypts no later than the earlier cut-off.
    /// When it is resumed, it returns to deactivated, as its cut-off shows. A Google Pay key that is active on one side is
    /// active: a person stated that it is in Google's console, so sites send it.
    ///
    /// - Parameter now: the cut-off for a key that was deactivated without one and that the other side has suspended.
    func stricter(with other: KeyRecord, at now: Date) throws(KeyRecordConflict) -> KeyRecord {
        guard merchantIdentifier == other.merchantIdentifier else { throw .anotherMerchant }
        guard algorithm == other.algorithm else { throw .anotherAlgorithm }
        guard use == other.use else { throw .anotherUse }
        let both = [self, other]
        var next = self
        next.state = both.map(\.state).max { $0.strictness < $1.strictness } ?? state
        if use == .googlePay, Set(both.map(\.state)) == [.active, .preActivation] { next.state = .active }
        next.cutOff =
            switch next.state {
            case .destroyed, .compromised, .preActivation, .active: nil
            case .suspended: both.compactMap { $0.suspended(at: now).cutOff }.min()
            case .deactivated:
                // A deactivated key without a cut-off does not decrypt, and neither does one that is not active yet.
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

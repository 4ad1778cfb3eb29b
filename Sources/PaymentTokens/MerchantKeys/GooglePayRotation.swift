public import Foundation
public import PaymentToken

/// The times of a Google Pay key's life. Google issues no certificate, so nothing but these rules ends a key.
public enum GooglePayRotation {
    /// The shortest time from the removal of a public key in Google's console to the cut-off of its private key, eight
    /// days: Google asks to support the private key for so long.
    public static let shortestCutOff: TimeInterval = 8 * 86_400
    /// The time from the removal to the cut-off if the operator names none.
    public static let standardCutOff: TimeInterval = 10 * 86_400
    /// The default time without a payment after which an old key counts as unused, `google_pay.quiet`. Apps in the field
    /// send an old key for months.
    public static let standardQuiet: TimeInterval = 30 * 86_400
    /// The time after which Google asks for a new key.
    public static let renewalPeriod: TimeInterval = 365 * 86_400
    /// The days before the end of ``renewalPeriod`` at which the reminder changes, as at a certificate's end.
    public static let reminderDays = [15, 30, 60]

    /// A removal that cannot be recorded.
    public enum RemovalError: Error, Sendable, Equatable {
        case removedInFuture
        /// The cut-off is less than ``shortestCutOff`` after the removal.
        case cutOffTooEarly(earliest: Date)
    }

    /// Returns the time until which a removed key still opens messages; nil if that time has passed.
    ///
    /// - Parameters:
    ///   - removedAt: the time at which the public key was removed in Google's console.
    ///   - wanted: the operator's cut-off; nil for ``standardCutOff`` after the removal.
    public static func cutOff(
        removedAt: Date, wanted: Date?, now: Date
    ) throws(RemovalError) -> Date? {
        guard removedAt <= now else { throw .removedInFuture }
        let end = wanted ?? removedAt.addingTimeInterval(standardCutOff)
        let earliest = removedAt.addingTimeInterval(shortestCutOff)
        guard end >= earliest else { throw .cutOffTooEarly(earliest: earliest) }
        return end > now ? end : nil
    }

    /// Returns the time from which a key counts as unused.
    ///
    /// - Parameters:
    ///   - watchedFrom: the time from which the ledger has every payment: the time at which it got the key, or its last
    ///     restore. The period does not start earlier.
    ///   - lastUse: the key's last payment; nil if it had none within the period.
    public static func unused(watchedFrom: Date, lastUse: Date?, quiet: TimeInterval) -> Date {
        max(watchedFrom, lastUse ?? watchedFrom).addingTimeInterval(quiet)
    }

    /// A key that is to be replaced because of its age.
    public struct Reminder: Sendable, Equatable {
        public let merchantIdentifier: String
        public let publicKeyHash: PublicKeyHash
        /// The time at which the key has been in the ledger for ``renewalPeriod``.
        public let due: Date

        /// Returns the number of ``reminderDays`` that the time left is within, or 0 if the time has come; nil if more time
        /// is left.
        public func days(at now: Date) -> Int? {
            guard due > now else { return 0 }
            return reminderDays.first { due <= now.addingTimeInterval(Double($0) * 86_400) }
        }
    }

    /// Returns the newest active Google Pay key of each merchant, the one that is due first at the beginning. An older key is
    /// being replaced already. The ledger does not know when an imported key was made, so its time here counts.
    public static func reminders(_ entries: some Sequence<KeyEntry>) -> [Reminder] {
        let active = entries.filter { $0.use == .googlePay && $0.state == .active && $0.createdAt != nil }
        return Dictionary(grouping: active, by: \.merchantIdentifier).values.compactMap { keys in
            keys.max { ($0.createdAt ?? .distantPast) < ($1.createdAt ?? .distantPast) }.flatMap(Reminder.init)
        }.sorted { ($0.due, $0.merchantIdentifier) < ($1.due, $1.merchantIdentifier) }
    }
}

extension GooglePayRotation.Reminder {
    fileprivate init?(_ entry: KeyEntry) {
        guard let createdAt = entry.createdAt else { return nil }
        merchantIdentifier = entry.merchantIdentifier
        publicKeyHash = entry.publicKeyHash
        due = createdAt.addingTimeInterval(GooglePayRotation.renewalPeriod)
    }
}

import Foundation
import MerchantKeys
import PaymentToken

/// The warnings in `status` about certificates that have expired or expire soon, and about Google Pay keys that are or will
/// soon be a year old. Neither prevents decryption.
enum ExpiryWarnings {
    /// The time before expiry from which a certificate is listed: thirty days, since renewing it at Apple takes days.
    static let ahead = 30.0 * 86_400

    static func of(_ entries: some Sequence<KeyEntry>, now: Date) -> [String] {
        let renewable = entries.filter { $0.certificate != nil && $0.needsCertificate }
        func ending(_ condition: (Date) -> Bool) -> [KeyEntry] {
            renewable.filter { entry in entry.certificate.map { condition($0.notAfter) } ?? false }
                .sorted { ($0.certificate?.notAfter ?? now) < ($1.certificate?.notAfter ?? now) }
        }
        let over = ending { $0 <= now }
        let soon = ending { $0 > now && $0 <= now.addingTimeInterval(ahead) }
        return [
            sentence(
                over, "has expired. This stops nothing here, but Apple no longer encrypts to it",
                "have expired. This stops nothing here, but Apple no longer encrypts to them"),
            sentence(soon, "expires within 30 days", "expire within 30 days"),
        ].compactMap { $0 } + aging(entries, now: now)
    }

    /// One sentence for each of ``GooglePayRotation/reminderDays`` that a key is within, and one for keys that are due.
    private static func aging(_ entries: some Sequence<KeyEntry>, now: Date) -> [String] {
        let reminders = GooglePayRotation.reminders(entries)
        return ([0] + GooglePayRotation.reminderDays).compactMap { days in
            let keys = reminders.filter { $0.days(at: now) == days }
            guard !keys.isEmpty else { return nil }
            let names = names(keys.map { ($0.merchantIdentifier, $0.publicKeyHash) })
            return "The Google Pay key\(keys.count == 1 ? "" : "s") of \(names) "
                + (days == 0
                    ? "\(keys.count == 1 ? "is" : "are") more than a year old"
                    : "will be a year old within \(days) days")
                + ". This stops nothing, but Google asks for a new key each year; POST /v1/rotations makes one."
        }
    }

    private static func sentence(_ entries: [KeyEntry], _ one: String, _ several: String) -> String? {
        guard !entries.isEmpty else { return nil }
        let names = names(entries.map { ($0.merchantIdentifier, $0.publicKeyHash) })
        return "The certificate\(entries.count == 1 ? "" : "s") of \(names) "
            + "\(entries.count == 1 ? one : several); GET /v1/keys shows them."
    }

    private static func names(_ keys: [(merchant: String, hash: PublicKeyHash)]) -> String {
        let most = 5
        let names = keys.prefix(most).map { "\($0.merchant) (\($0.hash.hex.prefix(8)))" }
        return names.joined(separator: ", ") + (keys.count > most ? " and \(keys.count - most) more" : "")
    }
}

extension KeyEntry {
    /// True if the key may still need its certificate; false for a deactivated, compromised or destroyed key.
    var needsCertificate: Bool {
        switch state {
        case .preActivation, .active, .suspended: true
        case .deactivated, .compromised, .destroyed: false
        }
    }
}

import Foundation
import MerchantKeys

/// The warnings in `status` about certificates that have expired or expire soon: at most two sentences. An expired
/// certificate does not prevent decryption.
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
        ].compactMap { $0 }
    }

    private static func sentence(_ entries: [KeyEntry], _ one: String, _ several: String) -> String? {
        guard !entries.isEmpty else { return nil }
        let most = 5
        let names = entries.prefix(most).map { entry in
            "\(entry.merchantIdentifier) (\(entry.publicKeyHash.hex.prefix(8)))"
        }
        let more = entries.count > most ? " and \(entries.count - most) more" : ""
        return "The certificate\(entries.count == 1 ? "" : "s") of \(names.joined(separator: ", "))\(more) "
            + "\(entries.count == 1 ? one : several); GET /v1/keys shows them."
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

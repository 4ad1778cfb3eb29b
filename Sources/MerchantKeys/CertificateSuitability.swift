public import Foundation
public import Refusals

extension MerchantCertificate {
    /// Judges whether this certificate may stand beside a merchant key, for imports.
    ///
    /// - Parameters:
    ///   - expected: the merchant identifier that the administrator named, if any. A certificate without a UID is
    ///     taken under it when its extension's hash is that name's.
    ///   - allowExpired: takes one whose validity has passed. One whose validity has not begun is taken, with clocks
    ///     being what they are, only within a day.
    /// - Returns: the merchant identifier.
    /// - Throws: `certificate_unsuitable`, saying what the certificate is instead.
    public func merchantForImport(
        expected: String?, allowExpired: Bool, now: Date
    ) throws(Refusal) -> String {
        guard purpose == .paymentProcessing else {
            throw Refusal(
                .certificateUnsuitable,
                "This is not an Apple Pay Payment Processing Certificate but \(purpose.noun).",
                details: "subject \(subject.prefix(300))")
        }
        guard now.addingTimeInterval(86_400) >= notBefore else {
            throw Refusal(
                .certificateUnsuitable, "The certificate is not valid yet; look at this machine's clock.",
                details: "valid from \(notBefore.formatted(.iso8601))")
        }
        guard allowExpired || now <= notAfter else {
            throw Refusal(
                .certificateUnsuitable,
                "The certificate has expired. Import it with --allow-expired if tokens under it are still to be opened.",
                details: "valid until \(notAfter.formatted(.iso8601))")
        }
        if let expected, !names(expected) {
            throw Refusal(
                .certificateUnsuitable, "The certificate belongs to another merchant than the one named.",
                details: merchantIdentifier.map { "certificate: \($0)" })
        }
        guard let merchant = merchantIdentifier ?? expected else {
            throw Refusal(
                .certificateUnsuitable,
                "The certificate has no merchant identifier in its subject (UID). Name it with --merchant-identifier.")
        }
        return merchant
    }

    /// Whether this certificate is that merchant's: by the subject's UID, and by the extension's hash.
    public func names(_ merchant: String) -> Bool {
        if let merchantIdentifier { return merchantIdentifier == merchant }
        return merchantIdentifierHash == Self.hash(ofIdentifier: merchant)
    }
}

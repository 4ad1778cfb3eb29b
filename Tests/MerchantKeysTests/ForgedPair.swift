import Foundation
import PaymentToken
import TestSupport
import TokenForge

@testable import MerchantKeys

/// Active keys of one merchant with certificates of chosen ages.
struct ForgedPair {
    private let authority: ForgeAuthority

    init() throws { authority = try SharedForge.authority }

    func key(notBeforeDaysAgo days: Double, importedHoursAgo hours: Double, now: Date) throws -> Rotation.Key {
        var profile = MerchantCertificateProfile(merchantIdentifier: "m", now: now)
        profile.notBefore = now.addingTimeInterval(-86_400 * days)
        let forged = try ForgedMerchant(authority: authority, type: .p256, profile: profile)
        let certificate = try MerchantCertificate(der: forged.certificate)
        let keyRecord = KeyRecord(
            publicKeyHash: certificate.publicKeyHash, merchantIdentifier: "m", algorithm: .ec, state: .active,
            createdAt: now.addingTimeInterval(-3600 * hours), origin: .imported)
        return Rotation.Key(
            keyRecord: keyRecord,
            entry: KeyEntry(
                publicKeyHash: certificate.publicKeyHash, merchantIdentifier: "m", algorithm: .ec, state: .active,
                cutOff: nil, condition: .served, certificate: certificate, hsmTokens: ["primary"], warnings: []))
    }
}

import Foundation
import Refusals
import TestSupport
import Testing
import TokenForge

@testable import MerchantKeys

@Suite("Kinds of certificates, and their suitability for import")
struct CertificateKindTests {
    private static let merchant = "merchant.com.example.shop"
    private static let hash =
        "\(OpenSSLCertificates.merchantExtension) = ASN1:UTF8String:\(OpenSSLCertificates.hash(merchant))"

    @Test("Distinguishes a Merchant Identity Certificate from a Payment Processing Certificate")
    func merchantIdentity() throws {
        let der = try forge(MerchantCertificateProfile(merchantIdentifier: Self.merchant, kind: .merchantIdentity))
        let certificate = try MerchantCertificate(der: der)
        #expect(certificate.purpose == .merchantIdentity)
        let refusal = try #require(importRefusal(certificate))
        #expect(refusal.code == .certificateUnsuitable)
        #expect(refusal.message.contains("Merchant Identity"))
        // Apple issues Merchant Identity Certificates for RSA keys only.
        #expect(throws: Refusal.self) {
            try certificate.merchantForImport(for: .identity, expected: nil, allowExpired: false, now: Date())
        }
        let rsa = try MerchantCertificate(
            der: SharedForge.authority.merchantCertificate(
                subjectPublicKeyInfo: SharedForge.rsaMerchant.key.subjectPublicKeyInfo,
                profile: MerchantCertificateProfile(merchantIdentifier: Self.merchant, kind: .merchantIdentity)))
        #expect(
            try rsa.merchantForImport(for: .identity, expected: nil, allowExpired: false, now: Date()) == Self.merchant)
        #expect(try rsa.merchantForImport(expected: nil, allowExpired: false, now: Date()) == Self.merchant)
        // An expired Merchant Identity Certificate has no use, so it is refused even with `allowExpired`.
        #expect(throws: Refusal.self) {
            try rsa.merchantForImport(for: .identity, expected: nil, allowExpired: true, now: rsa.notAfter + 1)
        }
    }

    @Test(
        "Recognises a Merchant Identity Certificate by its common name or its extended key usage",
        arguments: [
            (
                ["CN = Apple Pay Merchant Identity:\(merchant)", "UID = \(merchant)"],
                ["keyUsage = keyAgreement", hash]
            ),
            (["CN = shop", "UID = \(merchant)"], ["extendedKeyUsage = clientAuth", hash]),
        ])
    func merchantIdentitySigns(subject: [String], extensions: [String]) async throws {
        let der = try await OpenSSLCertificates.make(subject: subject, extensions: extensions)
        #expect(try MerchantCertificate(der: der).purpose == .merchantIdentity)
    }

    @Test(
        "Names the kind of a certificate that is not for Apple Pay merchants",
        arguments: [
            (["CN = shop.example"], ["extendedKeyUsage = serverAuth"], "a TLS server certificate"),
            (["CN = shop.example"], ["extendedKeyUsage = clientAuth"], "a TLS client certificate"),
            (["CN = A developer"], ["extendedKeyUsage = codeSigning"], "a code signing certificate"),
            (
                ["CN = Apple Push Services: com.example"], ["keyUsage = digitalSignature"],
                "an Apple Push Notification certificate"
            ),
            (
                ["CN = com.example"], ["1.2.840.113635.100.6.3.2 = ASN1:NULL", hash],
                "an Apple Push Notification certificate"
            ),
            (
                ["CN = Pass Type ID: pass.com.example"], ["keyUsage = digitalSignature"],
                "a Pass Type ID certificate, which signs passes"
            ),
            (
                ["CN = An authority"], ["basicConstraints = critical,CA:TRUE", hash],
                "the certificate of a certification authority"
            ),
            (
                ["CN = leaf"], ["1.2.840.113635.100.6.29 = ASN1:NULL", hash],
                "a certificate with which Apple signs payment tokens"
            ),
            (
                ["CN = shop", "UID = \(merchant)"], ["keyUsage = digitalSignature", hash],
                "a certificate whose key usage permits neither key agreement nor key encipherment"
            ),
            (
                ["CN = shop", "UID = \(merchant)"], ["keyUsage = keyAgreement"],
                "a certificate without Apple's merchant identifier extension (1.2.840.113635.100.6.32)"
            ),
        ])
    func others(subject: [String], extensions: [String], noun: String) async throws {
        let certificate = try MerchantCertificate(
            der: try await OpenSSLCertificates.make(subject: subject, extensions: extensions))
        #expect(certificate.purpose == .other(noun))
        let refusal = try #require(importRefusal(certificate))
        #expect(refusal.code == .certificateUnsuitable)
        #expect(refusal.message.contains(noun))
    }

    @Test("Returns a suitable certificate's merchant, and refuses it for another expected merchant")
    func suitable() throws {
        let certificate = try MerchantCertificate(der: SharedForge.ecMerchant.certificate)
        #expect(try certificate.merchantForImport(expected: nil, allowExpired: false, now: Date()) == Self.merchant)
        #expect(
            try certificate.merchantForImport(expected: Self.merchant, allowExpired: false, now: Date())
                == Self.merchant)
        #expect(throws: Refusal.self) {
            try certificate.merchantForImport(expected: "merchant.com.other", allowExpired: false, now: Date())
        }
    }

    @Test("Refuses an expired certificate unless expired ones are allowed")
    func expired() throws {
        let der = try forge(MerchantCertificateProfile(merchantIdentifier: Self.merchant, expired: true))
        let certificate = try MerchantCertificate(der: der)
        let refusal = try #require(importRefusal(certificate))
        #expect(refusal.code == .certificateUnsuitable)
        #expect(refusal.message.contains("expired"))
        #expect(try certificate.merchantForImport(expected: nil, allowExpired: true, now: Date()) == Self.merchant)
    }

    @Test("Refuses a certificate that is not valid yet, with one day's tolerance for clocks")
    func notYetValid() throws {
        let certificate = try MerchantCertificate(der: SharedForge.ecMerchant.certificate)
        let start = certificate.notBefore
        #expect(throws: Refusal.self) {
            try certificate.merchantForImport(expected: nil, allowExpired: true, now: start - 86_401)
        }
        #expect(
            try certificate.merchantForImport(expected: nil, allowExpired: false, now: start - 86_400) == Self.merchant)
    }

    @Test("Accepts a certificate without a UID only for the expected merchant whose hash is in the extension")
    func withoutUserIdentifier() throws {
        var profile = MerchantCertificateProfile(merchantIdentifier: Self.merchant)
        profile.omitsUserID = true
        let certificate = try MerchantCertificate(der: forge(profile))
        #expect(certificate.merchantIdentifier == nil)
        #expect(importRefusal(certificate)?.code == .certificateUnsuitable)
        #expect(importRefusal(certificate, expected: "merchant.com.other")?.code == .certificateUnsuitable)
        #expect(
            try certificate.merchantForImport(expected: Self.merchant, allowExpired: false, now: Date())
                == Self.merchant)
    }

    private func importRefusal(_ certificate: MerchantCertificate, expected: String? = nil) -> Refusal? {
        do {
            _ = try certificate.merchantForImport(
                for: .processing, expected: expected, allowExpired: false, now: Date())
            return nil
        } catch {
            return error
        }
    }

    private func forge(_ profile: MerchantCertificateProfile) throws -> [UInt8] {
        try SharedForge.authority.merchantCertificate(
            subjectPublicKeyInfo: SharedForge.ecMerchant.key.subjectPublicKeyInfo, profile: profile)
    }
}

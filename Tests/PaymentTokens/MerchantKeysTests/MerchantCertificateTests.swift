import Crypto
import Foundation
import PaymentToken
import TestSupport
import Testing
import TokenForge

@testable import MerchantKeys

@Suite("Merchant certificates")
struct MerchantCertificateTests {
    private static let merchant = "merchant.com.example.shop"

    @Test("Accepts a merchant identifier of 1 to 255 bytes without control characters, not all of them blank")
    func possibleIdentifiers() {
        for text in ["merchant.com.example", "x", "商店", "a b", String(repeating: "x", count: 255)] {
            #expect(MerchantIdentifier.isPossible(text))
        }
        for text in ["", " ", "\u{A0}\u{3000}", "\u{200B}", "a\n", String(repeating: "x", count: 256)] {
            #expect(!MerchantIdentifier.isPossible(text))
        }
    }

    @Test("Reads a Payment Processing Certificate for P-256 with its merchant, hash and validity")
    func ellipticCurve() throws {
        let forged = try SharedForge.ecMerchant
        let certificate = try MerchantCertificate(der: forged.certificate)
        #expect(certificate.purpose == .paymentProcessing)
        #expect(certificate.merchantIdentifier == Self.merchant)
        #expect(certificate.merchantIdentifierHash == Array(SHA256.hash(data: Data(Self.merchant.utf8))))
        #expect(certificate.publicKeyHash.bytes == forged.merchant.publicKeyHash)
        #expect(certificate.sha256 == Array(SHA256.hash(data: forged.certificate)))
        #expect(certificate.algorithm == .ec)
        #expect(certificate.isValid(at: Date()))
        #expect(!certificate.isValid(at: certificate.notBefore - 1))
        #expect(!certificate.isValid(at: certificate.notAfter + 1))
    }

    @Test("Reads a Payment Processing Certificate for RSA-2048")
    func rsa() throws {
        let forged = try SharedForge.rsaMerchant
        let certificate = try MerchantCertificate(der: forged.certificate)
        #expect(certificate.purpose == .paymentProcessing)
        #expect(certificate.algorithm == .rsa)
        #expect(certificate.publicKeyHash.bytes == forged.merchant.publicKeyHash)
    }

    @Test("Reads a merchant identifier that exceeds the limit of a common name")
    func longIdentifier() throws {
        let identifier = "merchant." + String(repeating: "long.", count: 30) + "example"
        let certificate = try MerchantCertificate(
            der: forge(MerchantCertificateProfile(merchantIdentifier: identifier)))
        #expect(certificate.merchantIdentifier == identifier)
    }

    @Test("Reads the extension's hash in upper-case and lower-case hexadecimal")
    func lowerCaseHash() async throws {
        let der = try await openssl(hash: OpenSSLCertificates.hash(Self.merchant).lowercased())
        #expect(try MerchantCertificate(der: der).merchantIdentifier == Self.merchant)
    }

    @Test("Reports a certificate whose extension has another merchant's hash as contradictory")
    func disagreement() throws {
        var profile = MerchantCertificateProfile(merchantIdentifier: Self.merchant)
        profile.extensionMerchantIdentifier = "merchant.com.other"
        let der = try forge(profile)
        #expect(throws: MerchantCertificateError.merchantIdentifierDisagrees) { try MerchantCertificate(der: der) }
    }

    @Test(
        "Reports an extension other than 64 hex characters in a UTF8String as unreadable",
        arguments: [
            "UTF8String:ABCD", "UTF8String:" + String(repeating: "g", count: 64),
            "IA5String:" + String(repeating: "A", count: 64), "NULL",
        ])
    func unreadableExtension(value: String) async throws {
        let der = try await OpenSSLCertificates.make(
            subject: ["UID = \(Self.merchant)", "CN = shop"],
            extensions: ["keyUsage = keyAgreement", "\(OpenSSLCertificates.merchantExtension) = ASN1:\(value)"])
        #expect(throws: MerchantCertificateError.extensionUnreadable) { try MerchantCertificate(der: der) }
    }

    @Test("Finds no merchant in a subject with two UIDs")
    func twoIdentifiers() async throws {
        let der = try await OpenSSLCertificates.make(
            subject: ["1.UID = \(Self.merchant)", "2.UID = merchant.com.other", "CN = shop"],
            extensions: extensions(hash: OpenSSLCertificates.hash(Self.merchant)))
        #expect(throws: MerchantCertificateError.merchantIdentifierUnreadable) { try MerchantCertificate(der: der) }
    }

    @Test(
        "Refuses a key type that Apple Pay does not use, and names it",
        arguments: [
            OpenSSLCertificates.Key.p384, .rsa3072,
        ])
    func otherKeys(key: OpenSSLCertificates.Key) async throws {
        let der = try await OpenSSLCertificates.make(
            key, subject: ["UID = \(Self.merchant)", "CN = shop"],
            extensions: extensions(hash: OpenSSLCertificates.hash(Self.merchant)))
        #expect(throws: MerchantCertificateError.unsupportedKey(purpose: .paymentProcessing)) {
            try MerchantCertificate(der: der)
        }
    }

    @Test("Refuses a truncated certificate, one with trailing bytes, and other data")
    func notACertificate() throws {
        let good = try SharedForge.ecMerchant.certificate
        for bytes in [[], [0x30, 0x00], Array("-----BEGIN CERTIFICATE-----".utf8), good.dropLast(), good + [0]]
            as [[UInt8]]
        {
            #expect(throws: MerchantCertificateError.notACertificate) { try MerchantCertificate(der: bytes) }
        }
        for length in stride(from: 0, to: good.count, by: 7) {
            #expect(throws: MerchantCertificateError.notACertificate) {
                try MerchantCertificate(der: Array(good.prefix(length)))
            }
        }
    }

    @Test(
        "Reads real Payment Processing Certificates with the merchant and hash of their payment tokens",
        .enabled("set PAYTOKEND_INTEROP_FIXTURES to a folder of real tokens") { Fixtures.directory != nil })
    func realCertificates() throws {
        var read = 0
        for paymentToken in try Fixtures.paymentTokens() {
            guard let file = paymentToken.certificate, let merchant = paymentToken.merchantIdentifier else { continue }
            let text = try String(contentsOf: file, encoding: .utf8)
            let body = text.split(separator: "\n").filter { !$0.hasPrefix("-----") }.joined()
            let certificate = try MerchantCertificate(der: Array(try #require(Data(base64Encoded: body))))
            #expect(certificate.purpose == .paymentProcessing, "\(paymentToken.name)")
            #expect(certificate.merchantIdentifier == merchant, "\(paymentToken.name)")
            #expect(certificate.algorithm == (paymentToken.version == "EC_v1" ? .ec : .rsa), "\(paymentToken.name)")
            let hash = try #require(
                String(decoding: paymentToken.json, as: UTF8.self).firstMatch(
                    of: /"publicKeyHash"\s*:\s*"([^"]*)"/)?.1)
            #expect(certificate.publicKeyHash == PublicKeyHash(base64: String(hash)), "\(paymentToken.name)")
            read += 1
        }
        #expect(read == 4)
    }

    private func forge(_ profile: MerchantCertificateProfile) throws -> [UInt8] {
        try SharedForge.authority.merchantCertificate(
            subjectPublicKeyInfo: SharedForge.ecMerchant.key.subjectPublicKeyInfo, profile: profile)
    }

    private func openssl(hash: String) async throws -> [UInt8] {
        try await OpenSSLCertificates.make(
            subject: ["UID = \(Self.merchant)", "CN = shop"], extensions: extensions(hash: hash))
    }

    private func extensions(hash: String) -> [String] {
        ["keyUsage = keyAgreement", "\(OpenSSLCertificates.merchantExtension) = ASN1:UTF8String:\(hash)"]
    }
}

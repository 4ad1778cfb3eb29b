import Foundation
import TestSupport
import Testing
import TokenForge

@Suite struct AuthorityTests {
    private func text(of certificate: [UInt8]) async throws -> String {
        let files = try FreshDirectory()
        try files.write(certificate, to: "der")
        return try await Program.run(
            Program.installed("openssl"),
            ["x509", "-inform", "DER", "-in", files.path("der"), "-noout", "-text", "-nameopt", "RFC2253"]
        ).output
    }

    @Test("has Apple's chain: P-384 root, P-256 intermediate, markers, usages and critical constraints")
    func chainShape() async throws {
        let authority = try SharedForge.authority
        let root = try await text(of: authority.root.certificate)
        #expect(root.contains("ASN1 OID: secp384r1") && root.contains("CA:TRUE"))
        let intermediate = try await text(of: authority.intermediate.certificate)
        #expect(intermediate.contains("ASN1 OID: prime256v1") && intermediate.contains("1.2.840.113635.100.6.2.14"))
        #expect(intermediate.contains("CA:TRUE, pathlen:0") && intermediate.contains("Certificate Sign, CRL Sign"))
        let leafEC = try await text(of: authority.leafEC.certificate)
        #expect(leafEC.contains("ASN1 OID: prime256v1") && leafEC.contains("1.2.840.113635.100.6.29"))
        let leafRSA = try await text(of: authority.leafRSA.certificate)
        #expect(leafRSA.contains("(2048 bit)") && leafRSA.contains("1.2.840.113635.100.6.29"))
        for leaf in [leafEC, leafRSA] {
            #expect(leaf.contains("Digital Signature") && leaf.contains("CA:FALSE"))
            #expect(leaf.contains("Signature Algorithm: ecdsa-with-SHA256"))
        }
    }

    @Test("signs with the same keys after it is written to a directory and read")
    func persistence() async throws {
        let files = try FreshDirectory()
        let authority = try SharedForge.authority
        try authority.write(to: files.url)
        let again = try ForgeAuthority(directory: files.url)
        #expect(again.root.certificate == authority.root.certificate)
        let merchant = try SharedForge.ecMerchant.merchant
        let paymentToken = try TokenMint(authority: again).mint(TokenRecipe(merchant: merchant))
        try files.write(paymentToken.signature, to: "signature")
        try files.write(paymentToken.signedContent, to: "content")
        let result = try await Program.run(
            Program.installed("openssl"),
            [
                "cms", "-verify", "-binary", "-inform", "DER", "-in", files.path("signature"), "-content",
                files.path("content"), "-CAfile", files.path("root.pem"), "-purpose", "any", "-out", "/dev/null",
            ])
        #expect(result.status == 0, "\(result)")
        let mode = try FileManager.default.attributesOfItem(atPath: files.path("root.key.pem"))[.posixPermissions]
        #expect(mode as? Int == 0o600)
    }

    @Test("issues a Payment Processing certificate that names the merchant in UID, common name and extension")
    func paymentProcessing() async throws {
        // With this identifier, the common name exceeds X.520's limit of 64 characters, as real common names do.
        let identifier = "merchant.com.example." + String(repeating: "long.", count: 12) + "shop"
        let authority = try SharedForge.authority
        let merchant = try ForgedMerchant(
            authority: authority, type: .p256, profile: MerchantCertificateProfile(merchantIdentifier: identifier))
        let text = try await text(of: merchant.certificate)
        #expect(text.contains("UID=\(identifier)"))
        #expect(text.contains("CN=Apple Pay Payment Processing:\(identifier)"))
        #expect(text.contains("Key Encipherment, Key Agreement"))
        let files = try FreshDirectory()
        try files.write(authority.root.certificatePEM, to: "root.pem")
        try files.write(authority.developerRelations.certificatePEM, to: "wwdr.pem")
        try files.write(ForgePEM.text(merchant.certificate, label: "CERTIFICATE"), to: "merchant.pem")
        let result = try await Program.run(
            Program.installed("openssl"),
            [
                "verify", "-CAfile", files.path("root.pem"), "-untrusted", files.path("wwdr.pem"),
                files.path("merchant.pem"),
            ])
        #expect(result.status == 0, "\(result)")
    }

    @Test("writes the merchant identifier extension as 64 upper-case hexadecimal digits in a UTF8String")
    func merchantIdentifierExtension() throws {
        let merchant = try ForgedMerchant(
            authority: SharedForge.authority, type: .p256,
            profile: MerchantCertificateProfile(merchantIdentifier: "merchant.basistheory.sales"))
        // The expected value comes from this merchant's published certificate.
        let value = [0x0c, 0x40] + Array("774D916D4C83F5F32B528D0D23576B18D6795BE8250BAD7E5998B5F1414740A1".utf8)
        #expect(merchant.certificate.contains(value))
    }

    @Test("issues a Merchant Identity certificate with other usages and another common name")
    func merchantIdentity() async throws {
        let merchant = try ForgedMerchant(
            authority: SharedForge.authority, type: .rsa2048,
            profile: MerchantCertificateProfile(merchantIdentifier: "merchant.com.example", kind: .merchantIdentity))
        let text = try await text(of: merchant.certificate)
        #expect(text.contains("TLS Web Client Authentication") && text.contains("Apple Pay Merchant Identity:"))
        #expect(!text.contains("Key Agreement"))
    }

    @Test("reads a merchant's identifier and key hash from its certificate")
    func merchantFromCertificate() throws {
        let made = try SharedForge.rsaMerchant
        let read = try Merchant(certificate: made.certificate)
        #expect(read.identifier == made.merchant.identifier)
        #expect(read.publicKeyHash == made.merchant.publicKeyHash)
        #expect(read.subjectPublicKeyInfo == made.key.subjectPublicKeyInfo)
    }

    @Test("certifies a request that openssl made, and refuses one with a wrong signature")
    func certificateRequest() async throws {
        let files = try FreshDirectory()
        let openssl = try Program.installed("openssl")
        let key = try ForgeKey(generating: .p256)
        try files.write(key.pem, to: "key.pem")
        let made = try await Program.run(
            openssl,
            [
                "req", "-new", "-key", files.path("key.pem"), "-subj", "/CN=anything", "-outform", "DER", "-out",
                files.path("csr.der"),
            ])
        #expect(made.status == 0, "\(made)")
        var request = Array(try Data(contentsOf: URL(filePath: files.path("csr.der"))))
        let authority = try SharedForge.authority
        let profile = MerchantCertificateProfile(merchantIdentifier: "merchant.com.example.csr")
        let certificate = try authority.merchantCertificate(certificateSigningRequest: request, profile: profile)
        #expect(try Merchant(certificate: certificate).subjectPublicKeyInfo == key.subjectPublicKeyInfo)
        request[request.count - 1] ^= 1
        #expect(throws: ForgeFailure.self) {
            try authority.merchantCertificate(certificateSigningRequest: request, profile: profile)
        }
    }

    @Test("issues an expired certificate whose validity ended yesterday")
    func expired() {
        let now = Date(timeIntervalSince1970: 1_800_000_000)
        let profile = MerchantCertificateProfile(merchantIdentifier: "m", expired: true, now: now)
        #expect(profile.notAfter == now.addingTimeInterval(-86_400))
        #expect(profile.notBefore < profile.notAfter)
    }
}

extension Array where Element == UInt8 {
    /// Returns true if `other` is a part of this array.
    func contains(_ other: [UInt8]) -> Bool {
        count >= other.count
            && indices.dropLast(other.count - 1).contains { Array(self[$0..<($0 + other.count)]) == other }
    }
}

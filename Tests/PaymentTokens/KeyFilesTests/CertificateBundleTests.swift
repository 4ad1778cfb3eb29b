import Foundation
import KeyFiles
import TestSupport
import Testing
import TokenForge

@Suite("Certificates from PKCS#7 bundles and multi-certificate PEM files")
struct CertificateBundleTests {
    private let files: OpenSSLFiles
    private let merchant: ForgedMerchant
    private let authority: ForgeAuthority

    init() throws {
        files = try OpenSSLFiles()
        merchant = try SharedForge.ecMerchant
        authority = try SharedForge.authority
    }

    private func write(_ certificates: [[UInt8]], indefinite: Bool = false, to name: String = "bundle") throws {
        try files.directory.write(ForgedCertificateBundle.pkcs7(certificates, indefiniteLengths: indefinite), to: name)
    }

    private var chain: [[UInt8]] {
        [authority.root.certificate, authority.developerRelations.certificate, merchant.certificate]
    }

    @Test("finds the merchant's certificate anywhere in the chain, in DER and in BER")
    func chains() throws {
        for indefinite in [false, true] {
            for certificates in [chain, Array(chain.reversed()), [merchant.certificate]] {
                try write(certificates, indefinite: indefinite)
                #expect(try CertificateFile(path: files.path("bundle")).der == merchant.certificate)
            }
        }
    }

    @Test("reads openssl's PKCS#7, in PEM and in DER")
    func openssl() async throws {
        for (index, der) in chain.enumerated() {
            try files.directory.write(ForgePEM.text(der, label: "CERTIFICATE"), to: "\(index).pem")
        }
        let members = "-certfile 0.pem -certfile 1.pem -certfile 2.pem"
        try await files.openssl("crl2pkcs7 -nocrl \(members) -out bundle.p7b")
        try await files.openssl("crl2pkcs7 -nocrl \(members) -outform DER -out bundle.p7c")
        for name in ["bundle.p7b", "bundle.p7c"] {
            let file = try CertificateFile(path: files.path(name))
            #expect(file.der == merchant.certificate)
            let remark = try #require(file.note)
            #expect(
                remark.hasPrefix(
                    "\(files.path(name)): took one of 3 certificates: "
                        + "Apple Pay Payment Processing:merchant.com.example.shop (Payment Processing, serial "),
                "\(remark)")
            #expect(remark.contains("signed by Forge Worldwide Developer Relations CA - G2"))
        }
    }

    @Test("reads a PEM file with a chain like a bundle, and adds no note for a single certificate")
    func chainInPEM() throws {
        let text = chain.map { ForgePEM.text($0, label: "CERTIFICATE") }.joined()
        let file = try CertificateFile(path: files.directory.write(text, to: "chain.pem"))
        #expect(file.der == merchant.certificate)
        let alone = try CertificateFile(path: files.directory.write(merchant.certificate, to: "alone.cer"))
        #expect(alone.note == nil)
    }

    @Test("accepts a bundle without the issuer, and notes its absence")
    func withoutIssuer() throws {
        try write([authority.root.certificate, merchant.certificate])
        let file = try CertificateFile(path: files.path("bundle"))
        #expect(file.der == merchant.certificate)
        #expect(try #require(file.note).hasSuffix("; its issuer is not in the file."))
    }

    @Test("refuses a certificate that the included issuer did not sign")
    func forgedIssuer() throws {
        // This is another authority with the same names, such as a forger's or a second test system's.
        let other = try ForgeAuthority()
        try write([merchant.certificate, other.developerRelations.certificate])
        let error = try #require(files.certificateError("bundle"))
        #expect(error.kind == .unsuitable)
        #expect(error.message.contains("and its issuer, who did not sign it: Forge Worldwide Developer Relations"))

        // A changed bit in the serial number leaves the certificate readable, with an invalid signature.
        var changed = merchant.certificate
        changed[20] ^= 1
        try write([changed, authority.developerRelations.certificate])
        #expect(try #require(files.certificateError("bundle")).message.contains("who did not sign it"))

        // A certificate that is not an authority's does not count as the issuer, even if it has the issuer's name.
        let impostor = try ForgedMerchant(
            authority: other, type: .p256, profile: .init(merchantIdentifier: "merchant.com.example.other"))
        try write([merchant.certificate, impostor.certificate, authority.developerRelations.certificate])
        #expect(try #require(files.certificateError("bundle")).message.contains("holds 2 Apple Pay Payment Processing"))
    }

    @Test("refuses two Payment Processing Certificates, and names both")
    func several() throws {
        let rsa = try SharedForge.rsaMerchant
        try write([merchant.certificate, authority.developerRelations.certificate, rsa.certificate])
        let error = try #require(files.certificateError("bundle"))
        #expect(error.kind == .unsuitable)
        for part in [
            "holds 2 Apple Pay Payment Processing Certificates", "merchant.com.example.shop",
            "merchant.com.example.rsa",
            "Import them one by one",
        ] { #expect(error.message.contains(part), "\(error.message)") }
    }

    @Test("accepts a bundle that contains the same certificate twice")
    func twice() throws {
        try write([merchant.certificate, merchant.certificate, authority.developerRelations.certificate])
        #expect(try CertificateFile(path: files.path("bundle")).der == merchant.certificate)
    }

    @Test("accepts either kind of merchant certificate, and names the content of a bundle without one")
    func none() throws {
        let identity = try authority.merchantCertificate(
            subjectPublicKeyInfo: merchant.key.subjectPublicKeyInfo,
            profile: .init(merchantIdentifier: "merchant.com.example.shop", kind: .merchantIdentity))
        try write([authority.developerRelations.certificate, authority.root.certificate])
        let error = try #require(files.certificateError("bundle"))
        #expect(error.message.contains("holds 2 certificates, but no merchant's certificate of Apple Pay"))
        #expect(error.message.contains("(a certification authority, "))
        try write([authority.developerRelations.certificate, identity])
        #expect(try CertificateFile(path: files.path("bundle")).der == identity)
        // Next to a Payment Processing Certificate, the Merchant Identity Certificate is ignored.
        try write([identity, merchant.certificate])
        #expect(try CertificateFile(path: files.path("bundle")).der == merchant.certificate)
        // A Merchant Identity Certificate alone is accepted here; the daemon reports the wrong kind.
        try write([identity])
        #expect(try CertificateFile(path: files.path("bundle")).der == identity)
    }

    @Test("names PKCS#7 content that is not a bundle of certificates")
    func otherKinds() async throws {
        try write([])
        #expect(try #require(files.certificateError("bundle")).message.hasSuffix("without a certificate in it."))

        try await files.openssl(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout k -out c -subj /CN=x")
        try files.directory.write("text", to: "text")
        try await files.openssl("cms -sign -signer c -inkey k -in text -nodetach -outform DER -out signed")
        #expect(try #require(files.certificateError("signed")).message.contains("is a signed PKCS#7 message"))
        try await files.openssl("cms -data_create -in text -outform DER -out data")
        #expect(try #require(files.certificateError("data")).message.contains("of a kind that carries no certificates"))

        let bundle = ForgedCertificateBundle.pkcs7([merchant.certificate])
        for damaged in [bundle + [0], Array(bundle.dropLast(3))] {
            try files.directory.write(damaged, to: "damaged")
            #expect(files.certificateError("damaged")?.kind == .unsuitable)
        }
    }

    @Test("refuses 33 certificates")
    func tooMany() throws {
        let certificates = try (0..<33).map { _ in
            try authority.merchantCertificate(
                subjectPublicKeyInfo: merchant.key.subjectPublicKeyInfo, profile: .init(merchantIdentifier: "m"))
        }
        try write(certificates)
        #expect(try #require(files.certificateError("bundle")).message.contains("holds more than 32 certificates"))
        try write(Array(certificates.prefix(32)))
        #expect(try #require(files.certificateError("bundle")).message.contains("holds 32 Apple Pay"))
    }

    @Test("removes terminal control sequences from a name before it shows it")
    func names() throws {
        let hostile = try authority.merchantCertificate(
            subjectPublicKeyInfo: merchant.key.subjectPublicKeyInfo,
            profile: .init(merchantIdentifier: "m\u{1B}[2J\u{202E}x"))
        try write([hostile, merchant.certificate])
        let error = try #require(files.certificateError("bundle"))
        #expect(error.message.contains("m?[2J"))
        #expect(!error.message.unicodeScalars.contains("\u{1B}"))
        #expect(!error.message.unicodeScalars.contains("\u{202E}"))
    }

    @Test("returns an error or a certificate, without a crash, for three thousand damaged bundles")
    func mutations() throws {
        let originals = [false, true].map { ForgedCertificateBundle.pkcs7(chain, indefiniteLengths: $0) }
        var generator = SeededGenerator(seed: 7)
        var refused = 0
        for round in 0..<3000 {
            var bytes = originals[round % 2]
            for _ in 0...Int.random(in: 0...3, using: &generator) {
                bytes[Int.random(in: bytes.indices, using: &generator)] = .random(in: 0...255, using: &generator)
            }
            if round % 5 == 0 { bytes = Array(bytes.prefix(Int.random(in: 1...bytes.count, using: &generator))) }
            try files.directory.write(bytes, to: "mutated")
            if files.certificateError("mutated") != nil { refused += 1 }
        }
        #expect(refused > 1500)
    }
}

import Foundation
import KeyFiles
import SecretMemory
import TestSupport
import Testing
import TokenForge

@Suite("Private keys with their certificates from PKCS#12")
struct PKCS12Tests {
    private let files: OpenSSLFiles
    private let merchant: ForgedMerchant

    /// Writes `key.pem`, `certificate.pem`, `issuer.pem` and `password`.
    init() throws {
        files = try OpenSSLFiles()
        merchant = try SharedForge.ecMerchant
        try files.directory.write(merchant.key.pem, to: "key.pem")
        try files.directory.write(ForgePEM.text(merchant.certificate, label: "CERTIFICATE"), to: "certificate.pem")
        try files.directory.write(SharedForge.authority.developerRelations.certificatePEM, to: "issuer.pem")
        try files.directory.write("s3cret\n", to: "password")
    }

    private func export(_ options: String = "", key: String = "key.pem", to name: String = "bundle.p12") async throws {
        try await files.openssl(
            "pkcs12 -export -inkey \(key) -in certificate.pem -passout pass:s3cret -out \(name) \(options)")
    }

    private func read(_ name: String = "bundle.p12", password: String? = "password") throws(KeyFileError)
        -> MerchantKeyFiles
    {
        try MerchantKeyFiles(pkcs12: files.path(name), passwordFile: password.map(files.path), certificate: nil)
    }

    private func error(_ name: String = "bundle.p12", password: String? = "password") throws -> KeyFileError {
        var found: KeyFileError?
        do throws(KeyFileError) { _ = try read(name, password: password) } catch { found = error }
        return try #require(found)
    }

    @Test(
        "opens bundles with modern or legacy encryption of the key and the certificates",
        arguments: [
            "", "-keypbe AES-128-CBC -certpbe AES-128-CBC -macalg SHA512", "-certpbe NONE", "-nomac",
            "-legacy", "-legacy -keypbe PBE-SHA1-RC2-40 -certpbe PBE-SHA1-RC2-40",
            "-legacy -keypbe PBE-SHA1-RC2-128 -certpbe PBE-SHA1-RC2-128", "-legacy -nomac",
            "-keypbe PBE-SHA1-3DES -certpbe PBE-SHA1-3DES -macalg SHA1", "-keypbe PBE-SHA1-2DES -certpbe PBE-SHA1-2DES",
            "-legacy -keypbe PBE-SHA1-RC4-128 -certpbe PBE-SHA1-RC4-40", "-keypbe NONE -certpbe NONE",
            "-legacy -noiter -nomaciter", "-iter 600000 -name merchant",
        ])
    func encryptions(options: String) async throws {
        try await export(options)
        let found = try read()
        #expect(found.privateKey.algorithm == .ec)
        #expect(found.privateKey.contents() == merchant.key.pkcs8)
        #expect(found.certificate.der == merchant.certificate)
        #expect(found.certificate.note == nil)
    }

    @Test("selects the key's certificate from an RSA bundle with its chain, and verifies it")
    func rsaWithChain() async throws {
        let rsa = try SharedForge.rsaMerchant
        try files.directory.write(rsa.key.pem, to: "rsa.pem")
        try files.directory.write(
            ForgePEM.text(rsa.certificate, label: "CERTIFICATE") + SharedForge.authority.root.certificatePEM
                + SharedForge.authority.developerRelations.certificatePEM, to: "certificate.pem")
        try await export("-legacy", key: "rsa.pem")
        let found = try read()
        #expect(found.privateKey.algorithm == .rsa)
        #expect(found.privateKey.contents() == rsa.key.pkcs8)
        #expect(found.certificate.der == rsa.certificate)
        #expect(try #require(found.certificate.note).contains("signed by Forge Worldwide Developer Relations"))
    }

    @Test("refuses a bundle whose issuer did not sign the certificate")
    func forgedIssuer() async throws {
        let other = try ForgeAuthority().developerRelations.certificatePEM
        try files.directory.write(
            ForgePEM.text(merchant.certificate, label: "CERTIFICATE") + other, to: "certificate.pem")
        try await export()
        #expect(try error().message.contains("its issuer, who did not sign it"))
    }

    @Test("opens a bundle with an empty password if the password file is absent, empty or only a newline")
    func emptyPassword() async throws {
        try files.directory.write("", to: "empty")
        try files.directory.write("\n", to: "newline")
        for options in ["", "-legacy", "-nomac"] {
            try await files.openssl(
                "pkcs12 -export -inkey key.pem -in certificate.pem -passout pass: -out bundle.p12 \(options)")
            for password in ["empty", "newline", nil] {
                #expect(try read(password: password).privateKey.contents() == merchant.key.pkcs8)
            }
            #expect(try error().kind == .locked)
        }
    }

    @Test("opens a bundle made without a password, whose MAC differs from that of an empty password")
    func noPassword() throws {
        // Old programs derive the MAC's key from a password of zero bytes. An empty BMPString has two zero bytes (RFC
        // 7292 appendix B.1).
        let safe = Bundle.authenticatedSafe(keys: [merchant.key.pkcs8], certificates: [merchant.certificate])
        let salt: [UInt8] = [1, 2, 3, 4, 5, 6, 7, 8]
        for password: [UInt8] in [[], [0, 0]] {
            let mac = Bundle.mac(of: safe, bmpPassword: password, salt: salt)
            try files.directory.write(Bundle.pfx(safe, mac: mac, salt: salt), to: "bundle.p12")
            #expect(try read(password: nil).privateKey.contents() == merchant.key.pkcs8)
        }
    }

    @Test("refuses a wrong or missing password")
    func wrongPassword() async throws {
        try files.directory.write("another", to: "wrong")
        for options in ["", "-legacy", "-nomac", "-legacy -nomac"] {
            try await export(options)
            let wrong = try error(password: "wrong")
            #expect(wrong.kind == .locked)
            #expect(wrong.message.contains("does not open with the password in \(files.path("wrong"))"))
            #expect(!wrong.message.contains("another\""))
            let none = try error(password: nil)
            #expect(none.kind == .locked)
            #expect(none.message.contains("Name a file with its password: --password-file F"))
        }
    }

    @Test("reports a changed file if the MAC is wrong although the password decrypts the content")
    func macMismatch() async throws {
        try await export("-iter 1")
        var bytes = try files.bytes("bundle.p12")
        // MacData is the last element: DigestInfo, then a salt of 8 bytes (`04 08`). DER omits an iteration count of 1.
        let salt = try #require((0..<bytes.count - 1).last { bytes[$0] == 4 && bytes[$0 + 1] == 8 })
        bytes[salt + 2] ^= 1
        try files.directory.write(bytes, to: "bundle.p12")
        let changed = try error()
        #expect(changed.kind == .unsuitable)
        #expect(changed.message.contains("its integrity check (MAC) fails"))
    }

    @Test("refuses, without reading it, a password file that other accounts can read")
    func exposedPassword() async throws {
        try await export()
        try files.directory.write("s3cret", to: "open", mode: 0o644)
        #expect(try error(password: "open").kind == .exposed)
        try files.directory.write("", to: "open-empty", mode: 0o644)
        #expect(try error(password: "open-empty").kind == .exposed)
        try files.directory.write("s3cret\nand more", to: "lines")
        #expect(try error(password: "lines").message.contains("more than one line"))
        try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: files.path("bundle.p12"))
        #expect(try error().kind == .exposed)
    }

    @Test("refuses a bundle without a key, with several keys, without a certificate, or with another's certificate")
    func contents() async throws {
        try await files.openssl("pkcs12 -export -nokeys -in certificate.pem -passout pass:s3cret -out bundle.p12")
        #expect(try error().message.contains("without a private key"))

        let rsa = try SharedForge.rsaMerchant
        let keys = [merchant.key.pkcs8, rsa.key.pkcs8]
        try files.directory.write(
            Bundle.pfx(Bundle.authenticatedSafe(keys: keys, certificates: [merchant.certificate])), to: "bundle.p12")
        #expect(try error(password: nil).message.contains("holds 2 private keys"))

        try await files.openssl("pkcs12 -export -nocerts -inkey key.pem -passout pass:s3cret -out bundle.p12")
        let without = try error()
        #expect(without.message.contains("holds a private key without a certificate"))
        #expect(without.kind == .unsuitable)
        let named = try MerchantKeyFiles(
            pkcs12: files.path("bundle.p12"), passwordFile: files.path("password"),
            certificate: files.path("certificate.pem"))
        #expect(named.certificate.der == merchant.certificate)

        let other = Bundle.authenticatedSafe(keys: [merchant.key.pkcs8], certificates: [rsa.certificate])
        try files.directory.write(Bundle.pfx(other), to: "bundle.p12")
        let mismatch = try error(password: nil)
        #expect(mismatch.kind == .mismatched)
        #expect(mismatch.message.contains("holds a certificate, but none for its private key"))
    }

    @Test("requires a separate certificate file to match the key")
    func otherCertificate() async throws {
        try await export()
        try files.directory.write(SharedForge.rsaMerchant.certificate, to: "other.cer")
        let error = try #require(throws: KeyFileError.self) {
            _ = try MerchantKeyFiles(
                pkcs12: files.path("bundle.p12"), passwordFile: files.path("password"),
                certificate: files.path("other.cer"))
        }
        #expect(error.kind == .mismatched)
    }

    @Test("names a key type that Apple Pay does not use")
    func otherKey() async throws {
        try await files.openssl(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-384 -nodes -keyout k -out certificate.pem -subj /CN=x")
        try await export(key: "k")
        #expect(try error().message.contains("(EC secp384r1)"))
    }

    @Test(
        "refuses more than five million iterations at once, for the key, the certificates and the MAC",
        arguments: ["", "-legacy", "-nomac"])
    func iterations(options: String) async throws {
        // The test replaces the DER integer 99,999 (02 03 01 86 9F) by 8,388,607, which has the same length.
        try await export("-iter 99999 \(options)", to: "accepted.p12")
        var bytes = try files.bytes("accepted.p12")
        let (asMade, excessive): ([UInt8], [UInt8]) = ([2, 3, 1, 0x86, 0x9F], [2, 3, 0x7F, 0xFF, 0xFF])
        let last = try #require((0...bytes.count - 5).last { bytes[$0...].starts(with: asMade) })
        bytes.replaceSubrange(last..<last + 5, with: excessive)
        try files.directory.write(bytes, to: "bundle.p12")
        let clock = ContinuousClock()
        var refused = Duration.seconds(3600)
        for _ in 0..<3 {
            let start = clock.now
            let said = try error().message
            refused = min(refused, start.duration(to: .now))
            #expect(said.contains("5000000 iterations"))
        }
        // Opening the accepted file computes its 99,999 iterations. Computing the refused number would take 84 times as
        // long.
        let start = clock.now
        _ = try read("accepted.p12")
        let opened = start.duration(to: .now)
        #expect(refused < opened * 10, "\(refused), \(opened)")
    }

    @Test("names the kind of a file that is not a PKCS#12 bundle")
    func otherFiles() async throws {
        #expect(try error("key.pem").message.contains("give it as --private-key \(files.path("key.pem"))"))
        #expect(try error("certificate.pem").message.contains("is a certificate, not a PKCS#12 bundle"))
        #expect(try error("password").message.contains("is neither PEM nor DER"))
        #expect(try error("absent").kind == .unreadable)
        try files.directory.write([UInt8](repeating: 0x30, count: 65537), to: "large")
        #expect(try error("large").message.contains("larger than 65536 bytes"))
    }

    @Test("refuses a truncated bundle, or one followed by more bytes")
    func notWhole() async throws {
        try await export()
        let bytes = try files.bytes("bundle.p12")
        for damaged in [bytes + [0], Array(bytes.dropLast(5))] {
            try files.directory.write(damaged, to: "damaged")
            #expect(try error("damaged").kind == .unsuitable)
        }
    }

    @Test("returns an error or the key, without a crash, for two thousand damaged bundles")
    func mutations() async throws {
        try await export("-iter 1", to: "new.p12")
        try await export("-legacy -iter 1", to: "old.p12")
        try files.directory.write(
            Bundle.pfx(Bundle.authenticatedSafe(keys: [merchant.key.pkcs8], certificates: [merchant.certificate])),
            to: "plain.p12")
        let originals = try ["new.p12", "old.p12", "plain.p12"].map(files.bytes)
        var generator = SeededGenerator(seed: 12)
        var refused = 0
        for round in 0..<2000 {
            var bytes = originals[round % originals.count]
            for _ in 0...Int.random(in: 0...2, using: &generator) {
                bytes[Int.random(in: bytes.indices, using: &generator)] = .random(in: 0...255, using: &generator)
            }
            try files.directory.write(bytes, to: "mutated")
            do { _ = try read("mutated") } catch { refused += 1 }
        }
        #expect(refused > 1000)
    }
}

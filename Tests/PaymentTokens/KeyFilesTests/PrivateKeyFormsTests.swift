import Foundation
import KeyFiles
import TestSupport
import Testing

@Suite("Private keys in every format, read as PKCS#8")
struct PrivateKeyFormsTests {
    @Test("reads P-256 keys")
    func ec() async throws {
        let files = try await OpenSSLFiles.ec()
        let expected = try files.bytes("ec.p8")
        try await files.openssl("ec -in ec.pem -out sec1.pem")
        try await files.openssl("ec -in ec.pem -outform DER -out sec1.der")
        try await files.openssl("ec -in ec.pem -conv_form compressed -out compressed.pem")
        try await files.openssl("ec -in ec.pem -no_public -out without-public.pem")
        try await files.openssl("ec -in ec.pem -param_enc explicit -out explicit.pem")
        for name in ["ec.pem", "ec.p8", "sec1.pem", "sec1.der", "compressed.pem", "without-public.pem", "explicit.pem"]
        {
            let key = try PrivateKeyFile(path: files.path(name))
            #expect(key.algorithm == .ec, "\(name)")
            #expect(key.contents() == expected, "\(name)")
        }
    }

    @Test("reads RSA keys of 2048 bits")
    func rsa() async throws {
        let files = try await OpenSSLFiles.rsa()
        let expected = try files.bytes("rsa.p8")
        try await files.openssl("rsa -in rsa.pem -traditional -out pkcs1.pem")
        try await files.openssl("rsa -in rsa.pem -traditional -outform DER -out pkcs1.der")
        for name in ["rsa.pem", "rsa.p8", "pkcs1.pem", "pkcs1.der"] {
            let key = try PrivateKeyFile(path: files.path(name))
            #expect(key.algorithm == .rsa, "\(name)")
            #expect(key.contents() == expected, "\(name)")
        }
    }

    @Test("ignores text and other PEM blocks around the key")
    func surroundings() async throws {
        let files = try await OpenSSLFiles.everything()
        let expected = try files.bytes("ec.p8")
        let pem = try files.text("ec.pem")
        let certificate = try files.text("certificate.pem")
        let parameters = try files.text("parameters.pem")
        let variants = [
            "Windows line ends": pem.replacing("\n", with: "\r\n"),
            "a byte order mark": "\u{FEFF}" + pem,
            "text before": "Bag Attributes\n    friendlyName: merchant\nKey Attributes: <No Attributes>\n" + pem,
            "its certificate after": pem + certificate,
            "its certificate before": certificate + pem,
            "EC PARAMETERS before": parameters + pem,
            "no newline at the end": String(pem.dropLast()),
        ]
        for (name, text) in variants {
            let key = try PrivateKeyFile(path: files.directory.write(text, to: "variant"))
            #expect(key.contents() == expected, "\(name)")
        }
    }

    @Test("opens encrypted PKCS#8 with a password file that ends with or without a newline")
    func encrypted() async throws {
        let files = try await OpenSSLFiles.ec()
        let expected = try files.bytes("ec.p8")
        try await files.openssl("pkcs8 -topk8 -in ec.pem -v2 aes-256-cbc -passout pass:s3cret -out encrypted.pem")
        try await files.openssl("pkcs8 -topk8 -in ec.pem -passout pass:s3cret -outform DER -out encrypted.der")
        for password in ["s3cret", "s3cret\n"] {
            let file = try files.directory.write(password, to: "password")
            for name in ["encrypted.pem", "encrypted.der"] {
                let key = try PrivateKeyFile(path: files.path(name), passwordFile: file)
                #expect(key.contents() == expected, "\(name)")
            }
        }
    }

    @Test(
        "refuses more than five million iterations before it computes any",
        arguments: ["-v2 aes-256-cbc", "-v1 PBE-SHA1-3DES"])
    func iterations(encryption: String) async throws {
        let files = try await OpenSSLFiles.ec()
        try await files.openssl(
            "pkcs8 -topk8 -in ec.pem \(encryption) -iter 99999 -passout pass:s3cret -outform DER -out accepted.der")
        var bytes = try files.bytes("accepted.der")
        // The test replaces the DER integer 99,999 (02 03 01 86 9F) by 8,388,607, which has the same length.
        let count = try #require((0...bytes.count - 5).first { bytes[$0...].starts(with: [2, 3, 1, 0x86, 0x9F]) })
        bytes.replaceSubrange(count..<count + 5, with: [2, 3, 0x7F, 0xFF, 0xFF])
        try files.directory.write(bytes, to: "excessive.der")
        let password = try files.directory.write("s3cret", to: "password")
        #expect(try PrivateKeyFile(path: files.path("accepted.der"), passwordFile: password).algorithm == .ec)
        let error = try #require(files.privateKeyError("excessive.der", passwordFile: password))
        #expect(error.kind == .unsuitable)
        #expect(error.message.contains("5000000 iterations"))
    }

    @Test("explains a missing or wrong password of an encrypted key")
    func locked() async throws {
        let files = try await OpenSSLFiles.ec()
        try await files.openssl("pkcs8 -topk8 -in ec.pem -passout pass:s3cret -out encrypted.pem")
        let without = try #require(files.privateKeyError("encrypted.pem"))
        #expect(without.kind == .locked)
        #expect(without.message.contains("--password-file"))
        let file = try files.directory.write("another", to: "password")
        let wrong = try #require(files.privateKeyError("encrypted.pem", passwordFile: file))
        #expect(wrong.kind == .locked)
        #expect(wrong.message.contains("does not open with the password"))
        #expect(!wrong.message.contains("another\n"))
        let open = try files.directory.write("s3cret", to: "open", mode: 0o604)
        #expect(files.privateKeyError("encrypted.pem", passwordFile: open)?.kind == .exposed)
    }

    @Test("refuses a key in OpenSSL's traditional encryption, and names the command that converts it")
    func traditional() async throws {
        let files = try await OpenSSLFiles.ec()
        try await files.openssl("ec -in ec.pem -aes128 -passout pass:s3cret -out old.pem")
        let error = try #require(files.privateKeyError("old.pem"))
        #expect(error.kind == .notYetSupported)
        #expect(error.message.contains("openssl pkcs8 -topk8 -in \(files.path("old.pem"))"))
    }
}

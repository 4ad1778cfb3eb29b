import Foundation
import KeyFiles
import TestSupport
import Testing

@Suite("Unsuitable files")
struct UnsuitableFilesTests {
    @Test("names the kind of a file that is given as a private key and is not one")
    func insteadOfPrivateKey() async throws {
        let files = try await OpenSSLFiles.everything()
        try files.directory.write(#"{"paymentData":{}}"#, to: "token.json")
        try files.directory.write("ssh-ed25519 AAAA someone@example", to: "id.pub")
        try files.directory.write([0xFE, 0xED, 0xFE, 0xED, 0, 0, 0, 2], to: "store.jks")
        try files.directory.write("no key at all", to: "text")
        let expected = [
            "certificate.pem": "is a certificate, not a private key",
            "certificate.der": "is a certificate, not a private key",
            "request.pem": "is a certificate signing request, not a private key",
            "request.der": "is a certificate signing request, not a private key",
            "public.pem": "is a public key, not a private key",
            "public.der": "is a public key, not a private key",
            "bundle.p12": "is a PKCS#12 bundle, with key and certificate in one. Give it as --pkcs12",
            "bundle.p7b": "is a PKCS#7 bundle of certificates, not a private key",
            "bundle.p7c": "is a PKCS#7 bundle of certificates, not a private key",
            "parameters.pem": "is key parameters without a key",
            "token.json": "is a JSON document",
            "id.pub": "is an OpenSSH public key",
            "store.jks": "is a Java key store",
            "text": "is neither PEM nor DER",
        ]
        for (name, sentence) in expected {
            let error = try #require(files.privateKeyError(name), "\(name)")
            #expect(error.message.hasPrefix("\(files.path(name)) \(sentence)"), "\(error.message)")
        }
    }

    @Test("names the kind of a file that is given as a certificate and is not one")
    func insteadOfCertificate() async throws {
        let files = try await OpenSSLFiles.everything()
        try await files.openssl("ec -in ec.pem -outform DER -out sec1.der")
        let expected = [
            "ec.pem": "is a private key, not a certificate",
            "ec.p8": "is a private key, not a certificate",
            "sec1.der": "is a private key, not a certificate",
            "request.pem": "is a certificate signing request, not a certificate",
            "request.der": "is a certificate signing request, not a certificate",
            "public.pem": "is a public key, not a certificate",
            "bundle.p12": "is a PKCS#12 bundle, with a private key in it. Give it to key import: --pkcs12",
        ]
        for (name, sentence) in expected {
            let error = try #require(files.certificateError(name), "\(name)")
            #expect(error.message.hasPrefix("\(files.path(name)) \(sentence)"), "\(error.message)")
        }
    }

    @Test("quotes a path with blanks and quotation marks for the shell in the command it prints")
    func quoting() async throws {
        let files = try await OpenSSLFiles.everything()
        try files.directory.write(files.bytes("bundle.p12"), to: "it's a bundle.p12")
        let error = try #require(files.privateKeyError("it's a bundle.p12"))
        #expect(error.message.contains(#"--pkcs12 '\#(files.directory.path)/it'\''s a bundle.p12',"#))
    }

    @Test(
        "names the type of a private key that Apple Pay does not use",
        arguments: [
            ("-algorithm EC -pkeyopt ec_paramgen_curve:P-384", "EC secp384r1"),
            ("-algorithm EC -pkeyopt ec_paramgen_curve:secp256k1", "EC secp256k1"),
            ("-algorithm RSA -pkeyopt rsa_keygen_bits:1024", "RSA 1024"),
            ("-algorithm RSA -pkeyopt rsa_keygen_bits:3072", "RSA 3072"),
            ("-algorithm RSA-PSS -pkeyopt rsa_keygen_bits:2048", "RSA-PSS"),
            ("-algorithm ED25519", "ED25519"),
        ])
    func otherKinds(options: String, name: String) async throws {
        let files = try OpenSSLFiles()
        try await files.openssl("genpkey \(options) -out key.pem")
        let error = try #require(files.privateKeyError("key.pem"))
        #expect(error.kind == .unsuitable)
        #expect(error.message.contains("(\(name))"), "\(error.message)")
    }

    @Test("refuses a file with two private keys, or with two certificates that are not a merchant's")
    func several() async throws {
        let files = try await OpenSSLFiles.everything()
        try await files.openssl("req -x509 -new -key ec.pem -subj /CN=other -days 30 -out other.pem")
        let (key, certificate) = (try files.text("ec.pem"), try files.text("certificate.pem"))
        try files.directory.write(key + key + certificate + files.text("other.pem"), to: "several.pem")
        #expect(try #require(files.privateKeyError("several.pem")).message.contains("holds 2 private keys"))
        #expect(
            try #require(files.certificateError("several.pem")).message.contains(
                "holds 2 certificates, but no merchant's certificate of Apple Pay among them: merchant (a"))
    }

    @Test("finds the certificate in PEM and DER files, in PKCS#7, and in a file with its key")
    func certificates() async throws {
        let files = try await OpenSSLFiles.everything()
        let expected = try files.bytes("certificate.der")
        try files.directory.write(files.text("ec.pem") + files.text("certificate.pem"), to: "both.pem")
        for name in ["certificate.pem", "certificate.der", "both.pem", "bundle.p7b", "bundle.p7c"] {
            #expect(try CertificateFile(path: files.path(name)).der == expected, "\(name)")
        }
    }
}

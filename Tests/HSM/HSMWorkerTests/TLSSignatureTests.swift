import Crypto
import CryptoExtras
import Foundation
import TLSHandshake
import TestSupport
import Testing
import WorkerProtocol

/// TLS handshakes that the real worker process signs with identity keys.
@Suite struct TLSSignatureTests {
    private static let merchant = "merchant.com.example.identity"

    /// Instructions to the scripted module to refuse a mechanism.
    private enum Refused {
        static let pssHashing = "refuse-mechanism C_SignInit 0x43"
        static let pss = "refuse-mechanism C_SignInit 0xD"
        static let bare = "refuse-mechanism C_SignInit 0x3"
        static let pkcs1Hashing = "refuse-mechanism C_SignInit 0x40"
        static let pkcs1 = "refuse-mechanism C_SignInit 0x1"
    }

    private func serving(
        _ hsmToken: any WorkersToken
    ) async throws -> (WorkerUnderTest, HSMTokenDescription, KeyDescription) {
        let worker = try WorkerUnderTest(hsmToken)
        let description = try await worker.open(hsmToken, sessions: 1)
        try await worker.mustImportIdentity(IdentityKeys.merchant, description)
        return (worker, description, try #require(try await worker.keys().first))
    }

    private func signature(_ answer: WorkerAnswer) throws -> [UInt8] {
        guard case .tlsSignature(let signature) = answer else {
            throw WorkerUnderTest.Unexpected(description: "\(answer)")
        }
        return signature
    }

    private func isValid(
        _ signature: [UInt8], _ message: [UInt8], _ key: KeyDescription, _ padding: _RSA.Signing.Padding
    )
        throws -> Bool
    {
        try _RSA.Signing.PublicKey(derRepresentation: key.subjectPublicKeyInfo).isValidSignature(
            _RSA.Signing.RSASignature(rawRepresentation: signature), for: Data(message), padding: padding)
    }

    /// Returns true if openssl accepts the signature. For RSASSA-PSS, openssl then requires SHA-256, MGF1-SHA256 and a
    /// salt of exactly 32 bytes.
    private func opensslAccepts(
        _ signature: [UInt8], _ message: [UInt8], _ key: KeyDescription,
        _ algorithm: TLSSignatureAlgorithm = .pssSHA256
    ) async throws -> Bool {
        let files = try FreshDirectory()
        try files.write(key.subjectPublicKeyInfo, to: "key.der")
        try files.write(signature, to: "signature")
        try files.write(message, to: "message")
        let openssl = try Program.installed("openssl")
        let converted = try await Program.run(
            openssl,
            [
                "pkey", "-pubin", "-inform", "DER", "-in", files.path("key.der"), "-pubout", "-out",
                files.path("key.pem"),
            ])
        try #require(converted.status == 0, "\(converted)")
        let verified = try await Program.run(
            openssl,
            [
                "dgst", "-sha256", "-verify", files.path("key.pem"), "-signature", files.path("signature"),
            ]
                + (algorithm == .pssSHA256
                    ? [
                        "-sigopt", "rsa_padding_mode:pss", "-sigopt", "rsa_pss_saltlen:32", "-sigopt",
                        "rsa_mgf1_md:sha256",
                    ] : []) + [files.path("message")])
        return verified.status == 0 && verified.output.contains("Verified OK")
    }

    @Test("signs a TLS 1.2 handshake with PSS or PKCS #1 if the server accepts it", arguments: TokenKind.installed)
    func tls12(_ kind: TokenKind) async throws {
        let (worker, _, key) = try await serving(kind.fresh())
        for (algorithm, padding) in [
            (TLSSignatureAlgorithm.pssSHA256, _RSA.Signing.Padding.PSS), (.pkcs1SHA256, .insecurePKCS1v1_5),
        ] {
            let input = IdentityKeys.handshake12()
            let signature = try signature(try await worker.signTLS(key.identifier, input, algorithm))
            #expect(try isValid(signature, input, key, padding))
            #expect(try await opensslAccepts(signature, input, key, algorithm))
        }
    }

    @Test("makes signatures that openssl and swift-crypto accept, each with a new salt", arguments: TokenKind.installed)
    func accepted(_ kind: TokenKind) async throws {
        let (worker, description, key) = try await serving(kind.fresh())
        #expect(description.tlsSignatures == TLSSignatures(pss: .byToken, pkcs1: true))
        let input = IdentityKeys.handshake()
        let first = try signature(try await worker.signTLS(key.identifier, input))
        let second = try signature(try await worker.signTLS(key.identifier, input))
        #expect(first != second)
        for signature in [first, second] {
            #expect(signature.count == 256)
            #expect(try isValid(signature, input, key, .PSS))
            #expect(try await opensslAccepts(signature, input, key))
        }
    }

    @Test(
        "pads in the worker on an HSM token without PSS, and openssl accepts the signature",
        arguments: TokenKind.installed)
    func paddedByWorker(_ kind: TokenKind) async throws {
        let hsmToken = try ScriptedToken(try await kind.fresh(), Refused.pssHashing, Refused.pss)
        let (worker, description, key) = try await serving(hsmToken)
        #expect(description.tlsSignatures == TLSSignatures(pss: .byWorker, pkcs1: true))
        #expect(description.shortcomings.isEmpty)
        var signatures: Set<[UInt8]> = []
        for _ in 0..<8 {
            let input = IdentityKeys.handshake()
            let signature = try signature(try await worker.signTLS(key.identifier, input))
            #expect(try isValid(signature, input, key, .PSS))
            #expect(try await opensslAccepts(signature, input, key))
            signatures.insert(signature)
        }
        #expect(signatures.count == 8)
    }

    @Test("hashes in the worker for an HSM token that pads but does not hash")
    func hashedHere() async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory(), Refused.pssHashing, Refused.pkcs1Hashing)
        let (worker, description, key) = try await serving(hsmToken)
        #expect(description.tlsSignatures == TLSSignatures(pss: .byToken, pkcs1: true))
        let input = IdentityKeys.handshake()
        #expect(try isValid(try signature(try await worker.signTLS(key.identifier, input)), input, key, .PSS))
        // The worker signs a certificate request with the same method.
        #expect(try await worker.generate(.rsa, for: Self.merchant).use == .processing)
    }

    @Test("offers only PKCS #1 on an HSM token with neither PSS nor bare RSA, and names what is lacking")
    func withoutPSS() async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory(), Refused.pssHashing, Refused.pss, Refused.bare)
        let (worker, description, key) = try await serving(hsmToken)
        #expect(description.tlsSignatures == TLSSignatures(pss: .none, pkcs1: true))
        #expect(description.tlsSignatures.algorithms == [.pkcs1SHA256])
        #expect(description.tierRSAv1 == .c)
        let sentence = try #require(description.shortcomings.first)
        for name in ["rsa_pss_rsae_sha256", "CKM_SHA256_RSA_PKCS_PSS", "CKM_RSA_X_509", "CKR_MECHANISM_INVALID"] {
            #expect(sentence.contains(name), "\(sentence)")
        }
        #expect(try await worker.signTLS(key.identifier).failureKind == .notSupported)
        let input = IdentityKeys.handshake12()
        let signed = try await worker.signTLS(key.identifier, input, .pkcs1SHA256)
        #expect(try isValid(try signature(signed), input, key, .insecurePKCS1v1_5))
    }

    @Test("never returns a wrong signature that the HSM token makes")
    func wrongSignatures() async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory())
        let (worker, _, key) = try await serving(hsmToken)
        try hsmToken.play("false-signatures")
        let answer = try await worker.signTLS(key.identifier)
        #expect(answer.failureKind == .hsmTokenUnavailable)
        #expect(answer.failureMessage.contains("does not verify"), "\(answer)")
        // A worker that opens this HSM token detects the fault in its self-test.
        let later = try WorkerUnderTest(hsmToken)
        let description = try await later.open(hsmToken)
        #expect(description.tlsSignatures == TLSSignatures(pss: .none, pkcs1: false))
        #expect(description.shortcomings.contains { $0.contains("a signature that does not verify") })
    }

    @Test("succeeds after one failed signature")
    func onceWrong() async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory())
        let (worker, _, key) = try await serving(hsmToken)
        for fault in ["0x5", "0x6", "0x30", "0x82", "0x101", "0xB3", "0x60", "0x90"] {
            try hsmToken.play("fault C_Sign nth=1 return=\(fault)")
            let input = IdentityKeys.handshake()
            let signed = try await worker.signTLS(key.identifier, input)
            #expect(try isValid(try signature(signed), input, key, .PSS), "\(fault)")
        }
        for fault in ["return=0x31", "return=0xB1", "logout", "close-sessions"] {
            try hsmToken.play("fault C_SignInit nth=1 \(fault)")
            let input = IdentityKeys.handshake()
            let signed = try await worker.signTLS(key.identifier, input)
            #expect(try isValid(try signature(signed), input, key, .PSS), "\(fault)")
        }
    }

    @Test("fails with hsmTokenUnavailable if the HSM token stops signing, and with overloaded if it stays busy")
    func dead() async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory())
        let worker = try WorkerUnderTest(hsmToken)
        let description = try await worker.open(hsmToken, sessions: 1) { $0.callTimeout = 1_000 }
        try await worker.mustImportIdentity(IdentityKeys.merchant, description)
        let key = try #require(try await worker.keys().first)
        try hsmToken.play("fault C_Sign always return=0x30")
        let failed = try await worker.signTLS(key.identifier)
        #expect(failed.failureKind == .hsmTokenUnavailable)
        #expect(failed.failureMessage.contains("CKR_DEVICE_ERROR"), "\(failed)")
        try hsmToken.play("fault C_SignInit always return=0x31")
        #expect(try await worker.signTLS(key.identifier).failureKind == .overloaded)
        try hsmToken.play()
        #expect(try await worker.signTLS(key.identifier).failureKind == nil)
    }

    @Test("continues if signatures fail with one key but succeed with another")
    func oneKey() async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory())
        let (worker, _, key) = try await serving(hsmToken)
        // The same error comes three times in succession. Between these attempts, the worker closes the session,
        // because the failed call left a signature unfinished in it. The worker then signs with a test key, which
        // succeeds.
        try hsmToken.play((1...4).map { "fault C_Sign nth=\($0) return=0x6" })
        let answer = try await worker.signTLS(key.identifier)
        #expect(answer.failureKind == .overloaded)
        #expect(answer.failureMessage.contains("signs with others"), "\(answer)")
        #expect(try await worker.signTLS(key.identifier).failureKind == nil)
    }

    @Test("refuses to sign anything except a client's handshake with Apple")
    func otherBytes() async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory())
        let (worker, _, key) = try await serving(hsmToken)
        let handshake = IdentityKeys.handshake()
        let before = hsmToken.calls().count
        let wrong: [(String, [UInt8], TLSSignatureAlgorithm)] = [
            ("nothing", [], .pssSHA256), ("text", Array("sign this".utf8), .pssSHA256),
            ("a digest", Array(repeating: 7, count: 32), .pkcs1SHA256),
            ("TLS 1.3 takes no PKCS #1", handshake, .pkcs1SHA256),
            (
                "a server's handshake",
                [UInt8](repeating: 0x20, count: 64) + Array("TLS 1.3, server CertificateVerify".utf8)
                    + [0] + [UInt8](repeating: 1, count: 32), .pssSHA256
            ),
            ("a space less", Array(handshake.dropFirst()), .pssSHA256), ("a byte more", handshake + [0], .pssSHA256),
            ("a byte less", Array(handshake.dropLast()), .pssSHA256),
            ("another host", IdentityKeys.handshake12(serverName: "shop.example"), .pssSHA256),
            (
                "a host that begins like Apple's",
                IdentityKeys.handshake12(serverName: "apple-pay-gateway.apple.com.x"), .pssSHA256
            ),
            ("an algorithm that the server does not take", IdentityKeys.handshake12(schemes: [8, 4]), .pkcs1SHA256),
            ("half a handshake", Array(IdentityKeys.handshake12().dropLast(6)), .pssSHA256),
            ("more than a handshake", IdentityKeys.handshake12() + [14, 0, 0, 0], .pssSHA256),
            ("a checkpoint", Array(#"{"node":"a"}"#.utf8), .pssSHA256),
        ]
        for (name, bytes, algorithm) in wrong {
            let answer = try await worker.signTLS(key.identifier, bytes, algorithm)
            #expect(answer.failureKind == .importRefused, "\(name): \(answer)")
        }
        #expect(hsmToken.calls().count == before)
        // The worker also refuses to sign a handshake as a certificate request.
        let request = RequestSigning(publicKeyHash: key.identifier, information: handshake)
        #expect(try await worker.call(.signRequest(request)).failureKind == .importRefused)
    }
}

import Crypto
import Encodings
import Foundation
import KeySealing
import KeyTypes
import SecretMemory
import TestSupport
import Testing
import TokenForge
import WorkerProtocol

@testable import HSMWorker

/// The key of Apple's App Store Connect API in an HSM token: imported without a certificate, and for signatures only.
@Suite struct ServiceKeyTests {
    private static let keyId = "2X9R4HXF34"

    @Test(
        "imports a service key without a certificate, and lists it with its use even after a restart",
        arguments: TokenKind.installed)
    func imported(_ kind: TokenKind) async throws {
        let hsmToken = try await kind.fresh()
        let worker = try WorkerUnderTest(hsmToken)
        let description = try await worker.open(hsmToken)
        let key = P256.Signing.PrivateKey()
        // The repetition finds the key in the HSM token, and changes nothing.
        for _ in 0..<2 { #expect(try await worker.importServiceKey(key, description) == .done) }
        let identifier = Array(SHA256.hash(data: key.publicKey.derRepresentation))
        for worker in [worker, try await .serving(hsmToken)] {
            let listed = try await worker.keys()
            #expect(listed.count == 1)
            let found = try #require(listed.first)
            #expect(found.identifier == identifier && found.label == Self.keyId)
            #expect(found.use == .service && found.algorithm == .ec && found.isProtected)
            #expect(found.inconsistency == nil && found.certificates.isEmpty)
        }
    }

    @Test("refuses a service key that is RSA, has a certificate, or is sealed with another public key")
    func refused() async throws {
        let hsmToken = try await TokenDirectory()
        let worker = try WorkerUnderTest(hsmToken)
        let description = try await worker.open(hsmToken)
        let merchant = try SharedForge.ecMerchant
        let (rsa, key, other) = (
            try SharedForge.rsaMerchant.key, P256.Signing.PrivateKey(), P256.Signing.PrivateKey()
        )
        let answers = [
            (
                try await worker.importServiceKey(
                    pkcs8: rsa.pkcs8, publicKey: rsa.subjectPublicKeyInfo, description), "ES256"
            ),
            (
                try await worker.importKey(
                    pkcs8: merchant.key.pkcs8, certificate: merchant.certificate, description, use: .service),
                "without a certificate"
            ),
            (
                try await worker.importServiceKey(
                    pkcs8: Array(key.derRepresentation), publicKey: Array(other.publicKey.derRepresentation),
                    description), "does not belong"
            ),
        ]
        for (answer, part) in answers {
            #expect(answer.failureKind == .importRefused)
            #expect(answer.failureMessage.contains(part), "\(answer)")
        }
        let generation = KeyGeneration(merchantIdentifier: Self.keyId, algorithm: .ec, use: .service)
        #expect(try await worker.call(.generateKey(generation)).failureKind == .importRefused)
        #expect(try await worker.keys().isEmpty)
    }

    @Test("decrypts nothing and signs no certificate request with a service key")
    func neverDecrypts() async throws {
        let hsmToken = try await TokenDirectory()
        let worker = try WorkerUnderTest(hsmToken)
        let description = try await worker.open(hsmToken)
        let key = P256.Signing.PrivateKey()
        #expect(try await worker.importServiceKey(key, description) == .done)
        let publicKey = Array(key.publicKey.derRepresentation)
        let identifier = Array(SHA256.hash(data: publicKey))
        let decryption = Decryption(
            publicKeyHash: identifier, scheme: .ecV1,
            keyMaterial: Array(P256.KeyAgreement.PrivateKey().publicKey.x963Representation), otherInfo: [1],
            ciphertext: [UInt8](repeating: 0, count: 32))
        let decrypted = try await worker.call(.decrypt(decryption))
        #expect(decrypted.failureKind == .keyNotFound && decrypted.failureMessage.contains("service key"))
        // A well-formed CertificationRequestInfo of this key, which every other key would sign.
        let information: [UInt8] =
            [0x30, UInt8(publicKey.count + 7), 0x02, 0x01, 0x00, 0x30, 0x00] + publicKey + [0xA0, 0x00]
        let signed = try await worker.call(
            .signRequest(RequestSigning(publicKeyHash: identifier, information: information)))
        #expect(signed.failureKind == .importRefused && signed.failureMessage.contains("service key"), "\(signed)")
    }
}

extension WorkerUnderTest {
    func importServiceKey(
        _ key: P256.Signing.PrivateKey, _ hsmToken: HSMTokenDescription
    ) async throws -> WorkerAnswer {
        try await importServiceKey(
            pkcs8: Array(key.derRepresentation), publicKey: Array(key.publicKey.derRepresentation), hsmToken)
    }

    func importServiceKey(
        pkcs8: [UInt8], publicKey: [UInt8], _ hsmToken: HSMTokenDescription
    ) async throws -> WorkerAnswer {
        let sealed = try KeySealing.seal(
            privateKey: SecretBytes(copying: pkcs8), authenticating: publicKey, to: hsmToken.importKey)
        return try await call(
            .importPrivateKey(
                PrivateKeyImport(
                    merchantIdentifier: "2X9R4HXF34", use: .service, publicKey: publicKey,
                    encapsulatedKey: sealed.encapsulatedKey, sealedPrivateKey: sealed.sealed)))
    }
}

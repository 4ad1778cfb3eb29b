import Crypto
import CryptoExtras
import Foundation
import PKCS11
import TestSupport
import Testing

/// RSA signature mechanisms of SoftHSM and NSS.
@Suite("RSA signatures in an HSM token")
struct SigningTests {
    private static let message = Array("what is signed".utf8)
    private static let digest = Array(SHA256.hash(data: message))

    private func everywhere(_ body: (inout Session) throws -> Void) throws {
        var session = try SoftHSM.shared().freshToken().openSession()
        try body(&session)
        if NSSSoftoken.isInstalled { try NSSSoftoken.alone(body) }
    }

    private func makePair(
        _ session: inout Session
    ) throws -> (key: ObjectHandle, publicObject: ObjectHandle, publicKey: _RSA.Signing.PublicKey) {
        let pair = try session.generateKeyPair(
            .rsaKeyPairGeneration,
            publicKey: [
                .token(false), .private(false), .modulusBits(2048), .publicExponent([1, 0, 1]), .verify(true),
            ],
            privateKey: [
                .token(false), .private(true), .sensitive(true), .extractable(false), .sign(true), .signRecover(false),
                .decrypt(false), .unwrap(false),
            ])
        let parts = try session.attributes([.modulus, .publicExponent], of: pair.publicKey)
        let publicKey = try _RSA.Signing.PublicKey(
            n: #require(parts.bytes(.modulus)), e: #require(parts.bytes(.publicExponent)))
        return (pair.privateKey, pair.publicKey, publicKey)
    }

    @Test(
        "makes RSASSA-PSS signatures with SHA-256, MGF1-SHA256 and a salt of 32 bytes from a message and from its hash"
    )
    func pss() throws {
        try everywhere { session in
            let (key, publicObject, publicKey) = try makePair(&session)
            for (mechanism, data) in [(Mechanism.rsaPSSHashingSHA256, Self.message), (.rsaPSSSHA256, Self.digest)] {
                var signatures: Set<[UInt8]> = []
                for _ in 0..<2 {
                    let signature = try session.sign(data, mechanism, key: key)
                    #expect(
                        publicKey.isValidSignature(
                            _RSA.Signing.RSASignature(rawRepresentation: signature), for: Data(Self.message),
                            padding: .PSS))
                    signatures.insert(signature)
                }
                #expect(signatures.count == 2, "the salt is the same twice")
            }
            for object in [key, publicObject] { try session.destroyObject(object) }
        }
    }

    @Test("makes the same PKCS #1 signature from a DigestInfo as from the message")
    func pkcs1() throws {
        // The DigestInfo prefix for SHA-256 comes from RFC 8017 §9.2, note 1.
        let digestInfo = try #require([UInt8](hexadecimal: "3031300d060960864801650304020105000420")) + Self.digest
        try everywhere { session in
            let (key, publicObject, publicKey) = try makePair(&session)
            let signature = try session.sign(Self.message, .rsaPKCS1SHA256, key: key)
            #expect(try session.sign(digestInfo, .rsaPKCS1, key: key) == signature)
            #expect(
                publicKey.isValidSignature(
                    _RSA.Signing.RSASignature(rawRepresentation: signature), for: Data(Self.message),
                    padding: .insecurePKCS1v1_5))
            for object in [key, publicObject] { try session.destroyObject(object) }
        }
    }
}

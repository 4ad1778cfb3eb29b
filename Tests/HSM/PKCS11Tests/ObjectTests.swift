import Crypto
import PKCS11
import SecretMemory
import TestSupport
import Testing

@Suite("Objects and operations in an HSM token")
struct ObjectTests {
    private static let identifier = [UInt8](repeating: 0x42, count: 32)

    /// Makes an EC key pair in the HSM token. Both keys have the same CKA_ID.
    private func makePair(_ session: inout Session) throws -> (publicKey: ObjectHandle, privateKey: ObjectHandle) {
        try session.generateKeyPair(
            .ecKeyPairGeneration,
            publicKey: [
                .ecParameters(EllipticCurve.p256Parameters), .token(true), .private(false), .verify(true),
                .identifier(Self.identifier), .label("merchant.com.example"),
            ],
            privateKey: [
                .token(true), .private(true), .sensitive(true), .extractable(false), .sign(true), .derive(true),
                .identifier(Self.identifier), .label("merchant.com.example"),
            ])
    }

    private func point(of key: ObjectHandle, _ session: inout Session) throws -> [UInt8] {
        let value = try session.attributes([.ecPoint], of: key).bytes(.ecPoint)
        return try #require(value.flatMap(EllipticCurve.p256Point(inAttributeValue:)))
    }

    @Test("finds objects that have all the requested attributes, and no others")
    func find() throws {
        var session = try SoftHSM.shared().freshToken().openSession()
        let pair = try makePair(&session)
        let privateKeys = try session.findObjects(
            matching: [.objectClass(.privateKey), .identifier(Self.identifier)])
        let everything = try session.findObjects(matching: [])
        let other = try session.findObjects(matching: [.identifier([1])])
        #expect(privateKeys == [pair.privateKey])
        #expect(Set(everything) == [pair.publicKey, pair.privateKey])
        #expect(other.isEmpty)
    }

    @Test("finds more objects than one batch, and fails beyond the limit without damage to the session")
    func findMany() throws {
        var session = try SoftHSM.shared().freshToken().openSession()
        for index in 0..<300 {
            _ = try session.createObject([
                .objectClass(.data), .token(false), .private(false), .label("object \(index)"), .value([1, 2, 3]),
            ])
        }
        let found = try session.findObjects(matching: [.objectClass(.data)])
        #expect(Set(found).count == 300)
        do {
            _ = try session.findObjects(matching: [.objectClass(.data)], limit: 299)
            Issue.record("the limit was passed over")
        } catch {
            #expect(error.call == "C_FindObjects")
        }
        let again = try session.findObjects(matching: [.objectClass(.data)])
        #expect(again.count == 300)
    }

    @Test("reads attributes as flags, numbers, text and bytes, and omits absent and sensitive ones")
    func attributes() throws {
        var session = try SoftHSM.shared().freshToken().openSession()
        let pair = try makePair(&session)
        let values = try session.attributes(
            [.objectClass, .keyType, .label, .identifier, .sensitive, .extractable, .value, .modulus, .ecParameters],
            of: pair.privateKey)
        #expect(values.objectClass == .privateKey)
        #expect(values.keyType == .ec)
        #expect(values.text(.label) == "merchant.com.example")
        #expect(values.bytes(.identifier) == Self.identifier)
        #expect(values.flag(.sensitive) == true)
        #expect(values.flag(.extractable) == false)
        #expect(values.bytes(.value) == nil, "a private key's value left the token")
        #expect(values.bytes(.modulus) == nil)
        #expect(values.bytes(.ecParameters) == EllipticCurve.p256Parameters)
        #expect(values.number(.label) == nil, "a text is no number")
    }

    @Test("fails to read a private key's value as a secret")
    func sensitiveValue() throws {
        var session = try SoftHSM.shared().freshToken().openSession()
        let pair = try makePair(&session)
        do {
            _ = try session.secretValue(of: pair.privateKey, count: 32)
            Issue.record("read")
        } catch {
            #expect(error == CallError(call: "C_GetAttributeValue", cause: .returned(.attributeSensitive)))
        }
    }

    @Test("returns the new value of a changed attribute, and does not find a destroyed object")
    func changeAndDestroy() throws {
        var session = try SoftHSM.shared().freshToken().openSession()
        let pair = try makePair(&session)
        try session.setAttributes([.label("renamed")], of: pair.publicKey)
        let label = try session.attributes([.label], of: pair.publicKey).text(.label)
        #expect(label == "renamed")
        try session.destroyObject(pair.publicKey)
        let left = try session.findObjects(matching: [])
        #expect(left == [pair.privateKey])
    }

    @Test("copies a private key to a session object that works, stays protected and ends with the session")
    func copy() throws {
        let token = try SoftHSM.shared().freshToken()
        var session = try token.openSession()
        var anchor = try token.openSession()
        let pair = try makePair(&session)
        let copy = try session.copyObject(pair.privateKey, [.token(false)])
        let values = try session.attributes([.sensitive, .extractable, .token], of: copy)
        #expect(values.flag(.sensitive) == true)
        #expect(values.flag(.extractable) == false)
        #expect(values.flag(.token) == false)
        let digest = SHA256.hash(data: [1, 2, 3])
        let signature = try session.sign(Array(digest), .ecdsa, key: copy)
        let key = try P256.Signing.PublicKey(x963Representation: point(of: pair.publicKey, &anchor))
        #expect(key.isValidSignature(try .init(rawRepresentation: signature), for: digest))
        _ = consume session
        let left = try anchor.findObjects(matching: [.objectClass(.privateKey)])
        #expect(left == [pair.privateKey])
    }

    @Test("makes an ECDSA signature in the HSM token that another implementation verifies")
    func sign() throws {
        var session = try SoftHSM.shared().freshToken().openSession()
        let pair = try makePair(&session)
        let message = Array("a certificate request".utf8)
        let digest = SHA256.hash(data: message)
        var signature = try session.sign(Array(digest), .ecdsa, key: pair.privateKey)
        let key = try P256.Signing.PublicKey(x963Representation: point(of: pair.publicKey, &session))
        #expect(key.isValidSignature(try .init(rawRepresentation: signature), for: digest))
        signature[5] ^= 1
        #expect(!key.isValidSignature(try .init(rawRepresentation: signature), for: digest))
    }

    @Test("derives the same ECDH secret as the other side, and leaves no objects in the HSM token")
    func derive() throws {
        var session = try SoftHSM.shared().freshToken().openSession()
        let pair = try makePair(&session)
        let peer = P256.KeyAgreement.PrivateKey()
        let before = try session.findObjects(matching: []).count
        let secret = try session.deriveSecret(
            .ecdh1Derive(.null, publicPoint: Array(peer.publicKey.x963Representation)), from: pair.privateKey,
            .extractableSecret(32), count: 32)
        let key = try P256.KeyAgreement.PublicKey(x963Representation: point(of: pair.publicKey, &session))
        let expected = unsafe try peer.sharedSecretFromKeyAgreement(with: key).withUnsafeBytes { unsafe Array($0) }
        let agreed = secret.holds(expected)
        #expect(agreed)
        let after = try session.findObjects(matching: []).count
        #expect(after == before)
    }

    @Test("refuses a secret of an unexpected size, and destroys it in the HSM token")
    func deriveWrongSize() throws {
        var session = try SoftHSM.shared().freshToken().openSession()
        let pair = try makePair(&session)
        let peer = P256.KeyAgreement.PrivateKey()
        let before = try session.findObjects(matching: []).count
        do {
            _ = try session.deriveSecret(
                .ecdh1Derive(.null, publicPoint: Array(peer.publicKey.x963Representation)), from: pair.privateKey,
                .extractableSecret(32), count: 48)
            Issue.record("taken")
        } catch {
            #expect(error.call == "C_GetAttributeValue")
        }
        let after = try session.findObjects(matching: []).count
        #expect(after == before)
    }

    @Test("fails with the standard error name for a mechanism that the HSM token lacks")
    func unsupported() throws {
        var session = try SoftHSM.shared().freshToken().openSession()
        let pair = try makePair(&session)
        let peer = P256.KeyAgreement.PrivateKey()
        #expect(throws: CallError.self) {
            _ = try session.deriveKey(
                .ecdh1Derive(.oneStepSHA256, sharedData: [1], publicPoint: Array(peer.publicKey.x963Representation)),
                from: pair.privateKey, .extractableSecret(32))
        }
    }
}

extension Template {
    /// Attributes of a readable secret as a session object, which tier C derives.
    static func extractableSecret(_ count: Int) -> Template {
        [
            .objectClass(.secretKey), .keyType(.genericSecret), .valueLength(count), .token(false), .private(true),
            .sensitive(false), .extractable(true),
        ]
    }
}

extension SecretBytes {
    func holds(_ expected: [UInt8]) -> Bool {
        unsafe withUnsafeBytes { unsafe Array($0) == expected }
    }
}

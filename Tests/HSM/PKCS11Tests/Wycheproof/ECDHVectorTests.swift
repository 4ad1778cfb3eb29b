import Foundation
import KeyRestoration
import PKCS11
import PaymentToken
import SecretMemory
import TestSupport
import Testing

/// Wycheproof's ECDH cases for P-256. The test checks the point as in a payment token, imports the private key, and
/// derives the secret in the HSM token.
@Suite("ECDH vectors through the HSM token")
struct ECDHVectorTests {
    private struct File: Decodable {
        struct Group: Decodable { let tests: [Case] }
        struct Case: Decodable {
            let tcId: Int
            let `public`, `private`, shared, result: String
            let flags: [String]
        }
        let testGroups: [Group]
    }

    private func cases(_ name: String) throws -> [File.Case] {
        try JSONDecoder().decode(File.self, from: PublishedVectors.wycheproof(name)).testGroups.flatMap(\.tests)
    }

    @Test("derives the expected 32 bytes for each valid point, and refuses all other points")
    func points() throws {
        var session = try SoftHSM.shared().freshToken().openSession()
        var agreed = 0
        var refused = 0
        var leadingZeros = 0
        for test in try cases("ecdh_secp256r1_ecpoint_test.json") {
            let point = try #require([UInt8](hexadecimal: test.public))
            let secret = try session.sharedSecret(point, #require([UInt8](hexadecimal: test.private)))
            // Wycheproof's only "acceptable" point is compressed. Apple does not send compressed points.
            if test.result == "valid" {
                #expect(secret == [UInt8](hexadecimal: test.shared), "case \(test.tcId)")
                agreed += 1
                if test.shared.hasPrefix("00") { leadingZeros += 1 }
            } else {
                #expect(secret == nil, "case \(test.tcId): \(test.flags)")
                refused += 1
            }
        }
        #expect(agreed == 330)
        #expect(refused == 25)
        #expect(leadingZeros == 22)
    }

    @Test("derives the expected 32 bytes for each key with a named curve in DER, and refuses other encodings")
    func encodedKeys() throws {
        var session = try SoftHSM.shared().freshToken().openSession()
        var agreed = 0
        var refused = 0
        for test in try cases("ecdh_secp256r1_test.json") {
            let encoded = try #require([UInt8](hexadecimal: test.public))
            // Wycheproof's "acceptable" cases have explicit curves, BER or a compressed point, which payment tokens
            // never contain.
            let key = EphemeralPublicKey(subjectPublicKeyInfo: encoded)
            let privateKey = try #require([UInt8](hexadecimal: test.private))
            let secret = try key.flatMap { try session.sharedSecret($0.point, privateKey) }
            if test.result == "valid" {
                #expect(secret == [UInt8](hexadecimal: test.shared), "case \(test.tcId)")
                agreed += 1
            } else {
                #expect(secret == nil, "case \(test.tcId): \(test.flags)")
                refused += 1
            }
        }
        #expect(agreed == 330)
        #expect(refused == 282)
    }

    @Test("refuses points off the curve in the HSM token too, and continues to work")
    func offTheCurve() throws {
        var session = try SoftHSM.shared().freshToken().openSession()
        let tests = try cases("ecdh_secp256r1_ecpoint_test.json").filter { $0.flags == ["InvalidCurveAttack"] }
        #expect(tests.count == 16)
        for test in tests {
            let key = try session.importP256Key(#require([UInt8](hexadecimal: test.private)))
            let point = try #require([UInt8](hexadecimal: test.public))
            #expect(throws: CallError.self, "case \(test.tcId)") {
                _ = try session.deriveSecret(
                    .ecdh1Derive(.null, publicPoint: point), from: key, .extractableSecret(32), count: 32)
            }
            try session.destroyObject(key)
        }
        let known = try cases("ecdh_secp256r1_ecpoint_test.json")[0]
        let secret = try session.sharedSecret(
            #require([UInt8](hexadecimal: known.public)), #require([UInt8](hexadecimal: known.private)))
        #expect(secret == [UInt8](hexadecimal: known.shared))
    }
}

extension Session {
    /// Imports a private key on P-256 for the duration of the session.
    mutating func importP256Key(_ value: [UInt8]) throws -> ObjectHandle {
        // The vectors contain the number in DER's variable length; PKCS#11 needs 32 bytes.
        let scalar = [UInt8](repeating: 0, count: max(0, 32 - value.count)) + value.suffix(32)
        var secrets = SecretAttributes(capacity: 32)
        secrets.append(.value, SecretBytes(copying: scalar))
        return try createObject(
            [
                .objectClass(.privateKey), .keyType(.ec), .ecParameters(EllipticCurve.p256Parameters), .token(false),
                .private(true), .sensitive(true), .extractable(false), .derive(true),
            ], secrets: secrets)
    }

    /// Returns the shared secret Z, or nil if the worker's check refuses the point.
    mutating func sharedSecret(_ point: [UInt8], _ privateKey: [UInt8]) throws -> [UInt8]? {
        guard let point = try? P256Point(uncompressed: point) else { return nil }
        let key = try importP256Key(privateKey)
        let secret = try deriveSecret(
            .ecdh1Derive(.null, publicPoint: point.bytes), from: key, .extractableSecret(32), count: 32)
        try destroyObject(key)
        return unsafe secret.withUnsafeBytes { unsafe Array($0) }
    }
}

import Crypto
import Encodings
import SwiftASN1
import TestSupport
import Testing
import TokenForge

@Suite("SubjectPublicKeyInfo and a certificate's fields")
struct PublicKeyTests {
    @Test("Writes a P-256 key as the same DER as swift-crypto")
    func p256() throws {
        for _ in 0..<8 {
            let key = P256.Signing.PrivateKey().publicKey
            let point = Array(key.x963Representation)
            let info = try SubjectPublicKeyInfo(.ec(point: point))
            #expect(info.der == Array(key.derRepresentation))
            #expect(try SubjectPublicKeyInfo(der: info.der) == info)
            #expect(SubjectPublicKeyInfo.p256Point(in: info.der) == point)
            #expect(info.publicKeyHash == Array(SHA256.hash(data: info.der)))
        }
    }

    @Test("Reads an RSA key from DER, and writes the same DER")
    func rsa() throws {
        let der = try SharedForge.rsaMerchant.key.subjectPublicKeyInfo
        let info = try SubjectPublicKeyInfo(der: der)
        guard case .rsa(let modulus, let publicExponent) = info.key else {
            Issue.record("not read as RSA")
            return
        }
        #expect(modulus.count == 256)
        #expect(publicExponent == [1, 0, 1])
        #expect(try SubjectPublicKeyInfo(info.key).der == der)
        #expect(SubjectPublicKeyInfo.p256Point(in: der) == nil)
    }

    @Test("Refuses a point off the curve, a compressed point, and an RSA key that does not have 2,048 bits")
    func unsuitable() throws {
        var point = Array(P256.Signing.PrivateKey().publicKey.x963Representation)
        point[64] ^= 1
        #expect(throws: UnsuitableKey.self) { try SubjectPublicKeyInfo(.ec(point: point)) }
        #expect(throws: UnsuitableKey.self) {
            try SubjectPublicKeyInfo(der: SubjectPublicKeyInfo.p256Prefix + point)
        }
        #expect(throws: UnsuitableKey.self) {
            try SubjectPublicKeyInfo(.ec(point: Array(P256.Signing.PrivateKey().publicKey.compressedRepresentation)))
        }
        for size in [128, 255, 257, 0] {
            #expect(throws: UnsuitableKey.self) {
                try SubjectPublicKeyInfo(
                    .rsa(modulus: [UInt8](repeating: 0xC1, count: size), publicExponent: [1, 0, 1]))
            }
        }
    }

    @Test("Refuses a key that is truncated anywhere, has trailing bytes, or has another tag")
    func damaged() throws {
        for der in [
            try SharedForge.ecMerchant.key.subjectPublicKeyInfo, try SharedForge.rsaMerchant.key.subjectPublicKeyInfo,
        ] {
            for count in der.indices {
                #expect(throws: UnsuitableKey.self) { try SubjectPublicKeyInfo(der: Array(der[..<count])) }
            }
            #expect(throws: UnsuitableKey.self) { try SubjectPublicKeyInfo(der: der + [0]) }
            #expect(throws: UnsuitableKey.self) { try SubjectPublicKeyInfo(der: [0x31] + der.dropFirst()) }
        }
    }

    @Test("Splits a certificate into the bytes of its fields")
    func fields() throws {
        for merchant in [try SharedForge.ecMerchant, try SharedForge.rsaMerchant] {
            let der = merchant.certificate
            let fields = try CertificateFields(der: der)
            #expect(fields.der == der)
            #expect(Array(fields.subjectPublicKeyInfo) == merchant.key.subjectPublicKeyInfo)
            #expect(fields.serialNumber.first == 0x02)
            #expect(Array(fields.serialNumber.dropFirst(2)) == Array(fields.serialNumberContent))
            #expect(fields.issuer.first == 0x30)
            #expect(fields.issuer != fields.subject)
            for count in der.indices {
                #expect(throws: CertificateFields.Malformed.self) { try CertificateFields(der: Array(der[..<count])) }
            }
            #expect(throws: CertificateFields.Malformed.self) { try CertificateFields(der: der + [0]) }
        }
    }

    @Test("Permits a certificate without a version, and requires each other field up to the key")
    func fieldPositions() throws {
        let serialNumber: [UInt8] = [0x02, 0x01, 0x05]
        // The other fields are empty SEQUENCEs, because their content is not read.
        let others = [[UInt8]](repeating: [0x30, 0x00], count: 5)
        func sequence(_ content: [UInt8]) -> [UInt8] { [0x30, UInt8(content.count)] + content }
        func certificate(_ fields: [[UInt8]]) -> [UInt8] { sequence(sequence(fields.flatMap(\.self))) }
        for version in [[], [[0xA0, 0x03, 0x02, 0x01, 0x02]]] as [[[UInt8]]] {
            let whole = certificate(version + [serialNumber] + others)
            #expect(try Array(CertificateFields(der: whole).serialNumber) == serialNumber)
            for count in 0..<5 {
                let short = certificate(version + [serialNumber] + others.prefix(count))
                #expect(throws: CertificateFields.Malformed.self) { try CertificateFields(der: short) }
            }
            let unnumbered = certificate(version + [[0x04, 0x01, 0x05]] + others)
            #expect(throws: CertificateFields.Malformed.self) { try CertificateFields(der: unnumbered) }
        }
    }
}

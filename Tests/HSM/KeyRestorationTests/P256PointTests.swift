import Crypto
import KeyRestoration
import TestSupport
import Testing

@Suite("A point on P-256")
struct P256PointTests {
    private let valid = Array(P256.KeyAgreement.PrivateKey().publicKey.x963Representation)

    private func isTaken(_ bytes: [UInt8]) -> Bool {
        (try? P256Point(uncompressed: bytes)) != nil
    }

    @Test("accepts the uncompressed form of a point on the curve")
    func taken() throws {
        #expect(try P256Point(uncompressed: valid).bytes == valid)
    }

    @Test("refuses compressed and hybrid forms of the same point")
    func otherForms() {
        let parity = valid[64] & 1
        #expect(!isTaken([2 + parity] + valid[1...32]))
        #expect(!isTaken([6 + parity] + valid.dropFirst()))
    }

    @Test("refuses the point at infinity in every encoding")
    func infinity() {
        #expect(!isTaken([0]))
        #expect(!isTaken([UInt8](repeating: 0, count: 65)))
        #expect(!isTaken([4] + [UInt8](repeating: 0, count: 64)))
    }

    @Test("refuses an encoding with a missing byte, an extra byte or no bytes")
    func sizes() {
        #expect(!isTaken(Array(valid.dropLast())))
        #expect(!isTaken(valid + [0]))
        #expect(!isTaken([0x04, 0x41] + valid), "in a DER OCTET STRING")
        #expect(!isTaken([]))
    }

    @Test("refuses a point off the curve after a change of any bit")
    func offTheCurve() {
        for index in 1..<65 {
            var changed = valid
            changed[index] ^= 1
            #expect(!isTaken(changed), "byte \(index)")
        }
    }

    @Test("refuses a coordinate that is not reduced modulo the prime")
    func notReduced() throws {
        // The curve has a point with x = 5 (SP 800-186 §3.2.1.3: y² = x³ − 3x + b). The coordinate p + 5 denotes the
        // same point, but is not reduced.
        let reduced = try #require([UInt8](hexadecimal: String(repeating: "00", count: 31) + "05"))
        let compressed = [2] + reduced
        let point = Array(try P256.KeyAgreement.PublicKey(compressedRepresentation: compressed).x963Representation)
        #expect(isTaken(point))
        let unreduced = try #require(
            [UInt8](hexadecimal: "ffffffff00000001000000000000000000000001000000000000000000000004"))
        #expect(!isTaken([4] + unreduced + point[33...]))
    }
}

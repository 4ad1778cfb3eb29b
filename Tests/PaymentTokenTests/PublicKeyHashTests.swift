import Encodings
import PaymentToken
import Testing

@Suite("publicKeyHash and OtherInfo")
struct PublicKeyHashTests {
    @Test("A publicKeyHash is the SHA-256 of the bytes it is of")
    func publicKeyHash() throws {
        // FIPS 180-2, appendix B.1: the digest of "abc".
        let hash = PublicKeyHash.of(subjectPublicKeyInfo: Array("abc".utf8))
        #expect(hash.hex == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
        #expect(PublicKeyHash(hex: hash.hex.uppercased()) == hash)
        #expect(PublicKeyHash(base64: hash.base64) == hash)
        #expect(hash.base64.count == 44)
        #expect(PublicKeyHash(base64: String(hash.base64.dropLast())) == hash)
        #expect(PublicKeyHash(bytes: hash.bytes.dropLast()) == nil)
        #expect(PublicKeyHash(hex: hash.hex + "00") == nil)
    }

    @Test("OtherInfo is the algorithm identifier with its length, Apple, and the merchant identifier's hash")
    func otherInfo() {
        let info = OtherInfo.ecV1(merchantIdentifier: "abc")
        #expect(
            Hexadecimal.encode(info) == "0d69642d6165733235362d47434d4170706c65"
                + "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
    }
}

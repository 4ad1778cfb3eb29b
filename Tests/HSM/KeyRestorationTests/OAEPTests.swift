import Crypto
import KeyRestoration
import SecretMemory
import Testing

/// OAEP decoding of blocks that the test encodes according to RFC 8017 §7.1.1. PKCS11Tests cover whole decryptions.
@Suite("OAEP decoding")
struct OAEPTests {
    private let message = Array(0..<16) as [UInt8]
    private let seed = (0..<32).map { UInt8($0 &* 7 &+ 1) }

    /// Returns MGF1 with SHA-256 (RFC 8017 appendix B.2.1).
    private func mask(_ seed: [UInt8], _ count: Int) -> [UInt8] {
        (0..<UInt8((count + 31) / 32)).flatMap { Array(SHA256.hash(data: seed + [0, 0, 0, $0])) }.prefix(count).map(
            \.self)
    }

    private func encode(
        _ size: Int = 256, first: UInt8 = 0, label: [UInt8] = [], separator: UInt8 = 1, padding: UInt8 = 0,
        message: [UInt8]
    ) -> [UInt8] {
        let dataCount = size - 33
        let hash = Array(SHA256.hash(data: label))
        let paddingCount = dataCount - 32 - 1 - message.count
        let data = hash + [UInt8](repeating: padding, count: paddingCount) + [separator] + message
        let maskedData = zip(data, mask(seed, dataCount)).map { $0 ^ $1 }
        let maskedSeed = zip(seed, mask(maskedData, 32)).map { $0 ^ $1 }
        return [first] + maskedSeed + maskedData
    }

    private func decode(_ block: [UInt8], modulusByteCount: Int = 256) -> [UInt8]? {
        guard
            let message = try? OAEP.decodeSHA256(
                block: SecretBytes(copying: block), modulusByteCount: modulusByteCount)
        else { return nil }
        return unsafe message.withUnsafeBytes { unsafe Array($0) }
    }

    @Test("returns a message of any length that fits", arguments: [0, 1, 16, 32, 189, 190])
    func lengths(count: Int) {
        let message = (0..<count).map { UInt8(truncatingIfNeeded: $0) }
        #expect(decode(encode(message: message)) == message)
    }

    @Test("refuses a first byte that is not zero")
    func firstByte() {
        for first: UInt8 in [1, 0x80, 0xFF] { #expect(decode(encode(first: first, message: message)) == nil) }
    }

    @Test("refuses a label that is not empty")
    func label() {
        #expect(decode(encode(label: [0], message: message)) == nil)
    }

    @Test("refuses padding that is not zeros followed by one 01")
    func padding() {
        #expect(decode(encode(separator: 0, message: [UInt8](repeating: 0, count: 16))) == nil)
        #expect(decode(encode(separator: 2, message: message)) == nil)
        #expect(decode(encode(padding: 0xFF, message: message)) == nil)
    }

    @Test("refuses any single changed bit in the first byte or the masked seed")
    func changedBytes() {
        let block = encode(message: message)
        for index in 0..<33 {
            var changed = block
            changed[index] ^= 0x10
            #expect(decode(changed) == nil, "byte \(index)")
        }
    }

    @Test("refuses a block whose size differs from the modulus")
    func size() {
        let block = encode(message: message)
        #expect(decode(Array(block.dropFirst())) == nil, "without its leading zero")
        #expect(decode([0] + block) == nil)
        #expect(decode([]) == nil)
        #expect(decode([], modulusByteCount: 0) == nil)
        #expect(decode([UInt8](repeating: 0, count: 65), modulusByteCount: 65) == nil, "no room for an encoding")
        let larger = encode(384, message: message)
        #expect(decode(larger, modulusByteCount: 384) == message)
        #expect(decode(larger, modulusByteCount: 256) == nil, "a whole encoding, but another key's")
        #expect(decode(larger, modulusByteCount: 385) == nil)
    }
}

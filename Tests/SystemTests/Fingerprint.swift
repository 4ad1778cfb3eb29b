import Crypto

/// SHA-256 in lower-case hexadecimal, as fingerprints are written.
enum Fingerprint {
    static func hex(_ bytes: [UInt8]) -> String {
        SHA256.hash(data: bytes).map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }
}

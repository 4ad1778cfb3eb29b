import Crypto
import Foundation

/// Unencrypted PKCS#12 bundles (RFC 7292 §4) in forms that openssl does not make.
enum Bundle {
    /// An AuthenticatedSafe with one SafeContents of plain keyBags and certBags.
    static func authenticatedSafe(keys: [[UInt8]], certificates: [[UInt8]]) -> [UInt8] {
        let keyBags = keys.map { sequence(identifier(keyBag), element(0xA0, $0)) }
        let certificateBags = certificates.map {
            sequence(
                identifier(certBag),
                element(0xA0, sequence(identifier(x509Certificate), element(0xA0, element(0x04, $0)))))
        }
        return sequence(data(sequence(keyBags.flatMap { $0 }, certificateBags.flatMap { $0 })))
    }

    /// Returns a PFX; `mac` and `salt` become its MacData, which it otherwise lacks.
    static func pfx(_ safe: [UInt8], mac: [UInt8]? = nil, salt: [UInt8] = []) -> [UInt8] {
        let macData =
            mac.map {
                sequence(
                    sequence(sequence(identifier(sha1), [0x05, 0x00]), element(0x04, $0)), element(0x04, salt))
            } ?? []
        return sequence([0x02, 0x01, 0x03], data(safe), macData)
    }

    /// HMAC-SHA-1 with a key derived in one iteration (RFC 7292 appendix B.2, ID 3): SHA-1(D ‖ S ‖ P), where each part
    /// is repeated to fill 64 bytes.
    static func mac(of safe: [UInt8], bmpPassword: [UInt8], salt: [UInt8]) -> [UInt8] {
        func filled(_ bytes: [UInt8]) -> [UInt8] {
            bytes.isEmpty ? [] : (0..<64).map { bytes[$0 % bytes.count] }
        }
        let key = Insecure.SHA1.hash(data: [UInt8](repeating: 3, count: 64) + filled(salt) + filled(bmpPassword))
        return Array(HMAC<Insecure.SHA1>.authenticationCode(for: safe, using: SymmetricKey(data: Data(key))))
    }

    private static let keyBag: [UInt8] = [0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x0C, 0x0A, 0x01, 0x01]
    private static let certBag: [UInt8] = [0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x0C, 0x0A, 0x01, 0x03]
    private static let x509Certificate: [UInt8] = [0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x09, 0x16, 0x01]
    private static let pkcs7Data: [UInt8] = [0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x07, 0x01]
    private static let sha1: [UInt8] = [0x2B, 0x0E, 0x03, 0x02, 0x1A]

    private static func data(_ content: [UInt8]) -> [UInt8] {
        sequence(identifier(pkcs7Data), element(0xA0, element(0x04, content)))
    }

    private static func identifier(_ content: [UInt8]) -> [UInt8] { element(0x06, content) }

    private static func sequence(_ parts: [UInt8]...) -> [UInt8] { element(0x30, parts.flatMap { $0 }) }

    private static func element(_ tag: UInt8, _ content: [UInt8]) -> [UInt8] {
        let count = content.count
        let length: [UInt8] =
            count < 0x80
            ? [UInt8(count)] : count < 0x100 ? [0x81, UInt8(count)] : [0x82, UInt8(count >> 8), UInt8(count & 0xFF)]
        return [tag] + length + content
    }
}

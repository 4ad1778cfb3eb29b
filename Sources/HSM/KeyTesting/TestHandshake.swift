internal import CryptoExtras
public import Encodings
internal import FoundationEssentials
public import TLSHandshake

/// Made-up handshakes with one of Apple's hosts, as a TLS client signs them.
public enum TestHandshake {
    /// A TLS 1.3 client's CertificateVerify content (RFC 8446 §4.4.3), with 32 random bytes as the transcript hash.
    public static func tls13() -> [UInt8] {
        [UInt8](repeating: UInt8(ascii: " "), count: 64) + Array("TLS 1.3, client CertificateVerify".utf8) + [0]
            + (0..<32).map { _ in .random(in: .min ... .max) }
    }

    /// All messages of a TLS 1.2 handshake up to the client's CertificateVerify (RFC 5246 §7.4.8), with both signature
    /// algorithms in the server's request.
    public static func tls12(certificate: [UInt8]) -> [UInt8] {
        let host = Array("apple-pay-gateway.apple.com".utf8)
        // ServerNameList (RFC 6066 §3).
        let serverName = [0, 0] + vector(2, vector(2, [0] + vector(2, host)))
        let random = (0..<32).map { _ in UInt8.random(in: .min ... .max) }
        let messages: [(type: UInt8, body: [UInt8])] = [
            (1, [3, 3] + random + [0] + vector(2, [0xC0, 0x2F]) + [1, 0] + vector(2, serverName)),
            (2, [3, 3] + random + [0, 0xC0, 0x2F, 0]),
            (11, vector(3, vector(3, certificate))),
            (12, [3, 0, 23] + vector(1, [4] + random + random)),
            (13, vector(1, [1]) + vector(2, [0x08, 0x04, 0x04, 0x01]) + vector(2, [])),
            (14, []),
            (11, vector(3, vector(3, certificate))),
            (16, vector(1, [4] + random + random)),
        ]
        return messages.flatMap { [$0.type] + vector(3, $0.body) }
    }

    /// A vector with a length field of so many bytes (RFC 5246 §4.3).
    private static func vector(_ lengthBytes: Int, _ content: [UInt8]) -> [UInt8] {
        (0..<lengthBytes).reversed().map { UInt8(truncatingIfNeeded: content.count >> (8 * $0)) } + content
    }
}

extension SubjectPublicKeyInfo {
    /// Returns true if this key is an RSA key and the signature verifies under it.
    public func isValid(_ signature: [UInt8], of message: [UInt8], _ algorithm: TLSSignatureAlgorithm) -> Bool {
        guard case .rsa(let modulus, _) = key, signature.count == modulus.count,
            let key = try? _RSA.Signing.PublicKey(derRepresentation: der)
        else { return false }
        return key.isValidSignature(
            _RSA.Signing.RSASignature(rawRepresentation: signature), for: Data(message),
            padding: algorithm == .pssSHA256 ? .PSS : .insecurePKCS1v1_5)
    }
}

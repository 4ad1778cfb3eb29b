// The input that the private key of a TLS client's certificate signs, parsed strictly. A caller that may ask for such
// a signature can have nothing else signed: no certificate request, no audit checkpoint, no server's handshake.
//
// Callers: the worker, for each input before its key signs; the daemon, before it asks a worker; the gateway, which
// asks for the signatures of its own handshakes. Guarantees: time and memory linear in at most 32 KiB, every length
// exact, no byte without a meaning. Start at `ClientCertificateVerifyInput(parsing:)` here, then
// TLS12Transcript.swift.

/// The input that a TLS client signs to prove that it holds its certificate's key.
public enum ClientCertificateVerifyInput: Sendable, Equatable {
    /// The content that a TLS 1.3 client's CertificateVerify signs (RFC 8446 §4.4.3): 64 spaces, a context string, a
    /// zero byte, and this transcript hash of 32 (SHA-256) or 48 (SHA-384) bytes. The server's name is not in it.
    case tls13(transcriptHash: [UInt8])
    /// All handshake messages that a TLS 1.2 client's CertificateVerify signs (RFC 5246 §7.4.8).
    case tls12(TLS12Transcript)

    /// The largest number of bytes that is parsed. Handshakes with Apple's hosts have about 5,000; four certificates
    /// with long lists of authorities have fewer than 16,000.
    public static let maximumBytes = 32 << 10

    public init(parsing bytes: [UInt8]) throws(TLSInputError) {
        guard bytes.count <= Self.maximumBytes else { throw .tooLong }
        switch bytes.first {
        case Self.space:
            self = .tls13(transcriptHash: try Self.transcriptHash(in: bytes))
        case HandshakeMessage.clientHello.rawValue:
            self = .tls12(try TLS12Transcript(parsing: bytes))
        default: throw .notHandshake
        }
    }

    /// Returns true if a signature by this algorithm belongs to this input. In TLS 1.3 that is PSS alone (RFC 8446
    /// §4.2.3); in TLS 1.2 the server's CertificateRequest lists the algorithms (RFC 5246 §7.4.8).
    public func permits(_ algorithm: TLSSignatureAlgorithm) -> Bool {
        switch self {
        case .tls13: algorithm == .pssSHA256
        case .tls12(let transcript): transcript.signatureSchemes.contains(algorithm.codePoint)
        }
    }

    /// The 98 bytes before the transcript hash. A server's differ in the context string.
    private static let prefix =
        [UInt8](repeating: space, count: 64) + Array("TLS 1.3, client CertificateVerify".utf8) + [0]
    private static let space = UInt8(ascii: " ")

    private static func transcriptHash(in bytes: [UInt8]) throws(TLSInputError) -> [UInt8] {
        let hash = bytes.dropFirst(prefix.count)
        guard bytes.starts(with: prefix), hash.count == 32 || hash.count == 48 else { throw .notClientContent }
        return Array(hash)
    }
}

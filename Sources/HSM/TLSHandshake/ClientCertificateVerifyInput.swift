// A strict parser for the input that the private key of a TLS client's certificate signs. A caller that may request
// such a signature cannot obtain one over anything else: no certificate request, audit checkpoint or server's
// handshake.
//
// Three programs use it. The worker parses each input before its key signs. The daemon parses the input before it asks
// a worker. The gateway requests the signatures for its handshakes. Parsing takes time and memory linear in the input,
// which has at most 32 KiB. Every length must be exact, and every byte must have a meaning. Start at
// `ClientCertificateVerifyInput(parsing:)` in this file, then read TLS12Transcript.swift.

/// The input that a TLS client signs to prove that it holds its certificate's key.
public enum ClientCertificateVerifyInput: Sendable, Equatable {
    /// The content that a TLS 1.3 client's CertificateVerify signs (RFC 8446 §4.4.3): 64 spaces, a context string, a
    /// zero byte, and a transcript hash. The hash has 32 bytes (SHA-256) or 48 (SHA-384). The content does not include
    /// the server's name.
    case tls13(transcriptHash: [UInt8])
    /// All handshake messages that a TLS 1.2 client's CertificateVerify signs (RFC 5246 §7.4.8).
    case tls12(TLS12Transcript)

    /// The largest accepted input, in bytes. A handshake with one of Apple's hosts has about 5,000; one with four
    /// certificates and long lists of authorities has fewer than 16,000.
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

    /// Returns true if this input may be signed with the algorithm. TLS 1.3 permits only PSS (RFC 8446 §4.2.3). In TLS
    /// 1.2 the server's CertificateRequest lists the permitted algorithms (RFC 5246 §7.4.8).
    public func permits(_ algorithm: TLSSignatureAlgorithm) -> Bool {
        switch self {
        case .tls13: algorithm == .pssSHA256
        case .tls12(let transcript): transcript.signatureSchemes.contains(algorithm.codePoint)
        }
    }

    /// The 98 bytes before the transcript hash. A server's input has another context string.
    private static let prefix =
        [UInt8](repeating: space, count: 64) + Array("TLS 1.3, client CertificateVerify".utf8) + [0]
    private static let space = UInt8(ascii: " ")

    private static func transcriptHash(in bytes: [UInt8]) throws(TLSInputError) -> [UInt8] {
        let hash = bytes.dropFirst(prefix.count)
        guard bytes.starts(with: prefix), hash.count == 32 || hash.count == 48 else { throw .notClientContent }
        return Array(hash)
    }
}

/// The reason why bytes are not an input that a TLS client's certificate key may sign. No case contains any of the
/// bytes.
public enum TLSInputError: Error, Sendable, Equatable {
    /// The input is longer than ``ClientCertificateVerifyInput/maximumBytes``.
    case tooLong
    /// The input begins neither like the content of a TLS 1.3 CertificateVerify nor with a ClientHello.
    case notHandshake
    /// The input begins like the content of a TLS 1.3 CertificateVerify, but its fixed part is not a client's or its
    /// hash has neither 32 nor 48 bytes.
    case notClientContent
    /// A message, or a vector in it, does not have its stated length, or a field has a value that the RFC does not
    /// allow.
    case malformed(HandshakeMessage)
    /// Another message was expected in this position. `found` is the message's type, or nil if the input ends too
    /// early.
    case outOfOrder(expected: HandshakeMessage, found: UInt8?)
    /// Bytes follow the ClientKeyExchange.
    case trailingBytes
    /// The server chose a version other than TLS 1.2.
    case otherVersion
    /// The ClientHello or ServerHello continues an earlier connection, so this is a renegotiation (RFC 5746 §3.5).
    case renegotiation
    /// The ClientHello names no server (RFC 6066 §3).
    case noServerName
    /// The ClientHello names several servers, or its name is not a lower-case DNS name.
    case unsuitableServerName
    /// The client's Certificate message is empty. Such a client sends no signature (RFC 5246 §7.4.8).
    case noClientCertificate
    /// The ClientHello names a server that is not one of Apple's hosts for merchant sessions.
    case otherHost
}

extension TLSInputError: CustomStringConvertible {
    public var description: String {
        switch self {
        case .tooLong: "more than \(ClientCertificateVerifyInput.maximumBytes) bytes"
        case .notHandshake: "neither TLS 1.3's content of a CertificateVerify nor a TLS 1.2 handshake"
        case .notClientContent: "not the content of a TLS 1.3 client's CertificateVerify over a hash of 32 or 48 bytes"
        case .malformed(let message): "the \(message) is malformed"
        case .outOfOrder(let expected, nil): "the handshake ends where a \(expected) is expected"
        case .outOfOrder(let expected, let found?):
            "a message of type \(found) was found where a \(expected) is expected"
        case .trailingBytes: "something follows the ClientKeyExchange"
        case .otherVersion: "the server did not choose TLS 1.2"
        case .renegotiation: "the handshake is a renegotiation"
        case .noServerName: "the ClientHello names no server"
        case .unsuitableServerName: "the ClientHello does not name exactly one server by a DNS name in lower case"
        case .noClientCertificate: "the client's Certificate message holds no certificate"
        case .otherHost: "the named server is not one of Apple's hosts for merchant sessions"
        }
    }
}

/// The messages of a TLS 1.2 handshake up to the ClientKeyExchange, by their `HandshakeType` (RFC 5246 §7.4; RFC 6066
/// §8).
public enum HandshakeMessage: UInt8, Sendable, CustomStringConvertible {
    case clientHello = 1
    case serverHello = 2
    case certificate = 11
    case serverKeyExchange = 12
    case certificateRequest = 13
    case serverHelloDone = 14
    case clientKeyExchange = 16
    case certificateStatus = 22

    /// The message's name as the RFCs spell it.
    public var description: String {
        switch self {
        case .clientHello: "ClientHello"
        case .serverHello: "ServerHello"
        case .certificate: "Certificate"
        case .serverKeyExchange: "ServerKeyExchange"
        case .certificateRequest: "CertificateRequest"
        case .serverHelloDone: "ServerHelloDone"
        case .clientKeyExchange: "ClientKeyExchange"
        case .certificateStatus: "CertificateStatus"
        }
    }
}

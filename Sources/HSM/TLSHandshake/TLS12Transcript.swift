import Encodings

/// The part of a TLS 1.2 handshake with client authentication that the client's CertificateVerify signs: "all
/// handshake messages sent or received, starting at client hello and up to, but not including, this message" (RFC 5246
/// §7.4.8).
///
///     ClientHello
///                     ServerHello
///                     Certificate            always: an anonymous server cannot ask for a certificate (§7.4.4)
///                     CertificateStatus      a stapled OCSP answer (RFC 6066 §8)
///                     ServerKeyExchange      all key exchanges but RSA's
///                     CertificateRequest
///                     ServerHelloDone
///     Certificate
///     ClientKeyExchange
///
/// A HelloRequest is in no transcript (§7.4.1.1), a NewSessionTicket comes later (RFC 5077 §3.3), and with any other
/// message the bytes are not this handshake.
public struct TLS12Transcript: Sendable, Equatable {
    /// The one host name of the ClientHello's `server_name` (RFC 6066 §3), a DNS name in lower case.
    public let serverName: String
    /// The `supported_signature_algorithms` of the CertificateRequest (RFC 5246 §7.4.4) in the server's order, with
    /// IANA's numbers of the schemes: for TLS 1.2's own pairs the upper byte is the hash.
    public let signatureSchemes: [UInt16]
    /// The client's own certificate, the first of its Certificate message: one element in DER.
    public let clientCertificate: [UInt8]

    init(parsing bytes: [UInt8]) throws(TLSInputError) {
        var messages = MessageReader(bytes)
        serverName = try ClientHello.serverName(in: messages.next(.clientHello))
        try ServerHello.check(messages.next(.serverHello))
        guard try Self.certificates(in: messages.next(.certificate)) != nil else {
            throw .malformed(.certificate)
        }
        if messages.nextType == .certificateStatus { try Self.checkStatus(messages.next(.certificateStatus)) }
        if messages.nextType == .serverKeyExchange {
            // Parameters and a signature by the server, which depend on the key exchange.
            var fields = try messages.next(.serverKeyExchange)
            _ = try fields.number(bytes: 1)
        }
        signatureSchemes = try Self.signatureSchemes(in: messages.next(.certificateRequest))
        try messages.next(.serverHelloDone).end()
        guard let own = try Self.certificates(in: messages.next(.certificate)) else {
            throw .noClientCertificate
        }
        clientCertificate = own
        try Self.checkKeyExchange(messages.next(.clientKeyExchange))
        guard messages.isAtEnd else { throw .trailingBytes }
    }

    /// The one of Apple's hosts that the ClientHello names.
    ///
    /// - Throws: ``TLSInputError/otherHost``.
    @discardableResult
    public func requireAppleHost() throws(TLSInputError) -> ApplePayGatewayHost {
        guard let host = ApplePayGatewayHost(rawValue: serverName) else { throw .otherHost }
        return host
    }

    /// The first certificate of a Certificate message (§7.4.2), nil when it holds none.
    private static func certificates(in message: HandshakeFields) throws(TLSInputError) -> [UInt8]? {
        var message = message
        var list = try message.fields(lengthBytes: 3, 0...ClientCertificateVerifyInput.maximumBytes)
        try message.end()
        var first: [UInt8]?
        while !list.isAtEnd {
            let certificate = try list.vector(lengthBytes: 3, 1...ClientCertificateVerifyInput.maximumBytes)
            if first == nil { first = Array(certificate) }
        }
        guard let first else { return nil }
        var reader = BERReader(first, .distinguished)
        guard (try? reader.next(BERElement.sequence)) != nil, reader.isAtEnd else { throw message.malformed }
        return first
    }

    /// CertificateStatus (RFC 6066 §8): one OCSP answer.
    private static func checkStatus(_ message: HandshakeFields) throws(TLSInputError) {
        var message = message
        guard try message.number(bytes: 1) == 1 else { throw message.malformed }
        _ = try message.vector(lengthBytes: 3, 1...ClientCertificateVerifyInput.maximumBytes)
        try message.end()
    }

    /// CertificateRequest (§7.4.4).
    private static func signatureSchemes(in message: HandshakeFields) throws(TLSInputError) -> [UInt16] {
        var message = message
        _ = try message.vector(lengthBytes: 1, 1...255)
        let schemes = try message.numbers16()
        var authorities = try message.fields(lengthBytes: 2, 0...0xFFFF)
        while !authorities.isAtEnd { _ = try authorities.vector(lengthBytes: 2, 1...0xFFFF) }
        try message.end()
        return schemes
    }

    /// ClientKeyExchange (§7.4.7): one vector, of a one-byte length for a curve's point (RFC 8422 §5.7), else of two.
    private static func checkKeyExchange(_ message: HandshakeFields) throws(TLSInputError) {
        for (lengthBytes, longest) in [(1, 255), (2, 0xFFFF)] {
            var fields = message
            if (try? fields.vector(lengthBytes: lengthBytes, 1...longest)) != nil, fields.isAtEnd { return }
        }
        throw message.malformed
    }
}

/// Reads one handshake message after the other: type, a length of three bytes, body (§7.4).
private struct MessageReader {
    private var rest: ArraySlice<UInt8>

    init(_ bytes: [UInt8]) { rest = bytes[...] }

    var isAtEnd: Bool { rest.isEmpty }
    var nextType: HandshakeMessage? { rest.first.flatMap(HandshakeMessage.init(rawValue:)) }

    mutating func next(_ expected: HandshakeMessage) throws(TLSInputError) -> HandshakeFields {
        guard rest.first == expected.rawValue else { throw .outOfOrder(expected: expected, found: rest.first) }
        var fields = HandshakeFields(rest.dropFirst(), of: expected)
        let body = try fields.vector(lengthBytes: 3, 0...ClientCertificateVerifyInput.maximumBytes)
        rest = rest.dropFirst(4 + body.count)
        return HandshakeFields(body, of: expected)
    }
}

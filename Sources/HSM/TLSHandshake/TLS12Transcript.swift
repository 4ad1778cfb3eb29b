import Encodings

/// The part of a TLS 1.2 handshake with client authentication that the client's CertificateVerify signs: "all
/// handshake messages sent or received, starting at client hello and up to, but not including, this message" (RFC 5246
/// §7.4.8).
///
///     ClientHello
///                     ServerHello
///                     Certificate            always: an anonymous server cannot ask for a certificate (§7.4.4)
///                     CertificateStatus      optional: a stapled OCSP response (RFC 6066 §8)
///                     ServerKeyExchange      absent in an RSA key exchange
///                     CertificateRequest
///                     ServerHelloDone
///     Certificate
///     ClientKeyExchange
///
/// A transcript never contains a HelloRequest (§7.4.1.1), and a NewSessionTicket comes later (RFC 5077 §3.3). Any other
/// message is an error.
public struct TLS12Transcript: Sendable, Equatable {
    /// The only host name in the ClientHello's `server_name` extension (RFC 6066 §3), a DNS name in lower case.
    public let serverName: String
    /// The CertificateRequest's `supported_signature_algorithms` (RFC 5246 §7.4.4), in the server's order. Each is
    /// IANA's number of a signature scheme. TLS 1.2 itself defines such a number as two bytes: the hash, then the
    /// signature algorithm.
    public let signatureSchemes: [UInt16]
    /// The client's certificate in DER: the first in its Certificate message.
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
            // The form of the server's parameters and signature depends on the key exchange, so only their presence is
            // checked.
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

    /// Returns the Apple host that the ClientHello names.
    ///
    /// - Throws: ``TLSInputError/otherHost`` if the name is not one of Apple's hosts.
    @discardableResult
    public func requireAppleHost() throws(TLSInputError) -> ApplePayGatewayHost {
        guard let host = ApplePayGatewayHost(rawValue: serverName) else { throw .otherHost }
        return host
    }

    /// Returns the first certificate of a Certificate message (§7.4.2), or nil if the message contains none.
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

    /// Checks the form of a CertificateStatus message (RFC 6066 §8): one OCSP response.
    private static func checkStatus(_ message: HandshakeFields) throws(TLSInputError) {
        var message = message
        guard try message.number(bytes: 1) == 1 else { throw message.malformed }
        _ = try message.vector(lengthBytes: 3, 1...ClientCertificateVerifyInput.maximumBytes)
        try message.end()
    }

    /// Returns the signature schemes that a CertificateRequest message lists (RFC 5246 §7.4.4).
    private static func signatureSchemes(in message: HandshakeFields) throws(TLSInputError) -> [UInt16] {
        var message = message
        _ = try message.vector(lengthBytes: 1, 1...255)
        let schemes = try message.numbers16()
        var authorities = try message.fields(lengthBytes: 2, 0...0xFFFF)
        while !authorities.isAtEnd { _ = try authorities.vector(lengthBytes: 2, 1...0xFFFF) }
        try message.end()
        return schemes
    }

    /// Checks the form of a ClientKeyExchange message (RFC 5246 §7.4.7): a single vector, whose length field has one
    /// byte for a point on a curve (RFC 8422 §5.7) and two otherwise.
    private static func checkKeyExchange(_ message: HandshakeFields) throws(TLSInputError) {
        for (lengthBytes, longest) in [(1, 255), (2, 0xFFFF)] {
            var fields = message
            if (try? fields.vector(lengthBytes: lengthBytes, 1...longest)) != nil, fields.isAtEnd { return }
        }
        throw message.malformed
    }
}

/// Reads handshake messages in sequence. Each has a type, a length of three bytes, and a body (RFC 5246 §7.4).
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

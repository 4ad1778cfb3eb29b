import NIOSSL
import X509

/// Checks during the handshake that the server's certificate is for Apple's host. The check happens before the server
/// receives the merchant's certificate and before the HSM token signs.
///
/// NIOSSL also compares the name, but only after the handshake, when the client's certificate and signature have
/// already been sent. This check runs within BoringSSL's verification of the chain, which precedes both in TLS 1.2 and
/// 1.3, and never accepts a certificate that BoringSSL refused.
final class ServerNameCheck {
    private let host: String
    private let handshake: AppleHandshake
    private weak var handler: NIOSSLClientHandler?

    init(_ host: String, _ handshake: AppleHandshake) {
        self.host = host
        self.handshake = handshake
    }

    /// Returns the TLS handler of one connection to the host. The handler belongs to the connection's event loop.
    func tls(_ context: NIOSSLContext) throws -> NIOSSLClientHandler {
        let maker: any VerifyingTLS.Type = CallbackTLS.self
        let handler = try maker.handler(context, host) { [self] result, certificate in
            guard result == .certificateVerified else { return .failed }
            // NIOSSL calls this closure for each certificate of the chain, and for the server's own certificate last.
            guard let own = self.handler?.peerCertificate else { return .failed }
            guard certificate == own else { return .certificateVerified }
            if Self.names(certificate).contains(where: { Self.matches($0, host) }) { return .certificateVerified }
            handshake.recordWrongServerName()
            return .failed
        }
        self.handler = handler
        return handler
    }

    private static func names(_ certificate: NIOSSLCertificate) -> [String] {
        guard let bytes = try? certificate.toDERBytes(), let parsed = try? Certificate(derEncoded: bytes),
            let alternatives = try? parsed.extensions.subjectAlternativeNames
        else { return [] }
        return alternatives.compactMap { if case .dnsName(let name) = $0 { name } else { nil } }
    }

    /// Compares names according to RFC 6125 §6.4. Case is ignored, and `*` as the whole first label matches any label. A
    /// host name of fewer than three labels matches nothing, since a wildcard could name a whole top-level domain.
    static func matches(_ name: String, _ host: String) -> Bool {
        let (labels, wanted) = (parts(name), parts(host))
        guard wanted.count > 2 else { return false }
        return labels.dropFirst() == wanted.dropFirst() && (labels[0] == "*" || labels[0] == wanted[0])
    }

    private static func parts(_ name: String) -> [Substring] {
        name.lowercased().split(separator: ".", omittingEmptySubsequences: false)
    }
}

/// A deprecated initializer of NIOSSL, which ``ServerNameCheck`` needs. NIOSSL deprecated it because its callback is
/// called for each certificate. The initializers that replace it also replace BoringSSL's verification, instead of
/// adding to it. A call through this protocol avoids the deprecation warning.
private protocol VerifyingTLS {
    static func handler(
        _ context: NIOSSLContext, _ host: String, _ verify: @escaping NIOSSLVerificationCallback
    ) throws -> NIOSSLClientHandler
}

private enum CallbackTLS: VerifyingTLS {
    @available(*, deprecated, message: "by NIOSSL")
    static func handler(
        _ context: NIOSSLContext, _ host: String, _ verify: @escaping NIOSSLVerificationCallback
    ) throws -> NIOSSLClientHandler {
        try NIOSSLClientHandler(context: context, serverHostname: host, verificationCallback: verify)
    }
}

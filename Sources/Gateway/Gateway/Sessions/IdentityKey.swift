import NIOCore
import NIOSSL
import Processors
import TLSHandshake

/// A TLS client's private key in paytokend's HSM tokens. The key requests every signature from paytokend, and only for
/// data that it receives from TLS.
///
/// The handshake of each connection needs one signature, and its ``AppleHandshake`` records that the signature was
/// requested. If the signature fails, NIOSSL reports the error of the signature before that of the handshake.
final class IdentityKey: NIOSSLCustomPrivateKey, Hashable {
    private let identity: MerchantIdentity
    private let source: any MerchantIdentitySource

    init(_ identity: MerchantIdentity, source: any MerchantIdentitySource) {
        self.identity = identity
        self.source = source
    }

    var signatureAlgorithms: [SignatureAlgorithm] {
        identity.algorithms.map { SignatureAlgorithm(rawValue: $0.codePoint) }
    }

    func sign(channel: any Channel, algorithm: SignatureAlgorithm, data: ByteBuffer) -> EventLoopFuture<ByteBuffer> {
        let signature = channel.eventLoop.makePromise(of: ByteBuffer.self)
        guard let algorithm = TLSSignatureAlgorithm(codePoint: algorithm.rawValue) else {
            // This cannot happen, because TLS chooses only from `signatureAlgorithms`.
            signature.fail(IdentityFailure.unreadable)
            return signature.futureResult
        }
        let input = Array(data.readableBytesView)
        // TLS calls this method on the connection's event loop. The handshake has the progress of the session that
        // opened the connection; later sessions reuse the connection without a signature.
        let handshake = try? channel.pipeline.syncOperations.handler(type: AppleHandshake.self)
        handshake?.recordIdentityRequest()
        let origin = handshake?.progress.origin ?? SessionOrigin()
        signature.completeWithTask { [source, identity] in
            let bytes = try await source.signature(by: identity.publicKeyHash, algorithm, over: input, for: origin)
            handshake?.progress.reached(.signature)
            return ByteBuffer(bytes: bytes)
        }
        return signature.futureResult
    }

    /// Always fails. Without RSA key exchange, TLS never asks a client's key to decrypt, and paytokend never decrypts
    /// with an identity key.
    func decrypt(channel: any Channel, data: ByteBuffer) -> EventLoopFuture<ByteBuffer> {
        channel.eventLoop.makeFailedFuture(IdentityFailure.unreadable)
    }

    static func == (one: IdentityKey, other: IdentityKey) -> Bool { one === other }

    func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}

/// The TLS settings for connecting to Apple's host with one merchant's identity.
struct IdentityTLS: Sendable {
    let context: NIOSSLContext

    /// Creates the settings for one identity.
    ///
    /// - Throws: `NIOSSLError` if BoringSSL refuses the certificates.
    init(_ identity: MerchantIdentity, source: any MerchantIdentitySource, endpoint: AppleEndpoint) throws {
        var configuration = TLSConfiguration.makeClientConfiguration()
        configuration.certificateVerification = .fullVerification
        configuration.trustRoots = endpoint.trustRoots.map { .certificates($0) } ?? .default
        configuration.restrictAlgorithms()
        configuration.cipherSuites = TLSFiles.cipherSuites
        // TLS 1.3 accepts no PKCS#1 signature (RFC 8446 §4.2.3), so an HSM token without PSS can sign only for TLS 1.2.
        configuration.maximumTLSVersion = identity.algorithms.contains(.pssSHA256) ? .tlsv13 : .tlsv12
        configuration.renegotiationSupport = .none
        // The time is short, because a connection counts against the pool's limits until it is closed.
        configuration.shutdownTimeout = .seconds(1)
        configuration.certificateChain = try identity.certificateChain.map {
            .certificate(try NIOSSLCertificate(bytes: $0, format: .der))
        }
        configuration.privateKey = .privateKey(
            NIOSSLPrivateKey(customPrivateKey: IdentityKey(identity, source: source)))
        context = try NIOSSLContext(configuration: configuration)
    }
}

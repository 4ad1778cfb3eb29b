public import NIOSSL

/// The algorithms of the gateway's TLS connections with its clients, Apple and processors.
public enum TLSAlgorithms {
    /// The algorithms with which the two sides may sign in a handshake, in order of preference. SHA-1 and MD5, which
    /// TLS 1.2 permits, are excluded (RFC 9155 §2, §3).
    public static let signatures: [SignatureAlgorithm] = [
        .ecdsaSecp256R1Sha256, .rsaPssRsaeSha256, .rsaPkcs1Sha256,
        .ecdsaSecp384R1Sha384, .rsaPssRsaeSha384, .rsaPkcs1Sha384,
        .ecdsaSecp521R1Sha512, .rsaPssRsaeSha512, .rsaPkcs1Sha512,
        .ed25519,
    ]
    /// The only protocol that is negotiated with ALPN (RFC 7301).
    public static let applicationProtocols = ["http/1.1"]
}

extension TLSConfiguration {
    /// Restricts the configuration of a client or a server to TLS 1.2 and 1.3 (RFC 9325 §3.1.1) with ``TLSAlgorithms``.
    public mutating func restrictAlgorithms() {
        minimumTLSVersion = .tlsv12
        signingSignatureAlgorithms = TLSAlgorithms.signatures
        verifySignatureAlgorithms = TLSAlgorithms.signatures
        applicationProtocols = TLSAlgorithms.applicationProtocols
    }
}

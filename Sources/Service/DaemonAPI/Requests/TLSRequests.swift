import Encodings
public import Refusals
public import TLSHandshake

/// The body of `POST /v1/tls-signatures`: a TLS handshake to be signed with a merchant's identity key.
public struct TLSSignatureRequest: StrictRequest {
    /// Base64 of the key's 32 bytes, as in `GET /v1/tls-identities`.
    public var publicKeyHash: String
    /// `rsa_pss_rsae_sha256` or `rsa_pkcs1_sha256`.
    public var algorithm: String
    /// Base64 of the bytes to sign, unhashed, at most ``maximumInputBytes``: the content of a TLS 1.3 client CertificateVerify
    /// (RFC 8446 §4.4.3), or a TLS 1.2 handshake from its ClientHello to its ClientKeyExchange (RFC 5246 §7.4.8).
    public var input: String
    /// 1 to 128 printable ASCII characters; recorded as its SHA-256.
    public var reference: String?

    /// Enough for both sides' certificate chains and some extensions: a real handshake has 2 to 8 KiB.
    public static let maximumInputBytes = 32 * 1024

    public init(publicKeyHash: String, algorithm: String, input: String, reference: String? = nil) {
        self.publicKeyHash = publicKeyHash
        self.algorithm = algorithm
        self.input = input
        self.reference = reference
    }

    public init(
        publicKeyHash: String, algorithm: TLSSignatureAlgorithm, input: [UInt8], reference: String? = nil
    ) {
        self.init(
            publicKeyHash: publicKeyHash, algorithm: algorithm.rawValue, input: Base64.encode(input),
            reference: reference)
    }

    public enum CodingKeys: CodingKey, CaseIterable { case publicKeyHash, algorithm, input, reference }

    public func validate() throws(Refusal) { try DecryptRequest.check(reference: reference) }
}

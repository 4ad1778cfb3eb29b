import Encodings
public import Refusals
public import TLSHandshake

/// The body of `POST /v1/tls-signatures`, which signs a TLS handshake with a merchant's identity key.
public struct TLSSignatureRequest: StrictRequest {
    /// Base64 of the key's 32-byte publicKeyHash, as in `GET /v1/tls-identities`.
    public var publicKeyHash: String
    /// `rsa_pss_rsae_sha256` or `rsa_pkcs1_sha256`.
    public var algorithm: String
    /// Base64 of the bytes to sign, unhashed, at most ``maximumInputBytes``. For TLS 1.3: the content that a client's
    /// CertificateVerify covers (RFC 8446 §4.4.3). For TLS 1.2: the handshake messages from ClientHello to
    /// ClientKeyExchange (RFC 5246 §7.4.8).
    public var input: String
    /// The caller's name for the signature: 1 to 128 printable ASCII characters. The record has its SHA-256 only.
    public var reference: String?

    /// The maximum number of bytes to sign. A real handshake has 2 to 8 KiB; this leaves room for both sides' certificate
    /// chains and some extensions.
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

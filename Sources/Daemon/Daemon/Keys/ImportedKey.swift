import AuditChain
import Encodings
import KeyTypes
import MerchantKeys
import PaymentToken
import Refusals

/// The key of an import, after the checks that need neither the ledger nor an HSM token.
struct ImportedKey: Sendable {
    let publicKeyHash: PublicKeyHash
    let algorithm: KeyAlgorithm
    let use: KeyUse
    /// The merchant identifier, or a service key's key id.
    let merchant: String
    /// The merchant's certificate; nil for a service key.
    let certificate: MerchantCertificate?
    /// A service key's SubjectPublicKeyInfo in DER; empty for a key with a certificate.
    let publicKey: [UInt8]

    /// - Parameter merchant: the merchant identifier that
    ///   ``MerchantCertificate/merchantForImport(for:expected:allowExpired:now:)`` returned.
    init(_ certificate: MerchantCertificate, use: KeyUse, merchant: String) {
        publicKeyHash = certificate.publicKeyHash
        algorithm = certificate.algorithm
        self.use = use
        self.merchant = merchant
        self.certificate = certificate
        publicKey = []
    }

    /// - Parameters:
    ///   - publicKey: SubjectPublicKeyInfo in DER.
    ///   - renewal: the configuration that names the key; nil if there is none.
    /// - Throws: `invalid_state` without a configured key id; `malformed_request` unless the key is EC on P-256.
    init(servicePublicKey publicKey: [UInt8], named renewal: RenewalSettings?) throws(Refusal) {
        guard let renewal else {
            throw Refusal(
                .invalidState,
                "The configuration has no section renewal, which names the key; add issuer and key_id, and restart.",
                details: "renewal.key_id")
        }
        guard let parsed = try? SubjectPublicKeyInfo(der: publicKey), case .ec = parsed.key else {
            throw Refusal(
                .malformedRequest, "publicKey is not an EC key on P-256, which Apple's API requires.",
                details: "publicKey")
        }
        publicKeyHash = PublicKeyHash.of(subjectPublicKeyInfo: publicKey)
        algorithm = .ec
        use = .service
        merchant = renewal.keyId
        certificate = nil
        self.publicKey = publicKey
    }

    /// The bytes that identify the key in an approval's digest: its certificate, or its public key without one.
    var approvedBytes: [UInt8] { certificate?.der ?? publicKey }

    func facts(_ origin: KeyFacts.Origin?) -> KeyFacts {
        guard let certificate else { return KeyFacts(algorithm: algorithm, origin: origin) }
        return KeyFacts(certificate, origin: origin)
    }
}

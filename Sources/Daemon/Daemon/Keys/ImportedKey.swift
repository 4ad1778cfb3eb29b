import AuditChain
import DaemonConfiguration
import Encodings
import Foundation
import KeyTypes
import MerchantKeys
import PaymentToken
import Refusals

/// The key of an import or adoption, after the checks that need neither the ledger nor an HSM token.
struct ImportedKey: Sendable {
    let publicKeyHash: PublicKeyHash
    let algorithm: KeyAlgorithm
    let use: KeyUse
    /// The merchant identifier at Apple or Google, or a service key's key id.
    let merchant: String
    /// The merchant's certificate; nil for a use without certificates.
    let certificate: MerchantCertificate?
    /// The SubjectPublicKeyInfo in DER of a key without a certificate; empty for one with a certificate.
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
        try self.init(publicKey: publicKey, use: .service, merchant: renewal.keyId)
    }

    /// - Parameters:
    ///   - publicKey: SubjectPublicKeyInfo in DER.
    ///   - use: a use without certificates.
    ///   - merchant: the merchant's identifier at Google, or a service key's key id.
    /// - Throws: `malformed_request` unless the key is EC on P-256.
    init(publicKey: [UInt8], use: KeyUse, merchant: String) throws(Refusal) {
        guard let parsed = try? SubjectPublicKeyInfo(der: publicKey), case .ec = parsed.key else {
            throw Refusal(
                .malformedRequest, "publicKey is not an EC key on P-256, which a \(use.name) key must be.",
                details: "publicKey")
        }
        publicKeyHash = PublicKeyHash.of(subjectPublicKeyInfo: publicKey)
        algorithm = .ec
        self.use = use
        self.merchant = merchant
        certificate = nil
        self.publicKey = publicKey
    }

    /// The bytes that identify the key in an approval's digest: its certificate, or its public key without one.
    var approvedBytes: [UInt8] { certificate?.der ?? publicKey }

    /// The state in which the ledger first has the key. A person's statement activates a Google Pay key later.
    var firstState: KeyState { use == .googlePay ? .preActivation : .active }

    /// The sentence that the second person reads before an import.
    func approvalReason(into hsmTokens: [String]) -> AuditReason {
        AuditReason(
            "\(use == .googlePay ? "Google Pay " : "")key import for \(namedMerchant) into \(hsmTokens.joined(separator: ", "))"
        )
    }

    /// The sentence that the second person reads before an adoption. The requester's own reason is last, since a long
    /// sentence is cut.
    func adoptionReason(_ reason: AuditReason) -> AuditReason {
        AuditReason("Google Pay key adoption for \(namedMerchant): \(reason.text)")
    }

    /// The merchant as the second person reads it. A run of twelve or more digits, as in some of Google's identifiers, would be
    /// masked like an account number, so a slash follows each ten characters.
    private var namedMerchant: String {
        guard use == .googlePay, AuditReason(merchant).text != merchant else { return merchant }
        let characters = Array(merchant)
        return stride(from: 0, to: characters.count, by: 10)
            .map { String(characters[$0..<min($0 + 10, characters.count)]) }.joined(separator: "/")
    }

    func facts(_ origin: KeyFacts.Origin?) -> KeyFacts {
        guard let certificate else { return KeyFacts(algorithm: algorithm, origin: origin, wallet: use.wallet) }
        return KeyFacts(certificate, origin: origin)
    }
}

extension KeyFacts {
    /// Creates the facts that an audit record states about a key with this certificate.
    init(_ certificate: MerchantCertificate, origin: Origin?) {
        self.init(
            algorithm: certificate.algorithm, origin: origin, certificateEnd: AuditTime(certificate.notAfter),
            issuer: AuditText(certificate.issuer))
    }
}

extension KeyFacts.Origin {
    init(_ origin: KeyRecord.Origin) {
        self =
            switch origin {
            case .imported: .imported
            case .generated: .generated
            case .adopted: .adopted
            }
    }
}

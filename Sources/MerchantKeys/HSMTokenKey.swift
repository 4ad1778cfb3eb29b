import Foundation
import PaymentToken
import WorkerProtocol

/// One key as one HSM token shows it, after everything that the HSM token says of it has been checked.
struct HSMTokenKey: Sendable {
    let publicKeyHash: PublicKeyHash
    let algorithm: KeyAlgorithm
    /// In DER; empty when the token has no public key beside the private one.
    let subjectPublicKeyInfo: [UInt8]
    let certificates: [MerchantCertificate]
    /// Why it is not to be served from this token.
    let disagreement: String?

    /// Nil when the key can be given no hash at all: its identifier is not 32 bytes and it has no public key.
    ///
    /// - Parameter known: certificates of this key that were read before, since reading thousands anew takes seconds.
    init?(_ key: KeyDescription, known: [MerchantCertificate]) {
        let recomputed =
            key.subjectPublicKeyInfo.isEmpty ? nil : PublicKeyHash.of(subjectPublicKeyInfo: key.subjectPublicKeyInfo)
        guard let hash = recomputed ?? PublicKeyHash(bytes: key.identifier) else { return nil }
        publicKeyHash = hash
        algorithm = key.algorithm
        subjectPublicKeyInfo = key.subjectPublicKeyInfo

        var read: [MerchantCertificate] = []
        var problem = key.inconsistency
        if !key.isProtected {
            problem =
                problem
                ?? "The private key is not sensitive (CKA_SENSITIVE) or can be taken out of the token "
                + "(CKA_EXTRACTABLE); make a new one."
        }
        if recomputed == nil {
            problem = problem ?? "The token holds no public key beside the private one, so its hash cannot be checked."
        } else if key.identifier != hash.bytes {
            problem = problem ?? "The private key's CKA_ID is not the SHA-256 of its public key."
        }
        for der in key.certificates {
            if let before = known.first(where: { $0.der == der }) {
                read.append(before)
                continue
            }
            do {
                read.append(try MerchantCertificate(der: der))
            } catch {
                problem = problem ?? "A certificate in the token is out of order: \(error.description)"
            }
        }
        if read.contains(where: { $0.publicKeyHash != hash }) {
            problem = problem ?? "A certificate with this key's CKA_ID is of another public key."
        }
        if let other = read.first(where: { $0.purpose != .paymentProcessing }) {
            problem = problem ?? "The certificate in the token is \(other.purpose.noun)."
        }
        certificates = read.filter { $0.publicKeyHash == hash }
        disagreement = problem
    }

    /// Why this token's key is not the one that the ledger recorded; nil when it is.
    func disagreement(with keyRecord: KeyRecord) -> String? {
        if let disagreement { return disagreement }
        if algorithm != keyRecord.algorithm { return "The key's algorithm is not the one that the ledger recorded." }
        if !certificates.allSatisfy({ $0.names(keyRecord.merchantIdentifier) }) {
            return "The certificate's merchant is not the one that the ledger recorded for this key."
        }
        return nil
    }
}

extension [MerchantCertificate] {
    /// The newest of those valid at `now`; when none is, the one that ended last.
    func newestValid(at now: Date) -> MerchantCertificate? {
        self.filter { $0.isValid(at: now) }.max { $0.notBefore < $1.notBefore }
            ?? self.max { $0.notAfter < $1.notAfter }
    }
}

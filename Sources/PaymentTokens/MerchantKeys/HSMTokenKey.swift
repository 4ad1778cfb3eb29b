import Foundation
import KeyTypes
import PaymentToken
import WorkerProtocol

/// One key as one HSM token shows it, after all its attributes have been checked.
struct HSMTokenKey: Sendable {
    let publicKeyHash: PublicKeyHash
    let algorithm: KeyAlgorithm
    /// The use that the private key's attributes permit.
    let use: KeyUse
    /// The public key in DER; empty if the HSM token has only the private key.
    let subjectPublicKeyInfo: [UInt8]
    let certificates: [MerchantCertificate]
    /// The reason why this HSM token's key is not used; nil if there is none.
    let disagreement: String?

    /// Checks all attributes of one key. Returns nil if the key has no usable hash, because its identifier does not
    /// have 32 bytes and it has no public key.
    ///
    /// - Parameter known: certificates that were parsed for this key before. Without them, each listing of thousands of
    ///   keys would spend seconds on parsing.
    init?(_ key: KeyDescription, known: [MerchantCertificate]) {
        let recomputed =
            key.subjectPublicKeyInfo.isEmpty ? nil : PublicKeyHash.of(subjectPublicKeyInfo: key.subjectPublicKeyInfo)
        guard let hash = recomputed ?? PublicKeyHash(bytes: key.identifier) else { return nil }
        publicKeyHash = hash
        algorithm = key.algorithm
        use = key.use
        subjectPublicKeyInfo = key.subjectPublicKeyInfo

        var read: [MerchantCertificate] = []
        var problem = key.inconsistency
        if !key.isProtected {
            problem =
                problem
                ?? "The private key is not sensitive (CKA_SENSITIVE) or can be taken out of the HSM token "
                + "(CKA_EXTRACTABLE); make a new one."
        }
        if recomputed == nil {
            problem = problem ?? "The HSM token holds no public key for the private one, so its hash cannot be checked."
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
                problem = problem ?? "A certificate in the HSM token is not usable: \(error.description)"
            }
        }
        if read.contains(where: { $0.publicKeyHash != hash }) {
            problem = problem ?? "A certificate with this key's CKA_ID is of another public key."
        }
        if let other = read.first(where: { $0.purpose.use == nil }) {
            problem = problem ?? "The certificate in the HSM token is \(other.purpose.noun)."
        }
        // One certificate of the other kind is a fault even if the key also has one of its own kind, because a key's
        // use never changes.
        if let other = read.first(where: { $0.purpose.use != nil && $0.purpose.use != key.use }) {
            problem = problem ?? Self.otherUse(key.use, certificate: other)
        }
        certificates = read.filter { $0.publicKeyHash == hash }
        disagreement = problem
    }

    private static func otherUse(_ use: KeyUse, certificate: MerchantCertificate) -> String {
        switch use {
        case .processing, .googlePay:
            "The certificate in the HSM token is \(certificate.purpose.noun), and the private key's attributes permit "
                + "decryption: an identity key may only sign. Make a new identity key."
        case .identity:
            "The certificate in the HSM token is \(certificate.purpose.noun), and the private key's attributes permit "
                + "signatures only. Make a new key for processing."
        case .service:
            "The certificate in the HSM token is \(certificate.purpose.noun), and the private key is a service key, which "
                + "has none. Remove the certificate's object."
        }
    }

    /// The difference between this HSM token's key and the ledger's record; nil when they agree.
    func disagreement(with keyRecord: KeyRecord) -> String? {
        if let disagreement { return disagreement }
        if algorithm != keyRecord.algorithm { return "The key's algorithm is not the one that the ledger recorded." }
        // A certificate for a Google Pay key would make the key one of both wallets.
        if keyRecord.use == .googlePay, let certificate = certificates.first {
            return
                "The ledger recorded the key for Google Pay, and the HSM token has \(certificate.purpose.noun) of it. Remove "
                + "the certificate's object."
        }
        if use != keyRecord.use.inHSMToken {
            return
                "The ledger recorded the key for \(keyRecord.use.name), and the private key's attributes in the HSM token are "
                + "those of a key for \(use.name)."
        }
        if !certificates.allSatisfy({ $0.names(keyRecord.merchantIdentifier) }) {
            return "The certificate's merchant is not the one that the ledger recorded for this key."
        }
        return nil
    }
}

extension [MerchantCertificate] {
    /// The newest certificate that is valid at `now`; if none is valid, the one that expired last.
    func newestValid(at now: Date) -> MerchantCertificate? {
        self.filter { $0.isValid(at: now) }.max { $0.notBefore < $1.notBefore }
            ?? self.max { $0.notAfter < $1.notAfter }
    }
}

public import Foundation
public import KeyTypes
public import PaymentToken
public import PortalRequests

/// The reason why the daemon does not change something at Apple. None of these rules has an exception.
public enum PortalWriteRefusal: Error, Sendable, Equatable {
    /// Apple does not list the certificate under the merchant identifier, or lists its id twice.
    case notListed(CertificateId)
    /// Apple lists the certificate with this type, or it is not what its type says.
    case otherType(String)
    /// The certificate is of another key.
    case otherKey
    /// Wallets use the certificate.
    case activated
    /// Apple does not say if wallets use the certificate.
    case activationUnknown
    /// The certificate ended at this time.
    case ended(Date)
    /// Every listed identity certificate is in use, so there is nothing to activate.
    case identityCertificate
    /// The key is recorded for another merchant identifier.
    case keyOfOtherMerchant(String)
    /// The key's use or algorithm is not that of the certificate's type.
    case keyOfOtherType(CertificateType)
    /// The key's state permits no new certificate.
    case keyState(KeyState)

    /// One sentence for a person.
    public var text: String {
        switch self {
        case .notListed(let id):
            "Apple does not list the certificate \(id.text) once under this merchant identifier."
        case .otherType(let type): "Apple lists the certificate as \(type), and it is not the expected certificate."
        case .otherKey: "The certificate is of another key."
        case .activated: "Wallets use the certificate."
        case .activationUnknown: "Apple does not say if wallets use the certificate."
        case .ended(let time): "The certificate ended on \(time.formatted(.iso8601))."
        case .identityCertificate: "Identity certificates are in use as soon as Apple lists them."
        case .keyOfOtherMerchant(let merchant): "The key is recorded for the merchant identifier \(merchant)."
        case .keyOfOtherType(let type): "A certificate of the type \(type.rawValue) is for other keys."
        case .keyState(let state): "The key is \(state.rawValue)."
        }
    }
}

extension PortalList {
    /// Checks that a certificate may be activated: it is listed under this merchant identifier with this key and type, wallets
    /// do not use it, and it has not ended. The list must have been read directly before.
    public func checkActivation(
        of id: CertificateId, _ type: CertificateType, for key: PublicKeyHash, now: Date
    ) throws(PortalWriteRefusal) {
        guard type.use == .processing else { throw .identityCertificate }
        let entry = try unusedEntry(id, type, key)
        guard let end = entry.notAfter, now < end else { throw .ended(entry.notAfter ?? now) }
    }

    /// Checks that a certificate may be revoked: it is listed under this merchant identifier with this key and type, and
    /// wallets do not use it. The list must have been read directly before.
    ///
    /// Apple's request would revoke any certificate of the team, those of its apps included.
    public func checkRevocation(
        of id: CertificateId, _ type: CertificateType, for key: PublicKeyHash
    ) throws(PortalWriteRefusal) { _ = try unusedEntry(id, type, key) }

    /// Returns the entry of a certificate that Apple says wallets do not use.
    private func unusedEntry(
        _ id: CertificateId, _ type: CertificateType, _ key: PublicKeyHash
    ) throws(PortalWriteRefusal) -> Entry {
        let same = entries.filter { $0.identifier == id.text }
        guard appleId != nil, same.count == 1 else { throw .notListed(id) }
        let entry = same[0]
        guard entry.type == type.rawValue, entry.isOfItsType else { throw .otherType(entry.type) }
        guard entry.publicKeyHash == key else { throw .otherKey }
        guard let isActivated = entry.isActivated else { throw .activationUnknown }
        guard !isActivated else { throw .activated }
        return entry
    }
}

extension KeyEntry {
    /// Checks that the key may have a certificate created or activated: it is recorded for the merchant, its use and
    /// algorithm are those of the type, and it is neither suspended, compromised nor at its end.
    ///
    /// - Parameter type: nil for an activation, whose certificate's type ``PortalList`` has.
    public func checkNewCertificate(_ type: CertificateType?, of merchant: String) throws(PortalWriteRefusal) {
        guard MerchantIdentifier.areSame(merchantIdentifier, merchant) else {
            throw .keyOfOtherMerchant(merchantIdentifier)
        }
        if let type {
            guard use == type.use, algorithm == type.algorithm else { throw .keyOfOtherType(type) }
        }
        guard state == .preActivation || state == .active else { throw .keyState(state) }
    }
}

extension CertificateType {
    /// Returns nil for an EC identity key: Apple has no such type.
    public init?(use: KeyUse, algorithm: KeyAlgorithm) {
        guard let type = Self.allCases.first(where: { $0.use == use && $0.algorithm == algorithm }) else { return nil }
        self = type
    }

    /// The use of the certified key.
    public var use: KeyUse {
        switch self {
        case .applePay, .applePayRSA: .processing
        case .merchantIdentity: .identity
        }
    }

    public var algorithm: KeyAlgorithm {
        switch self {
        case .applePay: .ec
        case .applePayRSA, .merchantIdentity: .rsa
        }
    }
}

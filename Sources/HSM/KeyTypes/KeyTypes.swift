/// The algorithm of a merchant key. The raw value is its byte in the worker's frames.
public enum KeyAlgorithm: UInt8, Sendable, Equatable {
    /// Elliptic curve P-256.
    case ec = 1
    /// RSA with 2048 bits.
    case rsa = 2
}

extension KeyAlgorithm {
    /// `EC` or `RSA`, as the API and the ledger write it.
    public var name: String {
        switch self {
        case .ec: "EC"
        case .rsa: "RSA"
        }
    }

    /// The length in bits of the key: of P-256's order, or of the RSA modulus.
    public var bits: Int { self == .ec ? 256 : 2048 }

    public init?(name: String) {
        switch name {
        case "EC": self = .ec
        case "RSA": self = .rsa
        default: return nil
        }
    }
}

/// The purpose of a key, which never changes. An identity key and a service key never decrypt. A processing key signs
/// only the request for its own certificate. The raw value is its byte in the worker's frames.
public enum KeyUse: UInt8, Sendable, Equatable, CaseIterable {
    /// An Apple Pay Payment Processing key, which restores the symmetric keys of payment tokens.
    case processing = 1
    /// An Apple Pay Merchant Identity key, which signs TLS handshakes as a client. RSA only.
    case identity = 2
    /// A team's key for Apple's App Store Connect API, which signs JSON Web Tokens. EC only. Apple makes it, so it can
    /// be imported but not generated, and it has no certificate.
    case service = 3
    /// A Google Pay key, which restores the symmetric keys of Google Pay's messages. EC only. The merchant registers its
    /// public key with Google, so it has no certificate.
    case googlePay = 4
}

extension KeyUse {
    /// True if keys of this use restore the symmetric keys of payment tokens. No other key decrypts.
    public var restores: Bool { self == .processing || self == .googlePay }

    /// True if Apple certifies keys of this use.
    public var hasCertificate: Bool { self == .processing || self == .identity }

    /// The use that a key's attributes in an HSM token show. The keys of both wallets have the same rights there; only
    /// the ledger knows which wallet a key serves.
    public var inHSMToken: KeyUse { self == .googlePay ? .processing : self }
}

/// A wallet whose payment tokens the daemon opens. The raw values are the names in the configuration and the record.
public enum Wallet: String, Sendable, Equatable, CaseIterable {
    case applePay = "apple-pay"
    case googlePay = "google-pay"

    /// The use of the keys that open this wallet's payment tokens. A key serves one wallet for ever.
    public var keyUse: KeyUse {
        switch self {
        case .applePay: .processing
        case .googlePay: .googlePay
        }
    }
}

/// A class of HSM tokens, by the data that leave the HSM token when a payment token is decrypted. In tiers A and B only
/// the payment data leave. In tier C one transaction's symmetric key leaves, for memory that the worker wipes. The
/// merchant's private key never leaves.
public enum ProtectionTier: String, Sendable, Equatable, CaseIterable {
    case a = "A"
    case b = "B"
    case c = "C"
}

/// The algorithms with which an audit key signs audit checkpoints. All hash with SHA-256.
///
/// The raw values are the names in RFC 8446 §4.2.3. They are part of the record's format: an audit checkpoint contains
/// the name of its algorithm, unless that is ``ecdsaP256``.
public enum AuditSignatureAlgorithm: String, Sendable, Equatable, CaseIterable {
    /// ECDSA on P-256; the signature is DER (RFC 3279 §2.2.3).
    case ecdsaP256 = "ecdsa_secp256r1_sha256"
    /// RSASSA-PSS with RSA-2048, MGF1-SHA256 and a salt of 32 bytes (RFC 8017 §8.1).
    case rsaPSS = "rsa_pss_rsae_sha256"
    /// RSASSA-PKCS1-v1_5 with RSA-2048 (RFC 8017 §8.2).
    case rsaPKCS1 = "rsa_pkcs1_sha256"

    /// The algorithm's number as a TLS `SignatureScheme` (RFC 8446 §4.2.3), used in the worker's frames.
    public var codePoint: UInt16 {
        switch self {
        case .ecdsaP256: 0x0403
        case .rsaPSS: 0x0804
        case .rsaPKCS1: 0x0401
        }
    }

    public init?(codePoint: UInt16) {
        guard let known = Self.allCases.first(where: { $0.codePoint == codePoint }) else { return nil }
        self = known
    }

    /// The type of key that signs with this algorithm.
    public var keyAlgorithm: KeyAlgorithm { self == .ecdsaP256 ? .ec : .rsa }
}

/// The algorithm of a merchant key. The raw value is its byte in the worker's frames.
public enum KeyAlgorithm: UInt8, Sendable, Equatable {
    /// Elliptic curve P-256.
    case ec = 1
    /// RSA with 2048 bits.
    case rsa = 2
}

/// The purpose of a merchant key, which never changes. An identity key never decrypts. A processing key signs only the
/// request for its own certificate. The raw value is its byte in the worker's frames.
public enum KeyUse: UInt8, Sendable, Equatable, CaseIterable {
    /// An Apple Pay Payment Processing key, which restores the symmetric keys of payment tokens.
    case processing = 1
    /// An Apple Pay Merchant Identity key, which signs TLS handshakes as a client. RSA only.
    case identity = 2
}

/// A class of HSM tokens, by the data that leave the HSM token when a payment token is decrypted. In tiers A and B only
/// the payment data leave. In tier C one transaction's symmetric key leaves, for memory that the worker wipes. The
/// merchant's private key never leaves.
public enum ProtectionTier: String, Sendable, Equatable, CaseIterable {
    case a = "A"
    case b = "B"
    case c = "C"
}

/// The algorithm of a merchant key. Raw values are the worker's frames' octets.
public enum KeyAlgorithm: UInt8, Sendable, Equatable {
    /// EC on P-256.
    case ec = 1
    /// RSA with 2048 bits.
    case rsa = 2
}

/// The purpose of a merchant key, which never changes: an identity key never decrypts, a processing key signs nothing but
/// the request for its own certificate. Raw values are the worker's frames' octets.
public enum KeyUse: UInt8, Sendable, Equatable, CaseIterable {
    /// Apple Pay Payment Processing: restores payment tokens' symmetric keys.
    case processing = 1
    /// Apple Pay Merchant Identity: signs TLS handshakes as a client. RSA only.
    case identity = 2
}

/// The data that leave an HSM token when it opens a payment token. These are the payment data alone (A, B), or one
/// transaction's symmetric key, for the worker's wiped memory (C). The merchant private key never leaves.
public enum ProtectionTier: String, Sendable, Equatable, CaseIterable {
    case a = "A"
    case b = "B"
    case c = "C"
}

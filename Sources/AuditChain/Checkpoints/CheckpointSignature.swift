internal import Crypto
internal import Foundation

/// An ECDSA signature on P-256, as DER (RFC 3279 §2.2.3).
public struct CheckpointSignature: Sendable, Equatable {
    /// 8 to 72 bytes.
    public let der: [UInt8]

    /// What PKCS#11's C_Sign gives for CKM_ECDSA (PKCS#11 v3.0 §2.3.1): r ‖ s, 32 bytes each. Nil for another size.
    public init?(rawRepresentation: [UInt8]) {
        guard rawRepresentation.count == 64,
            let signature = try? P256.Signing.ECDSASignature(rawRepresentation: rawRepresentation)
        else { return nil }
        der = Array(signature.derRepresentation)
    }

    /// Nil for a size that no signature on P-256 has. Whether it is one shows when it is verified.
    public init?(der: [UInt8]) {
        guard (8...72).contains(der.count) else { return nil }
        self.der = der
    }
}

/// How a token's data is encrypted and signed: the `version` member of Apple's payment token format.
public enum TokenVersion: String, Sendable, Hashable, CaseIterable {
    /// ECDH on P-256, AES-256-GCM, signed with ECDSA.
    case ecV1 = "EC_v1"
    /// RSA-OAEP, AES-128-GCM, signed with RSA.
    case rsaV1 = "RSA_v1"

    /// The version that a token names. `RSA_v2` is read as another name for `RSA_v1`.
    public init?(named name: String) {
        switch name {
        case "EC_v1": self = .ecV1
        case "RSA_v1", "RSA_v2": self = .rsaV1
        default: return nil
        }
    }
}

/// The body of `GET /v1/audit/public-key`: what a verification of the record needs beside an export.
public struct AuditPublicKeyAnswer: Codable, Sendable, Equatable {
    /// A key that has signed checkpoints.
    public struct Key: Codable, Sendable, Equatable {
        /// SHA-256 of the SubjectPublicKeyInfo, 64 lower-case hexadecimal digits; checkpoints name it.
        public var keyId: String
        /// P-256, one PEM block `PUBLIC KEY` (RFC 7468 §13).
        public var publicKey: String

        public init(keyId: String, publicKey: String) {
            self.keyId = keyId
            self.publicKey = publicKey
        }
    }

    /// The newest first. Empty before the token has been seen for the first time.
    public var keys: [Key]
    /// The newest checkpoint that the token remembers, as its line; absent or null when it remembers none.
    public var head: String?

    public init(keys: [Key], head: String? = nil) {
        self.keys = keys
        self.head = head
    }
}

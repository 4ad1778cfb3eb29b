/// The body of `POST /v1/audit/key`: another key signs the record's checkpoints.
public struct AuditKeyChangeAnswer: Codable, Sendable, Equatable {
    /// `changed`, or `unchanged` in a dry run.
    public var status: String
    /// keyId (SHA-256 of the DER, hex) of the key that signed until now.
    public var from: String
    /// keyId of the key that signs from now on; absent in a dry run.
    public var to: String?
    /// Its public half in PEM; absent in a dry run.
    public var publicKey: String?

    public init(status: String, from: String, to: String? = nil, publicKey: String? = nil) {
        self.status = status
        self.from = from
        self.to = to
        self.publicKey = publicKey
    }
}

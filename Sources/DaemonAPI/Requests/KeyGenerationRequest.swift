public import Refusals

/// The body of `POST /v1/keys`: a key pair to be made inside a token.
public struct KeyGenerationRequest: Codable, Sendable, Equatable {
    /// 1 to 255 bytes; the certificate that is imported later must name it too.
    public var merchantIdentifier: String
    /// `EC` (P-256, for EC_v1) or `RSA` (2048 bits, for RSA_v1).
    public var type: String
    /// The token's name in the configuration; needed when there are several.
    public var token: String?

    public init(merchantIdentifier: String, type: String = "EC", token: String? = nil) {
        self.merchantIdentifier = merchantIdentifier
        self.type = type
        self.token = token
    }

    /// - Throws: `malformed_request`.
    public init(parsing body: [UInt8]) throws(Refusal) {
        let body = try RequestBody(parsing: body, known: ["merchantIdentifier", "type", "token"])
        merchantIdentifier = try body.requiredString("merchantIdentifier")
        type = try body.string("type") ?? "EC"
        token = try body.string("token")
    }
}

/// The body of `POST /v1/keys/{key}/csr`, and of other operations that need no words: an empty object.
public struct EmptyRequest: Codable, Sendable, Equatable {
    public init() {}

    /// - Throws: `malformed_request`.
    public init(parsing body: [UInt8]) throws(Refusal) {
        _ = try RequestBody(parsing: body, known: [])
    }
}

/// Why nothing could be minted.
public enum ForgeFailure: Error, Equatable, CustomStringConvertible {
    /// A file cannot be read or written, or holds something else than it should.
    case file(path: String, reason: String)
    /// A key that is neither P-256, P-384 nor RSA.
    case key(String)
    /// A certificate or certificate request that cannot be read, or names no merchant.
    case certificate(String)
    /// A recipe that cannot be followed, such as an EC_v1 token for an RSA key.
    case recipe(String)

    public var description: String {
        switch self {
        case .file(let path, let reason): "\(path): \(reason)"
        case .key(let reason), .certificate(let reason), .recipe(let reason): reason
        }
    }
}

/// The form in which a JSON Web Token's `scope` names a request. The raw value is its byte in the worker's frames.
///
/// Apple's only example is `GET /v1/apps?filter[platform]=IOS`, but developers report that a scope with `/v1` is
/// refused (Apple's forums, thread 707271). So the daemon tries the forms in this order until the API accepts one. All
/// of them name one path only. If Apple does not compare the queries that a scope leaves out, the forms without a query
/// also permit other reads of that path.
public enum TokenScope: UInt8, Sendable, Equatable, CaseIterable {
    /// `GET /v1/merchantIds?limit=200`
    case versionedWithQuery = 1
    /// `GET /merchantIds?limit=200`
    case unversionedWithQuery = 2
    /// `GET /v1/merchantIds`
    case versioned = 3
    /// `GET /merchantIds`
    case unversioned = 4

    /// The form that is tried after this one; nil after the last.
    public var next: TokenScope? { TokenScope(rawValue: rawValue + 1) }

    /// The scope's text for a request.
    public func text(for request: PortalRequest) -> String {
        let query = "?" + request.query(left: "[", right: "]")
        return switch self {
        case .versionedWithQuery: "GET /v1" + request.path + query
        case .unversionedWithQuery: "GET " + request.path + query
        case .versioned: "GET /v1" + request.path
        case .unversioned: "GET " + request.path
        }
    }
}

/// The form in which a JSON Web Token's `scope` names a request. The raw value is its byte in the worker's frames.
///
/// Apple documents one example, `GET /v1/apps?filter[platform]=IOS`, so the first form names the whole request. Developers
/// report that a scope with `/v1` is refused (Apple's forums, thread 707271), so the daemon tries the second form after
/// the first. Both name the path and the query. A form without the query is not used: it would permit every read of the
/// path. If Apple ignores a scope's query, these forms permit that too.
public enum TokenScope: UInt8, Sendable, Equatable, CaseIterable {
    /// `GET /v1/merchantIds?limit=200`
    case versioned = 1
    /// `GET /merchantIds?limit=200`
    case unversioned = 2

    /// The form that is tried after this one; nil after the last.
    public var next: TokenScope? { TokenScope(rawValue: rawValue + 1) }

    /// The scope's text for a request.
    public func text(for request: PortalRequest) -> String {
        let version = self == .versioned ? "/v1" : ""
        return "GET \(version)\(request.path)?\(request.query(left: "[", right: "]"))"
    }
}

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

    /// The scope's text for a request that reads. For a request that writes, the text names it in the record: the API
    /// has no scopes for those.
    public func text(for request: PortalRequest) -> String {
        let version = self == .versioned ? "/v1" : ""
        return "\(request.kind.method.rawValue) \(version)\(request.resource(left: "[", right: "]"))"
    }
}

/// The right that a JSON Web Token gives: one read, or a write.
///
/// The token for a read has a scope, which names the request. Apple's scopes can name no other requests than GET, so the
/// token for a write has none: as long as it is valid, it gives every right of the team's key.
public struct TokenRight: Sendable, Equatable {
    /// The scope of a read; nil for a write.
    let scope: String?

    /// Returns nil for a name that does not have the form of its kind, for a read without a scope, and for a write with
    /// one.
    ///
    /// - Parameter name: the merchant identifier, or the resource's id.
    public init?(_ kind: PortalRequest.Kind, of name: String, scope: TokenScope?) {
        guard kind.isWrite == (scope == nil), kind.permits(name: name) else { return nil }
        self.scope = scope.flatMap { scope in PortalRequest(kind, of: name).map(scope.text) }
    }
}

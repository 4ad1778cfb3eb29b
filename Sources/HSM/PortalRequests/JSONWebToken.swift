import Encodings

/// The names of a team's API key at Apple. They become a token's `iss` and `kid`.
public struct PortalKeyName: Sendable, Equatable {
    public let issuer: String
    public let keyId: String

    /// Returns nil unless both names have 1 to 64 letters, digits and hyphens.
    public init?(issuer: String, keyId: String) {
        for name in [issuer, keyId] {
            guard (1...64).contains(name.utf8.count),
                name.utf8.allSatisfy({ $0 != UInt8(ascii: ".") && PortalName.permits($0) })
            else { return nil }
        }
        (self.issuer, self.keyId) = (issuer, keyId)
    }
}

/// A JSON Web Token for one request to the API, before its signature (RFC 7519; ES256, RFC 7518 §3.4).
///
/// The caller chooses the request from a closed set, and no claim. The token is valid for 90 seconds. It begins 10
/// seconds in the past, because Apple refuses tokens from the future.
public struct JSONWebToken: Sendable, Equatable {
    /// The bytes to sign: header and claims in base64url, with a full stop between them (RFC 7515 §5.1).
    public let signingInput: [UInt8]

    static let lifetime = 90
    static let backdating = 10

    /// - Parameter now: seconds since 1970.
    public init(_ key: PortalKeyName, for right: TokenRight, now: Int) {
        // All parts are letters, digits and a few other characters that JSON does not escape.
        let header = #"{"alg":"ES256","kid":"\#(key.keyId)","typ":"JWT"}"#
        let scope = right.scope.map { #","scope":["\#($0)"]"# } ?? ""
        let claims =
            #"{"iss":"\#(key.issuer)","iat":\#(now - Self.backdating),"exp":\#(now + Self.lifetime),"#
            + #""aud":"appstoreconnect-v1"\#(scope)}"#
        signingInput = Array((Self.base64url(header.utf8) + "." + Self.base64url(claims.utf8)).utf8)
    }

    /// The token in compact form (RFC 7515 §7.1).
    /// - Parameter signature: r ‖ s, 64 bytes.
    public func signed(_ signature: [UInt8]) -> [UInt8] {
        signingInput + [UInt8(ascii: ".")] + Array(Self.base64url(signature).utf8)
    }

    /// Base64 in the alphabet for URLs, without padding (RFC 4648 §5).
    static func base64url(_ bytes: some Sequence<UInt8>) -> String {
        String(
            Base64.encode(Array(bytes)).compactMap { character -> Character? in
                switch character {
                case "+": "-"
                case "/": "_"
                case "=": nil
                default: character
                }
            })
    }
}

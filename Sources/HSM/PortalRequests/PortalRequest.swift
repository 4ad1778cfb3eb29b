// The requests that paytokend makes to Apple's App Store Connect API, and the JSON Web Tokens that permit them. The
// worker builds the tokens, the daemon hands them out, and paytoken-outbound sends the requests. All three use these
// types, so none of them can express another request.
//
// Start here, then TokenScope and JSONWebToken.

/// A request to the API. The set is closed: no other path, method or query can be expressed.
public enum PortalRequest: Sendable, Equatable {
    /// Finds the resource of a merchant identifier.
    case findMerchant(identifier: PortalName)
    /// Lists the certificates of a merchant identifier, by the id of its resource.
    case listCertificates(merchantResource: PortalName)
}

extension PortalRequest {
    /// The kinds of requests. The raw value is the kind's byte in the worker's frames.
    public enum Kind: UInt8, Sendable, CaseIterable {
        case findMerchant = 1
        case listCertificates = 2

        /// The kind as the daemon's API writes it.
        public var name: String {
            switch self {
            case .findMerchant: "find_merchant"
            case .listCertificates: "list_certificates"
            }
        }
    }

    /// - Parameter name: the merchant identifier, or the resource's id.
    public init(_ kind: Kind, of name: PortalName) {
        switch kind {
        case .findMerchant: self = .findMerchant(identifier: name)
        case .listCertificates: self = .listCertificates(merchantResource: name)
        }
    }

    public var kind: Kind {
        switch self {
        case .findMerchant: .findMerchant
        case .listCertificates: .listCertificates
        }
    }

    /// The merchant identifier, or the resource's id.
    public var name: PortalName {
        switch self {
        case .findMerchant(let name), .listCertificates(let name): name
        }
    }

    /// The host that receives the requests. It is Apple's, and no setting changes it.
    public static let host = "api.appstoreconnect.apple.com"

    /// The largest number of resources in an answer that the API permits. A list with more resources is not read.
    public static let limit = 200

    /// The request's path and query as they are sent: brackets are percent-encoded (RFC 3986 §3.4).
    public var target: String { "/v1" + path + "?" + query(left: "%5B", right: "%5D") }

    /// The path after the API's version.
    var path: String {
        switch self {
        case .findMerchant: "/merchantIds"
        case .listCertificates(let resource): "/merchantIds/\(resource.text)/certificates"
        }
    }

    /// The query, with the given texts as brackets.
    func query(left: String, right: String) -> String {
        let page = "limit=\(Self.limit)"
        return switch self {
        case .findMerchant(let identifier): "filter\(left)identifier\(right)=\(identifier.text)&\(page)"
        case .listCertificates: page
        }
    }
}

/// A merchant identifier, or the id of one of Apple's resources, that can be part of a URL and of JSON as it is: 1 to
/// 255 letters, digits, full stops and hyphens, not only full stops. As a segment of a path, `..` would name another
/// resource (RFC 3986 §5.2.4).
public struct PortalName: Sendable, Equatable, Hashable {
    public let text: String

    /// Returns nil for any other text.
    public init?(_ text: String) {
        guard (1...255).contains(text.utf8.count), text.utf8.allSatisfy(Self.permits),
            text.utf8.contains(where: { $0 != UInt8(ascii: ".") })
        else { return nil }
        self.text = text
    }

    static func permits(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "-"):
            true
        default: false
        }
    }
}

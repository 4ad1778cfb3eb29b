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
    case listCertificates(merchantResource: ResourceId)
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

    /// Returns nil for a name that does not have the form of its kind.
    ///
    /// - Parameter name: the merchant identifier, or the resource's id.
    public init?(_ kind: Kind, of name: String) {
        switch kind {
        case .findMerchant:
            guard let identifier = PortalName(name) else { return nil }
            self = .findMerchant(identifier: identifier)
        case .listCertificates:
            guard let resource = ResourceId(name) else { return nil }
            self = .listCertificates(merchantResource: resource)
        }
    }

    public var kind: Kind {
        switch self {
        case .findMerchant: .findMerchant
        case .listCertificates: .listCertificates
        }
    }

    /// The merchant identifier, or the resource's id.
    public var name: String {
        switch self {
        case .findMerchant(let identifier): identifier.text
        case .listCertificates(let resource): resource.text
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

/// The id of one of Apple's resources, in the form that Apple documents: 10 capital letters and digits. It comes from an
/// answer and becomes a segment of the next request's path, so no other text is accepted.
public struct ResourceId: Sendable, Equatable {
    public let text: String

    /// Returns nil for any other text.
    public init?(_ text: String) {
        guard text.utf8.count == 10,
            text.utf8.allSatisfy({ (0x30...0x39).contains($0) || (0x41...0x5A).contains($0) })
        else { return nil }
        self.text = text
    }
}

/// A merchant identifier that can be part of a query and of JSON as it is: 1 to 255 letters, digits, full stops and
/// hyphens, not only full stops.
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

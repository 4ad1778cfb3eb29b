// The requests that paytokend makes to Apple's App Store Connect API, and the JSON Web Tokens that permit them. The
// worker builds the tokens, the daemon hands them out, and paytoken-outbound sends the requests. All three use these
// types, so none of them can express another request.
//
// Start here, then PortalResources, TokenScope and JSONWebToken.

/// A request to the API. The set is closed: no other path, method, query or body can be expressed.
///
/// A merchant identifier's resource is only read. A certificate is created for one, activated and revoked, and nothing
/// else is changed.
public enum PortalRequest: Sendable, Equatable {
    /// Finds the resource of a merchant identifier.
    case findMerchant(identifier: PortalName)
    /// Lists the certificates of a merchant identifier, by the id of its resource.
    case listCertificates(merchantResource: ResourceId)
    /// Has a certificate issued. If none of the merchant identifier is active, Apple activates it at once.
    case createCertificate(NewCertificate, merchantResource: ResourceId)
    /// Makes wallets use a certificate instead of the one that they use. Apple offers no way back.
    case activateCertificate(CertificateId)
    /// Revokes a certificate for good.
    case revokeCertificate(CertificateId)
}

extension PortalRequest {
    /// The kinds of requests. The raw value is the kind's byte in the worker's frames.
    public enum Kind: UInt8, Sendable, CaseIterable {
        case findMerchant = 1
        case listCertificates = 2
        case createCertificate = 3
        case activateCertificate = 4
        case revokeCertificate = 5

        /// The kind as the daemon's API writes it.
        public var name: String {
            switch self {
            case .findMerchant: "find_merchant"
            case .listCertificates: "list_certificates"
            case .createCertificate: "create_certificate"
            case .activateCertificate: "activate_certificate"
            case .revokeCertificate: "revoke_certificate"
            }
        }

        /// True if the request changes something at Apple.
        public var isWrite: Bool { method != .get }

        public var method: Method {
            switch self {
            case .findMerchant, .listCertificates: .get
            case .createCertificate: .post
            case .activateCertificate: .patch
            case .revokeCertificate: .delete
            }
        }

        /// Returns true if a name has the form of this kind: a merchant identifier, or the id of a resource.
        public func permits(name: String) -> Bool {
            switch self {
            case .findMerchant: PortalName(name) != nil
            case .listCertificates, .createCertificate: ResourceId(name) != nil
            case .activateCertificate, .revokeCertificate: CertificateId(name) != nil
            }
        }
    }

    /// The methods of the requests. The raw value is the method in HTTP.
    public enum Method: String, Sendable {
        case get = "GET"
        case post = "POST"
        case patch = "PATCH"
        case delete = "DELETE"
    }

    /// Returns nil for a name that does not have the form of its kind.
    ///
    /// - Parameters:
    ///   - name: the merchant identifier, or the resource's id.
    ///   - new: the certificate to be created; nil for every other kind.
    public init?(_ kind: Kind, of name: String, new: NewCertificate? = nil) {
        guard (kind == .createCertificate) == (new != nil) else { return nil }
        switch kind {
        case .findMerchant:
            guard let identifier = PortalName(name) else { return nil }
            self = .findMerchant(identifier: identifier)
        case .listCertificates, .createCertificate:
            guard let resource = ResourceId(name) else { return nil }
            self =
                new.map { .createCertificate($0, merchantResource: resource) }
                ?? .listCertificates(merchantResource: resource)
        case .activateCertificate, .revokeCertificate:
            guard let certificate = CertificateId(name) else { return nil }
            self = kind == .activateCertificate ? .activateCertificate(certificate) : .revokeCertificate(certificate)
        }
    }

    public var kind: Kind {
        switch self {
        case .findMerchant: .findMerchant
        case .listCertificates: .listCertificates
        case .createCertificate: .createCertificate
        case .activateCertificate: .activateCertificate
        case .revokeCertificate: .revokeCertificate
        }
    }

    /// The merchant identifier, or the resource's id.
    public var name: String {
        switch self {
        case .findMerchant(let identifier): identifier.text
        case .listCertificates(let resource), .createCertificate(_, let resource): resource.text
        case .activateCertificate(let certificate), .revokeCertificate(let certificate): certificate.text
        }
    }

    /// The certificate to be created; nil for every other request.
    public var new: NewCertificate? {
        if case .createCertificate(let new, _) = self { new } else { nil }
    }

    /// The host that receives the requests. It is Apple's, and no setting changes it.
    public static let host = "api.appstoreconnect.apple.com"

    /// The largest number of resources in an answer that the API permits. A list with more resources is not read.
    public static let limit = 200

    /// The request's path and query as they are sent: brackets are percent-encoded (RFC 3986 §3.4).
    public var target: String { "/v1" + resource(left: "%5B", right: "%5D") }

    /// The path after the API's version, and the query, with the given texts as brackets.
    func resource(left: String, right: String) -> String {
        let page = "limit=\(Self.limit)"
        return switch self {
        case .findMerchant(let identifier):
            "/merchantIds?filter\(left)identifier\(right)=\(identifier.text)&\(page)"
        case .listCertificates(let resource): "/merchantIds/\(resource.text)/certificates?\(page)"
        case .createCertificate: "/certificates"
        case .activateCertificate(let certificate), .revokeCertificate(let certificate):
            "/certificates/\(certificate.text)"
        }
    }

    /// The request's body, a JSON:API document; nil if it has none.
    public var body: String? {
        // All parts are letters, digits and a few other characters that JSON does not escape.
        switch self {
        case .findMerchant, .listCertificates, .revokeCertificate: nil
        case .createCertificate(let new, let merchant):
            #"{"data":{"type":"certificates","attributes":{"certificateType":"\#(new.type.rawValue)","#
                + #""csrContent":"\#(new.pem.replacing("\n", with: #"\n"#))"},"#
                + #""relationships":{"merchantId":{"data":{"type":"merchantIds","id":"\#(merchant.text)"}}}}}"#
        case .activateCertificate(let certificate):
            #"{"data":{"type":"certificates","id":"\#(certificate.text)","attributes":{"activated":true}}}"#
        }
    }
}

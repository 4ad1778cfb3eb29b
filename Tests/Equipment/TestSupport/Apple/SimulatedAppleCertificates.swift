import Foundation
import TokenForge

/// The certificate that ``SimulatedApple`` presents.
public enum AppleCertificate: String, Sendable, CaseIterable {
    /// A certificate of the production host, ECDSA.
    case validECDSA
    /// A certificate of the production host, RSA.
    case validRSA
    case expired
    /// A certificate of another host.
    case another
    /// A certificate of the production host, issued by an untrusted root.
    case untrusted
}

/// A root with server certificates under it, and the authorities whose merchants' certificates the server accepts.
public struct SimulatedAppleCertificates: Sendable {
    public let directory: FreshDirectory

    public static let hostName = "apple-pay-gateway.apple.com"

    /// The certificates that all tests of a run share.
    public static let shared = Task { try await SimulatedAppleCertificates() }

    public init() async throws {
        directory = try FreshDirectory()
        let elliptic = "ec -pkeyopt ec_paramgen_curve:P-256"
        for root in ["root", "otherroot"] {
            try await directory.openssl(
                "req -x509 -newkey \(elliptic) -nodes -days 30 -subj /CN=\(root) -keyout \(root).key -out \(root).crt")
        }
        for certificate in AppleCertificate.allCases {
            let name = certificate.rawValue
            let host = certificate == .another ? "elsewhere.example" : Self.hostName
            try directory.write("subjectAltName=DNS:\(host)\n", to: "\(name).ext")
            try await directory.openssl(
                "req -newkey \(certificate == .validRSA ? "rsa:2048" : elliptic) -nodes -subj /CN=\(name) "
                    + "-keyout \(name).key -out \(name).csr")
            let issuer = certificate == .untrusted ? "otherroot" : "root"
            try await directory.openssl(
                "x509 -req -in \(name).csr -CA \(issuer).crt -CAkey \(issuer).key -CAcreateserial -extfile \(name).ext "
                    + "-days \(certificate == .expired ? -1 : 30) -out \(name).crt")
        }
        let authority = try SharedForge.authority
        try directory.write(
            authority.root.certificatePEM + authority.developerRelations.certificatePEM, to: "clients.crt")
    }

    /// The path of the PEM file with the root that clients must trust.
    public var root: String { directory.path("root.crt") }
    /// The path of the PEM file with the authorities that issue merchants' certificates.
    public var clientAuthorities: String { directory.path("clients.crt") }

    public func certificate(_ certificate: AppleCertificate) -> String { directory.path("\(certificate.rawValue).crt") }

    public func key(_ certificate: AppleCertificate) -> String { directory.path("\(certificate.rawValue).key") }
}

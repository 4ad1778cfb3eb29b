/// The certificates that a test's server on localhost can present.
public enum ServerCertificate: String, Sendable, CaseIterable {
    case right
    case expired
    /// A certificate of another host.
    case another
}

/// A root and server certificates under it, in a fresh directory.
public struct ServerCertificates: Sendable {
    private let directory: FreshDirectory

    public init() async throws {
        directory = try FreshDirectory()
        try await directory.openssl(
            "req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=root -keyout root.key -out root.crt")
        for certificate in ServerCertificate.allCases {
            let (name, host) = (certificate.rawValue, certificate == .another ? "elsewhere" : "localhost")
            try directory.write("subjectAltName=DNS:\(host)\n", to: "\(name).ext")
            try await directory.openssl(
                "req -newkey rsa:2048 -nodes -subj /CN=\(host) -keyout \(name).key -out \(name).csr")
            try await directory.openssl(
                "x509 -req -in \(name).csr -CA root.crt -CAkey root.key -CAcreateserial -extfile \(name).ext "
                    + "-days \(certificate == .expired ? -1 : 30) -out \(name).crt")
        }
    }

    /// The path of the root certificate in PEM.
    public var root: String { directory.path("root.crt") }

    func certificate(_ certificate: ServerCertificate) -> String { directory.path("\(certificate.rawValue).crt") }

    func key(_ certificate: ServerCertificate) -> String { directory.path("\(certificate.rawValue).key") }
}

import ConfigurationFile
import HTTPListener
import HostSystem
import NIOSSL
import OutgoingConnections
import TLSHandshake

/// `sessions`: the settings for requesting merchant sessions.
struct SessionSettings: Sendable, Equatable {
    enum Environment: String, CaseIterable, Sendable {
        case production, sandbox, china
        case chinaSandbox = "china-sandbox"

        var host: ApplePayGatewayHost {
            switch self {
            case .production: .production
            case .sandbox: .sandbox
            case .china: .china
            case .chinaSandbox: .chinaSandbox
            }
        }
    }

    var environment: Environment = .production
    /// Absolute paths of PEM files with the trusted roots of the server's certificate; empty to trust the system's
    /// roots.
    var trust: [String] = []
    /// An HTTP proxy (CONNECT); nil to connect directly.
    var proxy: HTTPProxy?
    /// The address of a simulated Apple server on this host, for tests; nil for Apple's own. The simulated server's
    /// certificate must still be for the name of Apple's host.
    var testServer: NetworkAddress?

    /// Creates the default settings: Apple's production host, without a proxy.
    init() {}

    static let keys = ["environment", "trust", "proxy", "test_server"]

    init(_ section: ConfigurationSection) {
        environment = section.choice("environment", default: .production)
        trust = section.roots("trust")
        if !trust.isEmpty {
            section.warning(
                .sessionTrust, "trust",
                "the certificate of Apple's gateway is verified with these roots instead of the system's"
            )
        }
        if let text = section.text("proxy"), !text.isEmpty {
            proxy = HTTPProxy(text)
            if proxy == nil {
                section.problem("proxy", "must be http://HOST:PORT, without a user, a password or a path")
            }
        }
        if let text = section.text("test_server"), !text.isEmpty {
            guard let address = NetworkAddress(text), address.isLoopback, address.port > 0 else {
                section.problem("test_server", "must be a loopback address and a port, as in 127.0.0.1:9443")
                return
            }
            testServer = address
            section.warning(
                .testServer, "test_server", "sessions come from a server on this host and not from Apple; leave it out")
        }
    }
}

extension ConfigurationSection {
    /// Returns the absolute paths of PEM files with trusted roots of a server's certificate. Reports a file without a
    /// readable certificate as a problem.
    func roots(_ name: String) -> [String] {
        (texts(name) ?? []).map { element in
            let path = reader.absolute(element.value)
            if let message = Self.problem(ofRoots: path) { reader.problem(element.key, line: element.line, message) }
            return path
        }
    }

    private static func problem(ofRoots path: String) -> String? {
        do throws(SmallFile.Failure) {
            let bytes = try SmallFile.bytes(at: path, maximumBytes: 1 << 20)
            let roots = (try? NIOSSLCertificate.fromPEMBytes(bytes)) ?? []
            return roots.isEmpty ? "\(path) has no certificate in PEM" : nil
        } catch {
            return "\(path) cannot be read: \(error)"
        }
    }
}

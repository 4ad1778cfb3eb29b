import Foundation
import OutgoingConnections
import TestSupport
import Testing

@testable import Gateway

/// Strict parsing of the configured addresses for merchant sessions.
@Suite struct AppleEndpointTests {
    private func settings(_ section: String) throws -> SessionSettings {
        let directory = try FreshDirectory()
        let key = String(repeating: "0", count: 64)
        try directory.write(
            """
            listener: { address: "unix:g.sock" }
            clients:
              - { name: shop, key_sha256: "\(key)", merchants: ["*"], operations: [session], domains: [shop.example] }
            sessions: \(section)
            """, to: "c.yaml")
        return try GatewayConfiguration.load(path: directory.path("c.yaml"), environment: [:]).sessions
    }

    @Test(arguments: [
        ("production", "apple-pay-gateway.apple.com"), ("sandbox", "apple-pay-gateway-cert.apple.com"),
        ("china", "cn-apple-pay-gateway.apple.com"), ("china-sandbox", "cn-apple-pay-gateway-cert.apple.com"),
    ])
    func anEnvironmentIsOneHost(environment: String, host: String) throws {
        let endpoint = try AppleEndpoint(settings("{ environment: \(environment) }"))
        #expect(endpoint.host.name == host)
        #expect(endpoint.route == .direct)
        #expect(endpoint.trustRoots == nil)
    }

    @Test(arguments: ["127.0.0.1:8443", "'[::1]:8443'"])
    func aTestServerIsOnTheLoopback(address: String) throws {
        guard case .testServer(let server) = try AppleEndpoint(settings("{ test_server: \(address) }")).route else {
            Issue.record("not a test server")
            return
        }
        #expect(server.port == 8443)
    }

    @Test(arguments: [
        "localhost:8443", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:65536", "10.0.0.1:443", "0.0.0.0:443", "'[::]:443'",
        "'::1:443'", "apple-pay-gateway.apple.com:443", "127.0.0.1:443/", "127.0.0.1:+443",
        "127.0.0.1.evil.example:443",
    ])
    func noOtherPlaceIsATestServer(address: String) {
        #expect(throws: (any Error).self) { try settings("{ test_server: \(address) }") }
    }

    @Test(arguments: [
        ("http://proxy.example:3128", "proxy.example"), ("http://[fd00::1]:3128", "fd00::1"),
        ("http://10.0.0.1:3128", "10.0.0.1"),
    ])
    func aProxyIsAHostAndAPort(url: String, host: String) throws {
        let endpoint = try AppleEndpoint(settings("{ proxy: \"\(url)\" }"))
        #expect(endpoint.route == .proxy(HTTPProxy(host: host, port: 3128)))
    }

    @Test(arguments: [
        "proxy.example:3128", "https://proxy.example:3128", "http://proxy.example", "http://proxy.example:3128/x",
        "http://user:password@proxy.example:3128", "http://:3128", "http://proxy.example:0", "http://a b:1",
        "http://proxy.example:+1", "socks5://proxy.example:1080",
    ])
    func nothingElseIsAProxy(url: String) {
        #expect(throws: (any Error).self) { try settings("{ proxy: \"\(url)\" }") }
    }

    @Test func rootsAreFilesWithCertificates() throws {
        let directory = try FreshDirectory()
        let none = try directory.write("nothing", to: "none.pem")
        #expect(throws: (any Error).self) { try settings("{ trust: [\"\(none)\"] }") }
        #expect(throws: (any Error).self) { try settings("{ trust: [\"\(directory.path("absent"))\"] }") }
    }
}

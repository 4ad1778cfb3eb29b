import Foundation
import NIOCore
import TLSHandshake
import TestSupport
import Testing

@testable import Gateway

/// Where sessions are asked for is configuration, and strictly read.
@Suite struct AppleEndpointTests {
    @Test(arguments: ["127.0.0.1:8443", "[::1]:8443"])
    func aTestServerIsOnTheLoopback(text: String) throws {
        #expect(try #require(LoopbackAddress(text)).address.port == 8443)
    }

    @Test(arguments: [
        "", "localhost:8443", "127.0.0.1", "127.0.0.1:", "127.0.0.1:0", "127.0.0.1:65536", "127.0.0.2:1",
        "10.0.0.1:443",
        "0.0.0.0:443", "[::]:443", "::1:443", "apple-pay-gateway.apple.com:443", "127.0.0.1:443/", "127.0.0.1:+443",
        "127.0.0.1.evil.example:443",
    ])
    func noOtherPlaceIsATestServer(text: String) {
        #expect(LoopbackAddress(text) == nil)
    }

    @Test func aProxyIsAHostAndAPort() throws {
        #expect(HTTPProxy("http://proxy.example:3128") == HTTPProxy("http://proxy.example:3128"))
        #expect(try #require(HTTPProxy("http://[fd00::1]:3128")).host == "fd00::1")
        #expect(try #require(HTTPProxy("http://10.0.0.1:3128")).port == 3128)
    }

    @Test(arguments: [
        "", "proxy.example:3128", "https://proxy.example:3128", "http://proxy.example", "http://proxy.example:3128/",
        "http://user:password@proxy.example:3128", "http://:3128", "http://proxy.example:0", "http://a b:1",
        "http://proxy\r\n.example:1", "socks5://proxy.example:1080",
    ])
    func nothingElseIsAProxy(text: String) {
        #expect(HTTPProxy(text) == nil)
    }

    @Test func filesOfRootsAreRead() throws {
        let directory = try FreshDirectory()
        let none = try directory.write("nothing", to: "none.pem")
        #expect(throws: (any Error).self) { try AppleEndpoint(host: .production, trust: [none]) }
        #expect(throws: (any Error).self) { try AppleEndpoint(host: .production, trust: [directory.path("absent")]) }
        #expect(try AppleEndpoint(host: .sandbox).trustRoots == nil)
    }
}

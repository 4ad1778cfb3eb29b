import Foundation
import NIOCore
import OutgoingConnections
import TLSHandshake
import TestSupport
import Testing

@testable import Gateway

/// Apple's host through an HTTP proxy: a tunnel, with the same TLS inside it.
@Suite struct ProxyTests {
    private func sessions(_ proxy: ConnectProxy, deadline: Duration = .seconds(120)) async throws -> MerchantSessions {
        var settings = SessionSettings()
        settings.trust = [try await SimulatedAppleCertificates.shared.value.root]
        settings.proxy = HTTPProxy(host: "127.0.0.1", port: proxy.port)
        return MerchantSessions(
            endpoint: try AppleEndpoint(settings),
            identities: try await SoftwareIdentities.usual(), observer: RecordedSessions(), deadline: deadline)
    }

    @Test func theTunnelIsToApplesHostAndTheSessionComesThroughIt() async throws {
        let apple = try await SimulatedApple()
        let proxy = try await ConnectProxy(.tunnels(toPort: apple.port))
        let session = try await sessions(proxy).session(SessionBench.request)
        #expect(session.body == Array(SimulatedApple.session.utf8))
        #expect(
            proxy.requests == [
                "CONNECT apple-pay-gateway.apple.com:443 HTTP/1.1\r\nHost: apple-pay-gateway.apple.com:443\r\n\r\n"
            ])
    }

    /// NIO's own resolver runs one lookup at a time on an event loop, so a slow lookup would delay the others.
    @Test func aProxysNameThatIsNotResolvedDelaysNoOtherSession() async throws {
        let apple = try await SimulatedApple()
        let proxy = try await ConnectProxy(.tunnels(toPort: apple.port))
        let hang = Hang()
        hang.begin()
        let names = HostNames { name in
            if name == "hangs.example" { hang.pass() }
            return [try SocketAddress(ipAddress: "127.0.0.1", port: 0)]
        }
        func sessions(_ host: String) async throws -> MerchantSessions {
            var settings = SessionSettings()
            settings.trust = [try await SimulatedAppleCertificates.shared.value.root]
            settings.proxy = HTTPProxy(host: host, port: proxy.port)
            var endpoint = try AppleEndpoint(settings)
            endpoint.names = names
            return MerchantSessions(
                endpoint: endpoint, identities: try await SoftwareIdentities.usual(), observer: RecordedSessions(),
                deadline: .seconds(120))
        }
        let hanging = try await sessions("hangs.example")
        let waiting = (0..<16).map { _ in Begun { try? await hanging.session(SessionBench.request).body } }
        try await hang.waitUntilBlocking()
        let other = try await sessions("proxy.example")
        for _ in 0..<8 {
            let session = try await other.session(SessionBench.request, other.begin(), reuses: false)
            #expect(session.body == Array(SimulatedApple.session.utf8))
        }
        #expect(waiting.allSatisfy { !$0.hasEnded })
        hang.end()
        for one in waiting { #expect(try await one.value() == Array(SimulatedApple.session.utf8)) }
    }

    @Test func aProxyThatOpensTLSIsNotTrusted() async throws {
        let apple = try await SimulatedApple(certificate: .untrusted)
        let proxy = try await ConnectProxy(.tunnels(toPort: apple.port))
        let sessions = try await sessions(proxy)
        await #expect(throws: SessionFailure.serverUntrusted) { try await sessions.session(SessionBench.request) }
    }

    @Test(
        arguments: [
            ("HTTP/1.1 403 Forbidden\r\n\r\n", 403), ("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", 407),
            ("HTTP/1.1 502 Bad Gateway\r\n\r\n", 502), ("SOCKS\r\n\r\n", nil),
            // The proxy sends bytes after the head before the client has sent any.
            ("HTTP/1.1 200 OK\r\n\r\n\u{16}", 200),
            ("HTTP/1.1 200 OK\r\n" + String(repeating: "X: y\r\n", count: 2000), nil),
        ] as [(String, Int?)])
    func aProxyMaySayNo(answer: String, status: Int?) async throws {
        let proxy = try await ConnectProxy(.says(answer))
        let sessions = try await sessions(proxy)
        await #expect(throws: SessionFailure.proxyRefused(status: status)) {
            try await sessions.session(SessionBench.request)
        }
    }

    @Test func aSilentProxyIsWaitedForUntilTheDeadline() async throws {
        let proxy = try await ConnectProxy(.says(""))
        let sessions = try await sessions(proxy, deadline: .milliseconds(500))
        await #expect(throws: SessionFailure.deadlineExceeded(step: .connection)) {
            try await sessions.session(SessionBench.request)
        }
    }
}

import Foundation
import TLSHandshake
import TestSupport
import Testing

@testable import Gateway

/// Apple's host behind an HTTP proxy: a tunnel, and TLS through it as without.
@Suite struct ProxyTests {
    private func sessions(_ proxy: ConnectProxy, deadline: Duration = .seconds(120)) async throws -> MerchantSessions {
        var settings = SessionSettings()
        settings.trust = [try await SimulatedAppleCertificates.shared.value.root]
        settings.proxy = SessionSettings.Proxy(host: "127.0.0.1", port: proxy.port)
        return MerchantSessions(
            endpoint: try AppleEndpoint(settings),
            identities: try await SoftwareIdentities.usual(), observer: HeardSessions(), deadline: deadline)
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
            // Bytes behind the head, which nobody has asked for.
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

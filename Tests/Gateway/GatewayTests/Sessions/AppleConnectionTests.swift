import NIOCore
import OutgoingConnections
import TestSupport
import Testing

@testable import Gateway

/// The resources of a connection to Apple's host, all of which must be freed when it ends. A gateway makes thousands of
/// such connections a day, so a leak would exhaust its memory.
@Suite struct AppleConnectionTests {
    /// Opens a connection and ends it.
    ///
    /// - Returns: true if its handlers were freed.
    private func end(
        ofConnectingTo endpoint: AppleEndpoint, _ identities: SoftwareIdentities? = nil, fails: Bool
    ) async throws -> @Sendable () -> Bool {
        let usual = try await SoftwareIdentities.usual()
        let identity = try #require(MerchantIdentity(try await SoftwareIdentities.shared.value.identity))
        let tls = try IdentityTLS(identity, source: identities ?? usual, endpoint: endpoint)
        // The connection's last handler owns this object, so the object is freed only if all handlers are.
        let progress = SessionProgress(SessionOrigin(deadline: .now() + .seconds(120)))
        do throws(SessionFailure) {
            let connection = try await AppleConnection.open(to: endpoint, as: tls, progress)
            connection.http.close()
            #expect(!fails)
        } catch {
            #expect(fails, "\(error)")
        }
        return { [weak progress] in progress == nil }
    }

    @Test(arguments: [2, 3])
    func anIdleConnectionLeaksNothing(version: Int) async throws {
        let apple = try await SimulatedApple(versions: version...version)
        let isGone = try await end(ofConnectingTo: SessionBench.endpoint(apple.address), fails: false)
        try await wait(for: "the connection's handlers to be freed") { isGone() }
    }

    @Test func aConnectionThatHadARequestLeavesNothing() async throws {
        let apple = try await SimulatedApple()
        let endpoint = try await SessionBench.endpoint(apple.address)
        let identity = try #require(MerchantIdentity(try await SoftwareIdentities.shared.value.identity))
        let tls = try IdentityTLS(identity, source: await SoftwareIdentities.usual(), endpoint: endpoint)
        let origin = SessionOrigin(deadline: .now() + .seconds(120))
        let asked: () async throws -> @Sendable () -> Bool = {
            let progress = SessionProgress(origin)
            let connection = try await AppleConnection.open(
                to: endpoint, as: tls, SessionProgress(origin))
            _ = try await connection.post(SessionBench.request.appleBody, progress)
            connection.http.close()
            return { [weak progress] in progress == nil }
        }
        let isGone = try await asked()
        try await wait(for: "the connection's handlers to be freed") { isGone() }
    }

    @Test func aFailedHandshakeLeavesNothing() async throws {
        let apple = try await SimulatedApple(certificate: .untrusted)
        let isGone = try await end(ofConnectingTo: SessionBench.endpoint(apple.address), fails: true)
        try await wait(for: "the connection's handlers to be freed") { isGone() }
    }

    @Test func aHandshakeThatIsNotSignedLeavesNothing() async throws {
        let apple = try await SimulatedApple()
        let identities = try await SoftwareIdentities.usual()
        let hash = try await SoftwareIdentities.shared.value.identity.publicKeyHash
        identities.failures.change { $0[hash] = .refused(code: "hsm_unavailable", message: "") }
        let isGone = try await end(ofConnectingTo: SessionBench.endpoint(apple.address), identities, fails: true)
        try await wait(for: "the connection's handlers to be freed") { isGone() }
    }

    @Test func anUnreachableHostLeaksNothing() async throws {
        let apple = try await SimulatedApple()
        let endpoint = try await SessionBench.endpoint(apple.address)
        try await apple.stop()
        let isGone = try await end(ofConnectingTo: endpoint, fails: true)
        try await wait(for: "the connection's handlers to be freed") { isGone() }
    }

    @Test func aProxyThatSaysNoLeavesNothing() async throws {
        let proxy = try await ConnectProxy(.says("HTTP/1.1 403 Forbidden\r\n\r\n"))
        var settings = SessionSettings()
        settings.trust = [try await SimulatedAppleCertificates.shared.value.root]
        settings.proxy = HTTPProxy(host: "127.0.0.1", port: proxy.port)
        let isGone = try await end(ofConnectingTo: AppleEndpoint(settings), fails: true)
        try await wait(for: "the connection's handlers to be freed") { isGone() }
    }
}

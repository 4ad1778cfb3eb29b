import DaemonAPI
import Foundation
import TestSupport
import Testing

@testable import Gateway

/// Identities and signatures over paytokend's socket.
@Suite struct PaytokendIdentitiesTests {
    private let directory: FreshDirectory
    private var socket: String { directory.path("p") }

    init() throws { directory = try FreshDirectory() }

    private func identities() -> PaytokendIdentities { PaytokendIdentities(socket: socket, timeout: .seconds(120)) }

    private func failure() async -> IdentityFailure? {
        do throws(IdentityFailure) {
            _ = try await identities().identities(of: SoftwareIdentities.merchantIdentifier)
            return nil
        } catch { return error }
    }

    @Test(arguments: [2, 3])
    func aSessionIsSignedByPaytokend(version: Int) async throws {
        let key = try await SoftwareIdentities.shared.value
        let paytokend = try await FakePaytokend(at: socket, key)
        let apple = try await SimulatedApple(versions: version...version)
        let sessions = MerchantSessions(
            endpoint: try await SessionBench.endpoint(apple.address), identities: identities(),
            observer: HeardSessions(), deadline: .seconds(120))
        #expect(try await sessions.session(SessionBench.request).body == Array(SimulatedApple.session.utf8))
        #expect(
            paytokend.requests == [
                "GET /v1/tls-identities?merchantIdentifier=merchant.com.example.identity", "POST /v1/tls-signatures",
            ])
    }

    @Test func aRefusalIsReadWithItsCode() async throws {
        let body = #"{"code":"forbidden","message":"Not your role."}"#
        let paytokend = try await FakePaytokend(at: socket, SoftwareIdentities.shared.value, refusal: (403, body))
        #expect(await failure() == .refused(code: "forbidden", message: "Not your role."))
        let answer = SessionFailure.paytokend(.refused(code: "forbidden", message: "Not your role.")).answer
        #expect(answer.code.rawValue == "paytokend_forbids")
        #expect(paytokend.requests.count == 1)
    }

    @Test(arguments: [
        (200, "{}"), (200, #"{"items":[{}]}"#), (500, "x"),
        (
            200,
            #"{"items":[{"publicKeyHash":"","certificateChain":[],"notAfter":"2100-01-01T00:00:00Z","algorithms":[]}]}"#
        ),
    ])
    func whatIsNotPaytokendsAnswerIsNotTaken(status: Int, body: String) async throws {
        let paytokend = try await FakePaytokend(at: socket, SoftwareIdentities.shared.value, refusal: (status, body))
        #expect(await failure() == .unreadable)
        #expect(paytokend.requests.count == 1)
    }

    @Test func nobodyThereIsSaid() async {
        #expect(await failure() == .unreachable(.notThere(path: socket)))
    }
}

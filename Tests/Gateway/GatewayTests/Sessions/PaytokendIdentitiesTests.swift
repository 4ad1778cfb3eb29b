import DaemonAPI
import Foundation
import NIOCore
import TestSupport
import Testing

@testable import Gateway

/// Identities and signatures obtained through paytokend's socket.
@Suite struct PaytokendIdentitiesTests {
    private let directory: FreshDirectory
    private var socket: String { directory.path("p") }

    init() throws { directory = try FreshDirectory() }

    private func identities(timeout: Duration = .seconds(120)) -> PaytokendIdentities {
        PaytokendIdentities(PaytokendCalls(PaytokendSettings(socket: socket, timeout: timeout, maxConnections: 10)))
    }

    private func failure(for origin: SessionOrigin = SessionOrigin()) async -> IdentityFailure? {
        do throws(IdentityFailure) {
            _ = try await identities().identities(
                of: SoftwareIdentities.merchantIdentifier, for: origin)
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
            observer: RecordedSessions(), deadline: .seconds(120))
        #expect(try await sessions.session(SessionBench.request).body == Array(SimulatedApple.session.utf8))
        #expect(
            paytokend.requests == [
                "GET /v1/tls-identities?merchantIdentifier=merchant.com.example.identity", "POST /v1/tls-signatures",
            ])
    }

    @Test func whatPaytokendIsAskedBelongsToTheCallersTrace() async throws {
        let paytokend = try await FakePaytokend(at: socket, SoftwareIdentities.shared.value)
        let apple = try await SimulatedApple()
        let sessions = MerchantSessions(
            endpoint: try await SessionBench.endpoint(apple.address), identities: identities(),
            observer: RecordedSessions(), deadline: .seconds(120))
        let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
        _ = try await sessions.session(SessionBench.request, traceparent: trace)
        // The request for the list of keys and the request for the signature both have the trace.
        #expect(paytokend.traceparents.current == [[trace], [trace]])
        // A second session on the existing connection makes no request to paytokend; a new connection sends its own
        // trace.
        let other = "00-11111111111111111111111111111111-2222222222222222-00"
        _ = try await sessions.session(SessionBench.request, traceparent: other)
        #expect(paytokend.traceparents.current.count == 2)
        _ = try await sessions.session(SessionBench.request, sessions.begin(traceparent: other), reuses: false)
        #expect(paytokend.traceparents.current.last == [other])
    }

    /// `paytokend.timeout` may be longer than a session's time limit.
    @Test func noQuestionOutlivesTheSession() async throws {
        let paytokend = try await FakePaytokend(at: socket, SoftwareIdentities.shared.value)
        paytokend.latch.close()
        let apple = try await SimulatedApple()
        func failure() async throws -> SessionFailure? {
            let sessions = MerchantSessions(
                endpoint: try await SessionBench.endpoint(apple.address),
                identities: self.identities(timeout: .seconds(100_000)), observer: RecordedSessions(),
                deadline: .milliseconds(500))
            do throws(SessionFailure) {
                _ = try await sessions.session(SessionBench.request)
                return nil
            } catch { return error }
        }
        #expect(try await failure() == .deadlineExceeded(step: .identity))
        paytokend.latch.open()
        #expect(apple.connectionCount == 0)
    }

    @Test func aQuestionWithoutTimeLeftIsNotAsked() async throws {
        let paytokend = try await FakePaytokend(at: socket, SoftwareIdentities.shared.value)
        let late = SessionOrigin(deadline: NIODeadline.now() - TimeAmount.nanoseconds(1))
        #expect(await failure(for: late) == .late)
        #expect(paytokend.requests == [])
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

    @Test func anUnreachablePeerIsReported() async {
        #expect(await failure() == .unreachable(.notThere(path: socket)))
    }
}

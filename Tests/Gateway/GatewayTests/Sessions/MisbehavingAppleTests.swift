import Foundation
import NIOSSL
import TLSHandshake
import TestSupport
import Testing

@testable import Gateway

/// Faults of Apple's host: slow, broken, an impostor, or a refusal.
@Suite struct MisbehavingAppleTests {
    // MARK: TLS

    @Test(arguments: [AppleCertificate.expired, .untrusted])
    func aServerThatIsNotTrustedGetsNoSignatureAndNoRequest(certificate: AppleCertificate) async throws {
        let bench = try await SessionBench(certificate: certificate)
        #expect(await bench.failure() == .serverUntrusted)
        #expect(bench.identities.inputs.current.isEmpty)
        #expect(bench.apple.requests.isEmpty)
    }

    @Test(arguments: [2, 3])
    func aServerOfAnotherNameGetsNoSignatureAndNoRequest(version: Int) async throws {
        let bench = try await SessionBench(certificate: .another, versions: version...version)
        #expect(await bench.failure() == .serverNameWrong)
        #expect(bench.identities.inputs.current.isEmpty)
        #expect(bench.heard.signatures.current.isEmpty)
        #expect(bench.apple.requests.isEmpty)
    }

    @Test(arguments: [
        ("apple-pay-gateway.apple.com", true), ("Apple-Pay-Gateway.APPLE.com", true), ("*.apple.com", true),
        ("apple-pay-gateway.apple.com.example", false), ("apple.com", false), ("*.com", false), ("*", false),
        ("*-gateway.apple.com", false), ("a.*.com", false), ("x.apple-pay-gateway.apple.com", false), ("", false),
        ("apple-pay-gateway.apple.com\0.example", false),
    ])
    func aCertificatesNameIsTheHostsOrAWildcardOfItsDomain(name: String, isRight: Bool) {
        #expect(ServerNameCheck.matches(name, "apple-pay-gateway.apple.com") == isRight)
    }

    @Test(arguments: ["*.com", "apple.com", "*"])
    func noNameMatchesAHostOfTwoLabels(name: String) {
        #expect(!ServerNameCheck.matches(name, "apple.com"))
        #expect(!ServerNameCheck.matches(name, "localhost"))
    }

    @Test func theSystemsRootsAreNotTheTests() async throws {
        let bench = try await SessionBench(trusts: false)
        #expect(await bench.failure() == .serverUntrusted)
    }

    @Test func aTokenWithoutPSSHasNoTLS13() async throws {
        let key = try await SoftwareIdentities.shared.value.with([.pkcs1SHA256])
        let bench = try await SessionBench(
            versions: 3...3, identities: SoftwareIdentities([SoftwareIdentities.merchantIdentifier: [key]]))
        guard case .handshakeFailed = await bench.failure() else {
            Issue.record("TLS 1.3 without PSS")
            return
        }
    }

    @Test func aMerchantsCertificateThatTheServerDoesNotTakeIsNamed() async throws {
        // A certificate from an authority that the server does not know.
        let key = try SelfSignedIdentity.key()
        for version in 2...3 {
            let bench = try await SessionBench(
                versions: version...version,
                identities: SoftwareIdentities([SoftwareIdentities.merchantIdentifier: [key]]))
            let failure = await bench.failure()
            guard case .identityRefusedInTLS(let alert) = failure else {
                Issue.record("TLS 1.\(version): \(String(describing: failure))")
                continue
            }
            #expect(alert.contains("ALERT"))
            #expect(bench.apple.requests.isEmpty)
        }
    }

    // MARK: Apple's refusals

    @Test func a417IsExplained() async throws {
        let bench = try await SessionBench([.answer(417)])
        #expect(await bench.failure() == .mismatch)
        let answer = SessionFailure.mismatch.answer
        #expect(answer.code.rawValue == "merchant_not_accepted")
        #expect(answer.code.statusAndRetryAfter.status == 422)
        for word in ["domain", "certificate", "merchant", "environment"] { #expect(answer.message.contains(word)) }
    }

    @Test(arguments: [
        (301, SessionFailure.redirected(status: 301)), (302, .redirected(status: 302)), (307, .redirected(status: 307)),
        (308, .redirected(status: 308)), (400, .requestRefused(status: 400)), (401, .identityRefused(status: 401)),
        (403, .identityRefused(status: 403)), (404, .requestRefused(status: 404)),
        (429, .tooManyRequests(retryAfter: nil)), (500, .appleUnavailable(status: 500)),
        (503, .appleUnavailable(status: 503)), (201, .unexpectedStatus(201)), (206, .unexpectedStatus(206)),
    ])
    func everyOtherStatusHasItsMeaning(status: Int, failure: SessionFailure) async throws {
        let bench = try await SessionBench([.answer(status, ["Location: https://127.0.0.1:1/"])])
        #expect(await bench.failure() == failure)
        #expect(bench.apple.requests.count == 1)
    }

    @Test func whenAppleSaysHowLongToWaitTheCallerHears() async throws {
        let bench = try await SessionBench([.answer(429, ["Retry-After: 17"])])
        #expect(await bench.failure()?.answer.retryAfter == 17)
    }

    // MARK: Invalid answers

    private static let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"

    @Test(arguments: [
        (SimulatedApple.Behaviour.answer(200, [], "<html>"), SessionFailure.unexpectedContent),
        (.answer(200, [], ""), .unexpectedContent),
        (.answer(200, [], "[1]"), .unexpectedContent),
        (
            .raw("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\n{}"), .unexpectedContent
        ),
        (.raw("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"), .unexpectedContent),
        // This body ends only with the connection, so a truncated body would look complete.
        (.cutShort(head + "\r\n{}"), .unexpectedContent),
        (.cutShort("HTTP/1.1 304 X\r\n\r\n"), .redirected(status: 304)),
        (.raw("SSH-2.0-OpenSSH\r\n\r\n"), .notHTTP),
        (.raw("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}"), .notHTTP),
        (.cutShort(""), .connectionLost),
        (.cutShort(head), .connectionLost),
        (.cutShort(head + "Content-Length: 10\r\n\r\n{}"), .connectionLost),
        (.cutShort(head + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n"), .connectionLost),
    ])
    func whatIsNoSessionIsNotPassedOn(behaviour: SimulatedApple.Behaviour, failure: SessionFailure) async throws {
        let bench = try await SessionBench([behaviour])
        #expect(await bench.failure() == failure)
        #expect(bench.apple.requests.count == 1)
        #expect(bench.heard.sessions.current == [failure.answer.code.rawValue])
    }

    @Test(arguments: [
        SimulatedApple.Behaviour.answer(200, [], "{" + String(repeating: " ", count: 64 << 10) + "}"),
        .raw(head + "Content-Length: 1000000000\r\n\r\n"),
        .endless(head + "Transfer-Encoding: chunked\r\n\r\n", "8\r\n{{{{{{{{\r\n"),
        .endless(head + "Transfer-Encoding: chunked\r\n\r\n", "1\r\n{\r\n"),
        .endless(head, "X-More: and more and more and more\r\n"),
        .endless("HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 100 Continue\r\n\r\n"),
    ])
    func whatIsLargerThanASessionIsNotReadToItsEnd(behaviour: SimulatedApple.Behaviour) async throws {
        let bench = try await SessionBench([behaviour])
        #expect(await bench.failure() == .answerTooLarge)
    }

    @Test func aSessionOf64KiBIsPassedOn() async throws {
        let body = "{" + String(repeating: " ", count: (64 << 10) - 2) + "}"
        let bench = try await SessionBench([.answer(200, [], body)])
        #expect(try await bench.session().body == Array(body.utf8))
    }

    @Test func aChunkedSessionIsPassedOn() async throws {
        let bench = try await SessionBench([.raw(Self.head + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n")])
        #expect(try await bench.session().body == Array("{}".utf8))
    }

    /// Bytes after a response would be mistaken for the next response.
    @Test func bytesAfterAResponseEndTheConnection() async throws {
        let answer = Self.head + "Content-Length: 2\r\n\r\n{}"
        let bench = try await SessionBench([.raw(answer + answer), .session])
        _ = try? await bench.session()
        try await wait(for: "the connection to be closed") { await bench.failure() == nil }
        #expect(bench.apple.requests.last?.connection != 1)
    }

    // MARK: Time

    @Test(arguments: [
        (SimulatedApple.Behaviour.silence, SessionStep.answer), (.raw(head), .answer),
        (.raw(head + "Content-Length: 10\r\n\r\n{"), .answer),
    ])
    func aSlowAnswerEndsAtTheDeadline(behaviour: SimulatedApple.Behaviour, step: SessionStep) async throws {
        // This request also has to make the connection, so the deadline is long enough for that.
        let bench = try await SessionBench([behaviour], deadline: .seconds(3))
        let failure = await bench.failure()
        guard case .deadlineExceeded(let reached) = failure else {
            Issue.record("\(String(describing: failure))")
            return
        }
        #expect(bench.apple.requests.isEmpty || reached == step)
        #expect(bench.sessions.idleConnections == 0)
    }

    @Test func aSlowSignatureEndsAtTheDeadline() async throws {
        let bench = try await SessionBench(deadline: .seconds(3))
        bench.identities.latch.close()
        let failure = await bench.failure()
        bench.identities.latch.open()
        guard case .deadlineExceeded = failure else {
            Issue.record("\(String(describing: failure))")
            return
        }
        #expect(bench.apple.requests.isEmpty)
    }

    // MARK: One attempt

    @Test func aRequestOnAConnectionThatEndsIsNotSentAgain() async throws {
        let bench = try await SessionBench([.session, .cutShort(""), .session])
        _ = try await bench.session()
        #expect(await bench.failure() == .connectionLost)
        #expect(bench.apple.requests.count == 2)
        _ = try await bench.session()
    }

    @Test func anUnreachablePeerIsReported() async throws {
        let apple = try await SimulatedApple()
        let address = apple.address
        try await apple.stop()
        let sessions = MerchantSessions(
            endpoint: try await SessionBench.endpoint(address), identities: try await SoftwareIdentities.usual(),
            observer: RecordedSessions())
        await #expect(throws: SessionFailure.notConnected) { try await sessions.session(SessionBench.request) }
    }
}

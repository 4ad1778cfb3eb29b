import DaemonAPI
import Foundation
import GatewayAPI
import Refusals
import TestSupport
import Testing

@testable import Gateway

/// The session check, which reports the step at which a session request fails.
@Suite struct SessionCheckTests {
    private let request = SessionCheckRequest(
        merchantIdentifier: SoftwareIdentities.merchantIdentifier, domain: "shop.example")

    private func failedStep(_ answer: SessionCheckAnswer) -> String? {
        // Every earlier step succeeded, and no later one was attempted.
        let position = answer.steps.firstIndex { $0.outcome == .failed } ?? answer.steps.count
        #expect(answer.steps[..<position].allSatisfy { $0.outcome == .ok })
        #expect(answer.steps.dropFirst(position + 1).allSatisfy { $0.outcome == .notReached })
        return position < answer.steps.count ? answer.steps[position].step : nil
    }

    @Test func allGoesWell() async throws {
        let bench = try await SessionBench()
        let answer = try await bench.sessions.check(request)
        #expect(answer.steps.map(\.step) == ["identity", "name", "connection", "tls", "signature", "answer"])
        #expect(failedStep(answer) == nil)
        #expect(answer.code == nil)
        let asked = try #require(bench.apple.requests.first)
        #expect(asked.string("initiativeContext") == "shop.example")
        #expect(asked.string("initiative") == "web")
    }

    @Test func aCheckPerformsAllStepsDespiteAnOpenConnection() async throws {
        let bench = try await SessionBench()
        _ = try await bench.session()
        _ = try await bench.sessions.check(request)
        #expect(bench.apple.connectionCount == 2)
    }

    @Test func twoChecksFindRoomBeyondTheConnectionsOfSessions() async throws {
        var limits = ConnectionPoolLimits()
        (limits.most, limits.maximumOfOwner) = (1, 1)
        let bench = try await SessionBench(limits: limits)
        bench.identities.latch.close()
        let session = Begun { try? await bench.session() }
        try await wait(for: "the session's signature to be asked for") { bench.identities.latch.waiting == 1 }
        let checks = (0..<2).map { _ in Begun { try? await bench.sessions.check(request) } }
        try await wait(for: "the checks' signatures to be asked for") { bench.identities.latch.waiting == 3 }
        let third = try await bench.sessions.check(request)
        #expect(failedStep(third) != nil && third.code == "overloaded", "\(third)")
        #expect(await bench.failure() == .tooManyConnections)
        bench.identities.latch.open()
        #expect(try await session.value() != nil)
        for check in checks { #expect(failedStep(try #require(try await check.value())) == nil) }
    }

    @Test func theIdentityIsMissing() async throws {
        let bench = try await SessionBench(identities: SoftwareIdentities([:]))
        let answer = try await bench.sessions.check(request)
        #expect(failedStep(answer) == "identity")
        #expect(answer.code == "no_active_identity")
    }

    @Test func paytokendIsAway() async throws {
        let bench = try await SessionBench()
        bench.identities.failures.change { $0[""] = .unreachable(.notThere(path: "x")) }
        #expect(failedStep(try await bench.sessions.check(request)) == "identity")
    }

    @Test func nothingListens() async throws {
        let bench = try await SessionBench()
        try await bench.apple.stop()
        #expect(failedStep(try await bench.sessions.check(request)) == "connection")
    }

    @Test(arguments: [AppleCertificate.expired, .untrusted, .another])
    func theServersCertificateIsWrong(certificate: AppleCertificate) async throws {
        let bench = try await SessionBench(certificate: certificate)
        let answer = try await bench.sessions.check(request)
        #expect(failedStep(answer) == "tls")
        #expect(answer.code == "apple_certificate_untrusted")
    }

    @Test func theTokenDoesNotSign() async throws {
        let bench = try await SessionBench()
        let hash = try await SoftwareIdentities.shared.value.identity.publicKeyHash
        bench.identities.failures.change { $0[hash] = .refused(code: "hsm_unavailable", message: "") }
        let answer = try await bench.sessions.check(request)
        #expect(failedStep(answer) == "signature")
        #expect(answer.code == "hsm_unavailable")
    }

    @Test func appleDoesNotKnowTheDomain() async throws {
        let bench = try await SessionBench([.answer(417)])
        let answer = try await bench.sessions.check(request)
        #expect(failedStep(answer) == "answer")
        #expect(answer.code == "merchant_not_accepted")
        #expect(answer.details == "status 417")
    }

    @Test(arguments: ["http://a.example", "127.0.0.1", "a.example:443", "a.example/", ""])
    func theDomainIsADomain(domain: String) async throws {
        let bench = try await SessionBench()
        let request = SessionCheckRequest(merchantIdentifier: "merchant.com.example", domain: domain)
        await #expect(throws: Refusal.self) { try await bench.sessions.check(request) }
        #expect(bench.apple.connectionCount == 0)
    }
}

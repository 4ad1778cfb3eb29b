import TestSupport
import Testing

@testable import Daemon
@testable import HTTPListener

@Suite("Work that the daemon avoids")
struct BoundedWorkTests {
    @Test(
        "neither calls an HSM nor claims anything for a peer that has left", arguments: ["/v1/decrypt", "/v1/verify"])
    func departedPeer(path: String) async throws {
        let fixture = try await PaymentRoutesFixture()
        let paymentToken = try fixture.mint()
        let body = path == "/v1/verify" ? paymentToken.verifyBody() : paymentToken.decryptBody()
        let origin = RequestOrigin(share: { [fixture] in TurnShare(of: .user(fixture.peer.uid)) }, turns: nil)
        origin.leave()
        let answer = try await fixture.post(path, body, from: origin)
        #expect(String(decoding: answer.body, as: UTF8.self).contains("\"deadline_exceeded\""))
        #expect(fixture.hsm.calls == 0)
        #expect(try await fixture.post(path, body).status == 200)
    }

    @Test("logs one line for each code of requests refused for their heads, and counts every request")
    func headLines() async throws {
        let fixture = try await PaymentRoutesFixture()
        let began = ContinuousClock.now
        for _ in 0..<50 { #expect(try await fixture.post("/nothing", []).status == 404) }
        let most = 1 + Int((ContinuousClock.now - began) / .seconds(10))
        let lines = try String(decoding: fixture.logged, as: UTF8.self).split(separator: "\n")
            .filter { $0.contains("not_found") }
        #expect((1...most).contains(lines.count), "\(lines)")
        #expect(fixture.instruments.requests.value(["other", "not_found"]) == 50)
    }
}

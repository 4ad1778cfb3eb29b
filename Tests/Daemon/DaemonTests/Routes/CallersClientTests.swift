import DaemonAPI
import NIOPosix
import TestSupport
import Testing
import TokenForge

@testable import Daemon
@testable import DaemonConfiguration
@testable import HTTPListener
@testable import UsageRecording

/// The header `Paytokend-Client`, in which a caller names its own client. The daemon uses it only for fair sharing.
@Suite struct CallersClientTests {
    @Test("gives the client its turns at the HSM, and keeps its name out of record and log")
    func clientsName() async throws {
        let fixture = try await PaymentRoutesFixture()
        let answer = try await fixture.post("/v1/decrypt", fixture.mint().decryptBody(), client: ["some-client"])
        #expect(answer.status == 200)
        #expect(fixture.hsm.clients.current == ["some-client"])
        let written = try await fixture.recorded + fixture.logged
        #expect(!String(decoding: written, as: UTF8.self).contains("some-client"))
    }

    @Test(
        "ignores an invalid name, or more than one",
        arguments: [[], [""], ["a b"], ["a\u{1}"], ["\u{FC}"], [String(repeating: "n", count: 65)], ["a", "b"]])
    func invalidNameIgnored(values: [String]) async throws {
        let fixture = try await PaymentRoutesFixture()
        #expect(try await fixture.post("/v1/decrypt", fixture.mint().decryptBody(), client: values).status == 200)
        #expect(fixture.hsm.clients.current == [nil])
    }

    @Test("affects only turns: another client of the same caller can repeat the release")
    func repeatByAnotherClient() async throws {
        let fixture = try await PaymentRoutesFixture()
        let body = try fixture.mint().decryptBody(reference: "r")
        for client in ["a", "b"] {
            #expect(try await fixture.post("/v1/decrypt", body, client: [client]).status == 200)
        }
        #expect(fixture.hsm.clients.current == ["a", "b"])
    }

    @Test("gives the client its turns on the event loop that verifies signatures")
    func turnsForVerification() async throws {
        let fixture = try await PaymentRoutesFixture()
        let caller = try #require(fixture.policies.current.access.caller(for: fixture.peer))
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        let turns = try await LoopTurns.start(on: loop)
        let origin = RequestOrigin(share: { [fixture] in TurnShare(of: .user(fixture.peer.uid)) }, turns: turns)
        let peer = fixture.peer
        let served = Shared<[String]>([])
        await Task(executorPreference: EventLoopExecutor(loop)) {
            let first = await origin.turn()
            await withTaskGroup(of: Void.self) { group in
                for client in ["many", "many", "many", "few"] {
                    let request = EndpointRequest(
                        caller: caller.asking(for: ClientName(client)), peer: peer, pathArguments: [], query: [:],
                        body: [],
                        draft: AuditDraft(), origin: origin)
                    group.addTask {
                        let turn = try? await request.waitForTurn()
                        served.change { $0.append(client) }
                        turn?.end()
                    }
                }
                // The event loop runs one task after another, so after this yield all requests wait for their turn.
                await Task.yield()
                first.end()
            }
        }.value
        #expect(served.current == ["many", "few", "many", "many"])
        turns.stop()
    }
}

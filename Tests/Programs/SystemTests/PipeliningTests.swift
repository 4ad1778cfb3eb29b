import TestSupport
import Testing

@Suite("Pipelined requests")
struct PipeliningTests {
    @Test("limits the daemon's memory use while it receives 40 MB of pipelined requests")
    func memory() async throws {
        let harness = try await DaemonHarness(prepared: DaemonConfiguration())
        try await harness.start(untilReady: false)
        let growth = try await PipelinedRequests(to: "/v1/verify").growth(of: harness.daemon.processIdentifier) {
            try await RawConnection(harness.socket, staysOpen: true)
        }
        #expect(growth < 12 << 10, "it grew by \(growth) kB")
        #expect(try await harness.stop().status == 0)
    }
}

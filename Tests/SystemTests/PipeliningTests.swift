import Foundation
import TestSupport
import Testing

@Suite("Pipelined requests")
struct PipeliningTests {
    /// Answered without HSM and ledger; its header makes few requests of many bytes.
    private static let request =
        "GET /healthz HTTP/1.1\r\nHost: a\r\nPadding: \(String(repeating: "p", count: 4000))\r\n\r\n"

    @Test("40 MB of pipelined requests leave the daemon's memory as it was")
    func memory() async throws {
        let harness = try await DaemonHarness(prepared: DaemonConfiguration())
        try await harness.start(untilReady: false)
        try await pipeline(1000, at: harness.socket)
        let before = try residentKilobytes(of: harness.daemon.processIdentifier)
        try await pipeline(10_000, at: harness.socket)
        let growth = try residentKilobytes(of: harness.daemon.processIdentifier) - before
        #expect(growth < 12 << 10, "it grew by \(growth) kB")
        #expect(try await harness.stop().status == 0)
    }

    /// Sends faster than requests are answered, and reads the answers as they come.
    private func pipeline(_ count: Int, at socket: String) async throws {
        let client = try await RawConnection(socket, staysOpen: true)
        let batch = String(repeating: Self.request, count: 100)
        for _ in 0..<count / 100 { try await client.send(batch) }
        try await client.finishSending()
        let answers = try await client.everything()
        #expect(answers.components(separatedBy: "HTTP/1.1 200").count - 1 == count)
    }

    private func residentKilobytes(of process: Int32) throws -> Int {
        let status = try String(contentsOfFile: "/proc/\(process)/status", encoding: .utf8)
        let line = try #require(status.split(separator: "\n").first { $0.hasPrefix("VmRSS:") })
        return try #require(Int(line.split(whereSeparator: { !$0.isNumber })[0]))
    }
}

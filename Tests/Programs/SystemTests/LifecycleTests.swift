import Foundation
import Locks
import StrictJSON
import TestSupport
import Testing
import TokenForge

/// Start, crash and end of the daemon.
@Suite struct LifecycleTests {
    /// The indices of the released payment tokens, in the order of the answers.
    private final class ServedIndices: Sendable {
        private let indices = Mutex([Int]())

        /// Adds an index, and returns the number of indices.
        func add(_ index: Int) -> Int {
            indices.withLock { indices in
                indices.append(index)
                return indices.count
            }
        }

        var all: [Int] { indices.withLock { $0 } }
    }

    @Test("exits --check with 0 for a valid configuration, and otherwise with 78 and every problem with its line")
    func checkConfiguration() async throws {
        let harness = try await DaemonHarness(prepared: DaemonConfiguration(), initializesToken: false)
        let paytokend = try Program.built("paytokend")
        let good = try await Program.run(paytokend, ["--config", harness.configurationFile, "--check"])
        #expect(good.status == 0, "\(good)")
        var wrong = DaemonConfiguration()
        wrong.listener = ["colour: blue"]
        wrong.signingTimeWindow = "5 minutes"
        try harness.configure(wrong)
        let bad = try await Program.run(paytokend, ["--config", harness.configurationFile, "--check"])
        #expect(bad.status == 78, "\(bad)")
        let said = bad.output + bad.error
        let lines = try String(contentsOfFile: harness.configurationFile, encoding: .utf8).split(separator: "\n")
        for text in ["colour: blue", "5 minutes"] {
            let number = try #require(lines.firstIndex { $0.contains(text) }) + 1
            #expect(said.contains("\(number)"), "no line \(number) in \(said)")
        }
        #expect(said.contains("colour"))
        // The daemon does not start with a configuration that --check refuses.
        #expect(try await Program.run(paytokend, ["--config", harness.configurationFile]).status == 78)
        #expect(
            try await Program.run(paytokend, ["--config", harness.directory.path("absent.yaml"), "--check"]).status != 0
        )
    }

    @Test("prints the version and the help of every program")
    func help() async throws {
        for program in ["paytokend", "paytokend-hsm", "paytokenctl", "token-forge"] {
            let version = try await Program.run(Program.built(program), ["--version"])
            #expect(version.status == 0 && version.output.contains("0."), "\(program): \(version)")
            let help = try await Program.run(Program.built(program), ["--help"])
            #expect(help.status == 0 && help.output.contains("USAGE"), "\(program): \(help)")
        }
    }

    @Test("exits with 75 if another daemon uses the socket, without harm to the other daemon")
    func secondDaemon() async throws {
        let harness = try await DaemonHarness(merchants: [SharedForge.ecMerchant])
        let second = try await Program.run(Program.built("paytokend"), ["--config", harness.configurationFile])
        #expect(second.status == 75, "\(second)")
        #expect(try await harness.decrypt(SharedForge.paymentToken()).status == 200)
        #expect(try await harness.stop().status == 0)
    }

    @Test("ends the worker after kill -9 of the daemon, and replaces the stale sockets at the next start")
    func killedDaemon() async throws {
        let harness = try await DaemonHarness(merchants: [SharedForge.ecMerchant])
        let worker = try harness.worker()
        try harness.daemon.signal(SIGKILL)
        _ = try await harness.daemon.result()
        try await wait(for: "the worker's end") {
            let status = try? String(contentsOfFile: "/proc/\(worker)/stat", encoding: .utf8)
            return status == nil || status?.contains(") Z ") == true
        }
        #expect(FileManager.default.fileExists(atPath: harness.socket))
        try await harness.start()
        #expect(try await harness.decrypt(SharedForge.paymentToken()).status == 200)
        #expect(try await harness.stop().status == 0)
    }

    @Test("exits with 75 if another daemon with other sockets uses the ledger")
    func secondOnLedger() async throws {
        let harness = try await DaemonHarness()
        let text = try String(contentsOfFile: harness.configurationFile, encoding: .utf8)
            .replacing("p.sock", with: "p2.sock").replacing("a.sock", with: "a2.sock")
        let other = try harness.directory.write(text, to: "other.yaml")
        let second = try await Program.run(Program.built("paytokend"), ["--config", other])
        #expect(second.status == 75, "\(second)")
        #expect(try await harness.stop().status == 0)
    }

    @Test("keeps the claim of every payment token that was answered before kill -9", .everyEngine)
    func claimsSurviveKill() async throws {
        let harness = try await DaemonHarness(merchants: [SharedForge.ecMerchant])
        let paymentTokens = try (0..<100).map { _ in try SharedForge.paymentToken() }
        // Eight callers send one request after another. The test kills the daemon after 20 releases, so that
        // requests are still under way on a machine of any speed.
        let served = ServedIndices()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for caller in 0..<8 {
                group.addTask {
                    for index in stride(from: caller, to: paymentTokens.count, by: 8) {
                        guard (try? await harness.decrypt(paymentTokens[index], reference: "r"))?.status == 200 else {
                            continue
                        }
                        if served.add(index) == 20 { try harness.daemon.signal(SIGKILL) }
                    }
                }
            }
            try await group.waitForAll()
        }
        let answered = served.all
        #expect((20..<100).contains(answered.count), "\(answered.count) were served before the kill")
        try await harness.start()
        for index in answered {
            #expect(try await harness.decrypt(paymentTokens[index]).code == "transaction_replayed")
            let again = try await harness.decrypt(paymentTokens[index], reference: "r")
            #expect(again.status == 200 && again.member("repeated")?.boolValue == true, "\(again)")
        }
        // After the restart, each request that got no answer succeeds with its reference, whether the daemon had
        // claimed the payment token or not.
        for index in paymentTokens.indices where !answered.contains(index) {
            #expect(try await harness.decrypt(paymentTokens[index], reference: "r").status == 200)
        }
        #expect(try await harness.stop().status == 0)
    }

    @Test("completes the request under way at SIGTERM, accepts no others, and exits with 0", .everyEngine)
    func drain() async throws {
        let harness = try await DaemonHarness(merchants: [SharedForge.ecMerchant])
        let idle = try await RawConnection(harness.socket)
        let busy = try await RawConnection(harness.socket)
        let body = try SharedForge.paymentToken().decryptBody()
        try await busy.send(Array(RawConnection.head("/v1/decrypt", length: body.count).utf8) + body.prefix(100))
        // A request is under way after the daemon has read its head.
        try await busy.waitUntilRead()
        try harness.daemon.signal(SIGTERM)
        try await wait(for: "the idle connection's end") { idle.isClosed }
        try await busy.send(Array(body.dropFirst(100)))
        let answer = try await busy.answer()
        #expect(answer.status == 200, "\(answer)")
        // The daemon must end soon after its last answer, and not only at the time limit of a shutdown.
        let answered = ContinuousClock.now
        let result = try await harness.daemon.result(within: 35)
        #expect(result.status == 0, "\(result.error.suffix(2000))")
        #expect(ContinuousClock.now - answered < .seconds(20))
        #expect(!FileManager.default.fileExists(atPath: harness.socket))
    }

    @Test("loses no request if the worker is killed under load, and counts the restart", .everyEngine)
    func workerKilled() async throws {
        var configuration = DaemonConfiguration()
        configuration.listener = ["max_connections_per_uid: 512"]
        // A call that the daemon repeats may take twice this time. That is long enough for the next worker to start
        // on a busy machine.
        configuration.hsmToken = ["call_timeout: 30s"]
        let harness = try await DaemonHarness(
            configuration, merchants: [SharedForge.ecMerchant, SharedForge.rsaMerchant])
        let first = try harness.worker()
        let bodies = try (0..<200).map { index in
            let merchant = try index % 4 == 3 ? SharedForge.rsaMerchant : SharedForge.ecMerchant
            return try SharedForge.paymentToken(for: merchant.merchant)
                .decryptBody(reference: "order-\(index)")
        }
        async let load = withThrowingTaskGroup(of: [CurlAnswer].self) { group in
            for start in stride(from: 0, to: bodies.count, by: 25) {
                let part = Array(bodies[start..<(start + 25)])
                group.addTask {
                    try await Curl.simultaneously("/v1/decrypt", socket: harness.socket, bodies: part)
                }
            }
            return try await group.reduce(into: []) { $0 += $1 }
        }
        try await wait(for: "the first release") {
            try await !harness.metric("paytokend_requests_total", "/v1/decrypt\"", "\"ok\"").isEmpty
        }
        kill(first, SIGKILL)
        let answers = try await load
        #expect(answers.count == bodies.count)
        for (index, answer) in answers.enumerated() { #expect(answer.status == 200, "\(index): \(answer)") }
        try await harness.waitUntilReady()
        #expect(try harness.worker() != first)
        let again = try await Curl.simultaneously("/v1/decrypt", socket: harness.socket, bodies: bodies)
        #expect(again.filter { $0.status == 200 }.count == bodies.count)
        let restarts = try await harness.metric("paytokend_worker_restarts_total")
        #expect(restarts.reduce(0, +) >= 1, "\(restarts)")
        #expect(try await harness.stop().status == 0)
    }

    @Test("loses no request if workers are replaced after few operations")
    func recycling() async throws {
        var configuration = DaemonConfiguration()
        configuration.hsmToken = ["recycle_after: 10"]
        let harness = try await DaemonHarness(configuration, merchants: [SharedForge.ecMerchant])
        let first = try harness.worker()
        for _ in 0..<60 { #expect(try await harness.decrypt(SharedForge.paymentToken()).status == 200) }
        try await wait(for: "another worker") { (try? harness.worker()).map { $0 != first } == true }
        try await wait(for: "the old workers to be reaped") { try harness.zombies() == 0 }
        #expect(try await harness.stop().status == 0)
    }
}

/// SIGTERM while an HSM token hangs. The daemon must end by itself within the promised time.
@Suite struct DrainTests {
    /// The time within which `paytokend` promises to end. systemd kills it ten seconds later (TimeoutStopSec in
    /// hsm-config/paytokend.service).
    private static let promised = Duration.seconds(30)

    private func harness(_ hsmToken: ScriptedToken) async throws -> DaemonHarness {
        var configuration = DaemonConfiguration()
        // The timeout of a call is longer than a shutdown, so that the shutdown ends the hanging worker, and not
        // this timeout.
        configuration.hsmTokens = [TokenEntry("primary", hsmToken, ["call_timeout: 60s"])]
        return try await DaemonHarness(configuration, merchants: [SharedForge.ecMerchant])
    }

    private func callsBegun(_ harness: DaemonHarness) async throws -> Int {
        Int(try await harness.metric("paytokend_hsm_wait_seconds_count").first ?? 0)
    }

    /// Stops the daemon, and requires that it and its worker end in time.
    private func drain(_ harness: DaemonHarness) async throws {
        let worker = try harness.worker()
        let began = ContinuousClock.now
        let result = try await harness.stop(within: 90)
        let took = ContinuousClock.now - began
        #expect(result.status == 0, "\(result)")
        #expect(took < Self.promised, "it took \(took)")
        let log = result.error.split(separator: "\n")
        let draining = try #require(log.firstIndex { $0.contains("\"draining\"") }, "\(log.suffix(20))")
        let stopped = try #require(log.firstIndex { $0.contains("\"stopped\"") }, "\(log.suffix(20))")
        #expect(draining < stopped)
        #expect(kill(worker, 0) != 0, "the worker outlived its daemon")
    }

    @Test("refuses a request whose call hangs in the HSM token, kills the worker, and exits with 0")
    func hangingCall() async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory())
        let harness = try await harness(hsmToken)
        let begun = try await callsBegun(harness)
        try hsmToken.play("fault C_DeriveKey always hang")
        let payment = try SharedForge.paymentToken()
        async let request = harness.decrypt(payment, reference: "r")
        try await wait(for: "the call") { try await callsBegun(harness) > begun }
        try await drain(harness)
        let answer = try await request
        #expect(answer.status == 503 && answer.code == "hsm_unavailable", "\(answer)")
        #expect(answer.header("Retry-After").flatMap(Int.init) != nil)
    }

    @Test("ends in time even if a stopped worker prevents the last audit checkpoint")
    func stoppedWorker() async throws {
        let harness = try await harness(try ScriptedToken(try await TokenDirectory()))
        try await stop(process: try harness.worker())
        try await drain(harness)
    }
}

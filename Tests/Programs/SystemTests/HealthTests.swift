import CLinux
import Foundation
import StrictJSON
import TestSupport
import Testing
import TokenForge

@Suite struct HealthTests {
    @Test("answers healthz and readyz on both sockets")
    func probes() async throws {
        let harness = try await SharedDaemon.harness
        for socket in [harness.socket, harness.adminSocket] {
            #expect(try await Curl.request("/healthz", socket: socket).status == 200)
            let ready = try await Curl.request("/readyz", socket: socket)
            #expect(ready.status == 200 && ready.member("ready")?.boolValue == true, "\(ready)")
        }
    }

    @Test("exports Prometheus metrics with the contract's names, and counts requests by outcome")
    func metrics() async throws {
        let harness = try await SharedDaemon.harness
        func count(_ outcome: String) async throws -> Double {
            try await harness.metric("paytokend_requests_total", "outcome=\"\(outcome)\"", "decrypt").first ?? 0
        }
        let before = try await count("unknown_public_key_hash")
        let paymentToken = try SharedForge.mint.mint(
            TokenRecipe(merchant: SharedForge.ecMerchant.merchant, deviations: [.unknownPublicKeyHash]))
        #expect(try await harness.decrypt(paymentToken).status == 422)
        let good = try SharedForge.paymentToken()
        #expect(try await harness.decrypt(good).status == 200)
        #expect(try await count("unknown_public_key_hash") >= before + 1)
        let answer = try await harness.admin("/metrics")
        #expect(answer.status == 200)
        #expect(answer.header("Content-Type")?.hasPrefix("text/plain") == true)
        for name in [
            "paytokend_requests_total", "paytokend_request_seconds", "paytokend_hsm_wait_seconds",
            "paytokend_hsm_call_seconds", "paytokend_ledger_commit_seconds", "paytokend_key_not_after_seconds",
            "paytokend_key_uses_total", "paytokend_connections", "paytokend_insecure_settings",
            "paytokend_clock_behind_ledger_seconds", "paytokend_locked_memory_bytes",
            "paytokend_checkpoint_age_seconds", "paytokend_ledger_free_bytes",
            "paytokend_record_check_verdict", "paytokend_caller_first_release_timestamp_seconds",
            "paytokend_audit_head_age_seconds",
        ] {
            #expect(answer.text.contains("# TYPE \(name) "), "\(name)")
        }
        // Without archiving there must be no archive age, because it would look like a fault.
        #expect(answer.metric("paytokend_record_archive_age_seconds") == [])
        #expect(answer.metric("paytokend_audit_head_age_seconds").count == 1)
        // The free space is in bytes: more than a page, and less than any disk has.
        let free = try #require(answer.metric("paytokend_ledger_free_bytes").first)
        #expect((4096.0...1e15).contains(free), "\(free)")
        // This daemon has insecure settings, such as a root other than Apple's and operations by one person.
        #expect(
            answer.text.split(separator: "\n").contains {
                $0.hasPrefix("paytokend_insecure_settings{") && $0.hasSuffix(" 1")
            })
    }

    @Test("names the HSM token, its tier and the ledger in status")
    func status() async throws {
        let harness = try await SharedDaemon.harness
        let answer = try await harness.admin("/v1/status")
        #expect(answer.status == 200, "\(answer)")
        #expect(answer.member("ready")?.boolValue == true)
        let hsmToken = try #require(answer.member("tokens")?.arrayValue?.first?.objectValue)
        #expect(hsmToken["name"]?.stringValue == "primary")
        #expect(answer.string("version")?.isEmpty == false)
        let command = try await harness.paytokenctl(["status"])
        #expect(command.status == 0, "\(command)")
    }

    @Test("is not ready if the HSM is absent at the start, and becomes ready when the HSM appears")
    func absentToken() async throws {
        let harness = try await DaemonHarness(prepared: DaemonConfiguration(), initializesToken: false)
        try await harness.start(untilReady: false)
        let absent = try await Curl.request("/readyz", socket: harness.socket)
        #expect(absent.status == 503 && absent.member("ready")?.boolValue == false, "\(absent)")
        let reason = try #require(absent.member("reasons")?.arrayValue?.first?.objectValue)
        #expect(reason["component"]?.stringValue?.isEmpty == false && reason["message"]?.stringValue?.isEmpty == false)
        #expect(try await harness.paytokenctl(["status"]).status == 1)
        #expect(try harness.daemon.isRunning)
        try await harness.initializeHSMToken()
        try await harness.waitUntilReady()
        #expect(try await harness.importMerchant(SharedForge.ecMerchant).status == 0)
        let paymentToken = try SharedForge.paymentToken()
        #expect(try await harness.decrypt(paymentToken).status == 200)
        #expect(try await harness.stop().status == 0)
    }
}

/// The notifications that a systemd unit with Type=notify receives.
@Suite struct ServiceNotificationTests {
    @Test("notifies systemd when it serves both sockets, even without the HSM, and when it stops")
    func readyAndStopping() async throws {
        let harness = try await DaemonHarness(prepared: DaemonConfiguration(), initializesToken: false)
        let heard = try NotifySocket(path: harness.directory.path("notify"))
        let daemon = try RunningProgram(
            Program.built("paytokend"), ["--config", harness.configurationFile],
            environment: ["NOTIFY_SOCKET": harness.directory.path("notify")])
        var state: String?
        try await wait(for: "READY=1") {
            state = heard.next()
            return state != nil || !daemon.isRunning
        }
        #expect(state == "READY=1\nSTATUS=Opening the HSM tokens.", "\(daemon.error)")
        for socket in [harness.socket, harness.adminSocket] {
            #expect(try await Curl.request("/healthz", socket: socket).status == 200)
        }
        #expect(try await Curl.request("/readyz", socket: harness.socket).status == 503)
        var status: String?
        try await wait(for: "why it is not ready") {
            status = heard.next() ?? status
            return status?.hasPrefix("STATUS=Not ready. token primary: ") == true
        }
        daemon.signal(SIGTERM)
        #expect(try await daemon.result().status == 0)
        var last: [String] = []
        while let next = heard.next() { last.append(next) }
        #expect(last.last == "STOPPING=1\nSTATUS=Finishing the requests under way.")
        #expect(last.dropLast().allSatisfy { $0.hasPrefix("STATUS=Not ready.") }, "\(last)")
    }

    @Test("notifies systemd's watchdog regularly while the daemon answers")
    func watchdog() async throws {
        let harness = try await DaemonHarness(prepared: DaemonConfiguration(), initializesToken: false)
        let heard = try NotifySocket(path: harness.directory.path("notify"))
        let daemon = try RunningProgram(
            Program.built("paytokend"), ["--config", harness.configurationFile],
            environment: ["NOTIFY_SOCKET": harness.directory.path("notify"), "WATCHDOG_USEC": "200000"])
        func waitForBeat() async throws {
            try await wait(for: "WATCHDOG=1") { heard.next() == "WATCHDOG=1" || !daemon.isRunning }
            #expect(daemon.isRunning, "\(daemon.error)")
        }
        for _ in 0..<3 { try await waitForBeat() }
        daemon.signal(SIGTERM)
        #expect(try await daemon.result().status == 0)
    }

    @Test("exits with 78 without a notification if it refuses the configuration")
    func refusedStart() async throws {
        let harness = try await DaemonHarness(prepared: DaemonConfiguration(), initializesToken: false)
        let heard = try NotifySocket(path: harness.directory.path("notify"))
        try harness.directory.write("listener: { sokcet: p.sock }\n", to: "paytokend.yaml")
        let ended = try await Program.run(
            Program.built("paytokend"), ["--config", harness.configurationFile],
            environment: ["NOTIFY_SOCKET": harness.directory.path("notify")])
        #expect(ended.status == 78 && ended.error.contains("did you mean socket?"), "\(ended)")
        #expect(heard.next() == nil)
    }

    @Test("notifies a socket in the abstract namespace, which containers use")
    func abstractNamespace() async throws {
        let harness = try await DaemonHarness(prepared: DaemonConfiguration(), initializesToken: false)
        let name = "paytokend-test-\(harness.directory.url.lastPathComponent)"
        let descriptor = socket(AF_UNIX, CInt(SOCK_DGRAM.rawValue) | CInt(SOCK_NONBLOCK.rawValue), 0)
        defer { close(descriptor) }
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let bytes = [0] + Array(name.utf8)
        unsafe withUnsafeMutableBytes(of: &address.sun_path) { unsafe $0.copyBytes(from: bytes) }
        let length = socklen_t(MemoryLayout<sa_family_t>.size + bytes.count)
        let bound = unsafe withUnsafePointer(to: &address) {
            unsafe $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { unsafe bind(descriptor, $0, length) }
        }
        try #require(bound == 0)
        let daemon = try RunningProgram(
            Program.built("paytokend"), ["--config", harness.configurationFile],
            environment: ["NOTIFY_SOCKET": "@" + name])
        var heard = [UInt8](repeating: 0, count: 64)
        var count = -1
        try await wait(for: "a datagram") {
            count = unsafe recv(descriptor, &heard, heard.count, 0)
            return count >= 0 || !daemon.isRunning
        }
        #expect(
            String(decoding: heard.prefix(max(count, 0)), as: UTF8.self)
                == "READY=1\nSTATUS=Opening the HSM tokens.", "\(daemon.error)")
        daemon.signal(SIGTERM)
        #expect(try await daemon.result().status == 0)
    }
}

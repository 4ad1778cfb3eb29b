import Foundation
import StrictJSON
import TestSupport
import Testing
import TokenForge

/// Restrictions of the programs' processes, as the kernel reports them.
@Suite struct ProcessHardeningTests {
    private func status(_ process: Int32, _ name: String, thread: String? = nil) throws -> String {
        let place = thread.map { "/proc/\(process)/task/\($0)/status" } ?? "/proc/\(process)/status"
        let text = try String(contentsOfFile: place, encoding: .utf8)
        let line = try #require(text.split(separator: "\n").first { $0.hasPrefix(name + ":") })
        return line.dropFirst(name.count + 1).trimmingCharacters(in: .whitespaces)
    }

    /// Returns the owner of the files in a process's directory under /proc. The directory itself always belongs to the
    /// process's account.
    private func owner(_ process: Int32) throws -> Int {
        let attributes = try FileManager.default.attributesOfItem(atPath: "/proc/\(process)/environ")
        return try #require(attributes[.ownerAccountID] as? Int)
    }

    @Test("prevents the daemon and the worker from gaining privileges, and locks the memory of their secrets")
    func privileges() async throws {
        let harness = try await SharedDaemon.harness
        let paymentToken = try SharedForge.paymentToken()
        #expect(try await harness.decrypt(paymentToken).status == 200)
        for process in [try harness.daemon.processIdentifier, try harness.worker()] {
            // The kernel stores the flag no_new_privs for each thread.
            let threads = try FileManager.default.contentsOfDirectory(atPath: "/proc/\(process)/task")
            #expect(threads.count > 1)
            for thread in threads {
                // A thread may have ended meanwhile.
                guard let flag = try? status(process, "NoNewPrivs", thread: thread) else { continue }
                #expect(flag == "1", "thread \(thread) of \(process)")
            }
            let locked = try status(process, "VmLck").split(separator: " ").first.flatMap { Int($0) } ?? 0
            #expect(locked > 0)
        }
    }

    @Test(
        "denies other processes of the same account access to the memory of the daemon and the worker",
        .enabled(if: PeerIdentity.available, "only root can start a program as another account"))
    func notDumpable() async throws {
        let identity = PeerIdentity(uid: 4242, gid: 4242)
        let harness = try await DaemonHarness(prepared: DaemonConfiguration())
        try await harness.give(to: identity)
        try await harness.start(as: identity)
        let processes = [try harness.daemon.processIdentifier, try harness.worker()]
        for process in processes {
            #expect(try status(process, "Uid").hasPrefix("4242\t"))
            #expect(try owner(process) == 0)
            // The process that tries to read has the same account, so only the owner root of the files in /proc
            // prevents it.
            let look = try await Program.run(
                Program.installed("setpriv"), identity.arguments + ["cat", "/proc/\(process)/environ"])
            #expect(look.status != 0 && look.error.contains("Permission denied"), "\(look)")
        }
        let other = try RunningProgram(Program.installed("setpriv"), identity.arguments + ["sleep", "600"])
        try await wait(for: "an ordinary program's owner") { try owner(other.processIdentifier) == 4242 }
        let look = try await Program.run(
            Program.installed("setpriv"), identity.arguments + ["cat", "/proc/\(other.processIdentifier)/environ"])
        #expect(look.status == 0)
        other.signal(SIGKILL)
        #expect(try await harness.stop().status == 0)
    }

    /// Starts a gateway with one client through a chain of commands, each of which starts the next.
    private func gateway(
        _ directory: FreshDirectory, as identity: PeerIdentity? = nil, through words: [String]
    ) async throws -> RunningProgram {
        try directory.write(
            """
            listener: { address: "unix:g" }
            admin: { socket: a }
            clients:
              - { name: shop, key_sha256: "\(String(repeating: "ab", count: 32))", merchants: ["*"], operations: [session],
                  domains: [shop.example] }
            """, to: "c.yaml")
        if let identity {
            let given = try await Program.run(
                Program.installed("chown"), ["-R", "\(identity.uid):\(identity.gid)", directory.path], environment: [:])
            try #require(given.status == 0, "\(given)")
        }
        let program = try RunningProgram(
            words[0], words.dropFirst() + [Program.built("paytoken-gateway"), "--config", directory.path("c.yaml")])
        try await wait(for: "the gateway to serve") { program.error.contains("\"serving\"") || !program.isRunning }
        try #require(program.isRunning, "\(program.error)")
        return program
    }

    @Test(
        "denies other processes access to the gateway's memory, and prevents it from gaining privileges",
        .enabled(if: PeerIdentity.available, "only root can start a program as another account"))
    func gatewayNotDumpable() async throws {
        let identity = PeerIdentity(uid: 4245, gid: 4245)
        let directory = try FreshDirectory()
        let program = try await gateway(
            directory, as: identity, through: [Program.installed("setpriv")] + identity.arguments)
        let process = program.processIdentifier
        #expect(try status(process, "Uid").hasPrefix("4245\t"))
        #expect(try owner(process) == 0)
        for thread in try FileManager.default.contentsOfDirectory(atPath: "/proc/\(process)/task") {
            // A thread may have ended meanwhile.
            guard let flag = try? status(process, "NoNewPrivs", thread: thread) else { continue }
            #expect(flag == "1", "thread \(thread)")
        }
        let look = try await Program.run(
            Program.installed("setpriv"), identity.arguments + ["cat", "/proc/\(process)/environ"])
        #expect(look.status != 0 && look.error.contains("Permission denied"), "\(look)")
        program.signal(SIGTERM)
        #expect(try await program.result().status == 0)
    }

    /// True if the kernel writes core files into a program's working directory. By core(5), the pattern then has no
    /// pipe and no path.
    private static let coresAreFiles =
        (try? String(contentsOfFile: "/proc/sys/kernel/core_pattern", encoding: .utf8)).map {
            !$0.hasPrefix("|") && !$0.contains("/") && !$0.isEmpty
        } ?? false

    @Test(
        "leaves no core file when the gateway crashes, although another program leaves one",
        .enabled(if: coresAreFiles, "run it where the kernel writes cores to files: sysctl kernel.core_pattern=core"))
    func gatewayCore() async throws {
        func started(in directory: FreshDirectory) -> [String] {
            ["/bin/sh", "-c", #"ulimit -c unlimited && cd "$0" && exec "$@""#, directory.path]
        }
        func cores(_ directory: FreshDirectory) throws -> [String] {
            try FileManager.default.contentsOfDirectory(atPath: directory.path).filter { $0.hasPrefix("core") }
        }
        let (here, there) = (try FreshDirectory(), try FreshDirectory())
        let words = try started(in: there) + [Program.installed("sleep"), "600"]
        let other = try RunningProgram(words[0], Array(words.dropFirst()))
        try await wait(for: "sleep to run") {
            try String(contentsOfFile: "/proc/\(other.processIdentifier)/comm", encoding: .utf8) == "sleep\n"
        }
        let program = try await gateway(here, through: started(in: here))
        for crashing in [other, program] {
            crashing.signal(SIGSEGV)
            _ = try await crashing.result()
        }
        #expect(try cores(there).count == 1)
        #expect(try cores(here) == [])
    }

    @Test(
        "does not raise the priority of the ledger's threads",
        .enabled(if: PeerIdentity.available, "only where it is granted, to root, does it show"))
    func priorities() async throws {
        let harness = try await SharedDaemon.harness
        let process = try harness.daemon.processIdentifier
        // These requests start the threads of the ledger's reading connections.
        for path in ["/v1/keys", "/v1/audit/records"] {
            #expect(try await harness.admin(path).status == 200)
            let threads = try FileManager.default.contentsOfDirectory(atPath: "/proc/\(process)/task")
            var raised: [String] = []
            for thread in threads {
                let place = "/proc/\(process)/task/\(thread)/stat"
                // A thread may have ended meanwhile. The nice value is the 19th field (proc(5)), or the 17th after the
                // name's closing bracket.
                guard let stat = try? String(contentsOfFile: place, encoding: .utf8),
                    let name = stat.lastIndex(of: ")"),
                    let nice = Int32(stat[name...].split(separator: " ")[17])
                else { continue }
                if nice < 0 { raised.append(thread) }
            }
            // libdispatch raises the priority of one thread, on which it receives signals.
            #expect(raised.count <= 1, "\(raised)")
        }
    }
}

/// Secrets that the system may swap because of the limit on locked memory.
@Suite struct UnlockedSecretsTests {
    private static let sentence = "secrets are not locked in memory"

    private func bytes(_ metrics: CurlAnswer) throws -> Int {
        Int(try #require(metrics.metric("paytokend_unlocked_secret_bytes").first))
    }

    private func warnings(_ status: CurlAnswer) -> [String] {
        (status.member("warnings")?.arrayValue ?? []).compactMap(\.stringValue).filter { $0.contains(Self.sentence) }
    }

    @Test(
        "reports the size of unlocked secrets in metric, status and log if the limit prevents locking",
        .enabled(if: PeerIdentity.available, "root may lock memory whatever the limit is, and only root can be another")
    )
    func unlockedSecrets() async throws {
        let identity = PeerIdentity(uid: 4243, gid: 4243)
        let harness = try await DaemonHarness(prepared: DaemonConfiguration())
        try await harness.give(to: identity)
        try await harness.start(as: identity, through: [Program.installed("prlimit"), "--memlock=0:0"])
        let pool = 65536
        let metrics = try await Curl.request("/metrics", socket: harness.adminSocket, as: identity)
        // The daemon and the worker each have at least one block of memory for secrets.
        #expect(try bytes(metrics) >= 2 * pool)
        let status = try await Curl.request("/v1/status", socket: harness.adminSocket, as: identity)
        #expect(status.status == 200, "\(status)")
        let said = warnings(status)
        #expect(said.count == 2, "\(said)")
        #expect(said.contains { $0.hasPrefix("paytokend: ") } && said.contains { $0.hasPrefix("HSM token primary: ") })
        let error = { try harness.daemon.error.split(separator: "\n").filter { $0.contains(Self.sentence) } }
        try await wait(for: "both warnings in the log") { try error().count == 2 }
        // The daemon does not repeat the warning for another worker.
        let first = try harness.worker()
        kill(first, SIGKILL)
        try await wait(for: "the next worker") { try harness.workers().contains { $0 != first } }
        try await harness.waitUntilReady()
        #expect(try await harness.stop().status == 0)
        let lines = try error()
        #expect(lines.count == 2, "\(lines)")
    }

    @Test("reports 0 in the metric and no warning when all secrets are locked")
    func lockedSecrets() async throws {
        let harness = try await SharedDaemon.harness
        #expect(try bytes(await harness.admin("/metrics")) == 0)
        #expect(warnings(try await harness.admin("/v1/status")).isEmpty)
        #expect(!(try harness.daemon.error.contains(Self.sentence)))
    }
}

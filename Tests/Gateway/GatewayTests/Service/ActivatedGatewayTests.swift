import Foundation
import TestSupport
import Testing

@testable import Gateway

/// A socket for merchants' backends that outlives the gateway, as paytoken-gateway.socket creates it
/// (sd_listen_fds(3)).
@Suite("The gateway's activated socket")
struct ActivatedGatewayTests {
    private let directory: FreshDirectory
    private let program: String

    init() throws {
        directory = try FreshDirectory()
        program = try Program.built("paytoken-gateway")
    }

    /// A program that listens at ADDRESS, writes the port into the configuration in place of PORT, and passes the
    /// socket to the gateway. It restarts the gateway as soon as it has ended, until the file `stop` exists. The
    /// gateway ends with this program.
    private static let activation = """
        import ctypes, os, socket, sys
        directory, address, name, *command = sys.argv[1:]
        if address.startswith("/"):
            listening = socket.socket(socket.AF_UNIX)
            listening.bind(address)
            listening.listen(128)
        else:
            listening = socket.create_server((address, 0), backlog=128)
            file = os.path.join(directory, "c.yaml")
            text = open(file).read().replace("PORT", str(listening.getsockname()[1]))
            open(file, "w").write(text)
        os.dup2(listening.fileno(), 100)
        os.dup2(100, 3)
        status = 0
        while not os.path.exists(os.path.join(directory, "stop")):
            gateway = os.fork()
            if gateway == 0:
                ctypes.CDLL(None).prctl(1, 9)
                os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1", LISTEN_FDNAMES=name)
                os.execv(command[0], command)
            with open(os.path.join(directory, "pid.new"), "w") as file:
                file.write(str(gateway))
            os.rename(os.path.join(directory, "pid.new"), os.path.join(directory, "pid"))
            status = os.waitstatus_to_exitcode(os.waitpid(gateway, 0)[1])
            if status != 0:
                break
        sys.exit(status)
        """

    private func write(address: String, tls: String = "") throws {
        try directory.write(
            "listener: { address: \"\(address)\"\(tls) }\nadmin: { socket: a.sock }\n" + GatewayFixture.clients(),
            to: "c.yaml")
    }

    private func start(
        at address: String = "127.0.0.1", named name: String = ServingGateway.name,
        in place: FreshDirectory? = nil
    ) throws -> RunningProgram {
        let place = place ?? directory
        return try RunningProgram(
            "/usr/bin/env",
            [
                "python3", "-c", Self.activation, place.path, address, name, program, "--config", place.path("c.yaml"),
            ])
    }

    private func gatewayProcess() throws -> pid_t {
        try requireValue(pid_t(String(contentsOfFile: directory.path("pid"), encoding: .utf8)))
    }

    private func waitUntilServing(_ running: RunningProgram, times: Int = 1) async throws {
        try await wait(for: "start \(times)") {
            running.error.components(separatedBy: "\"message\":\"serving\"").count > times || !running.isRunning
        }
        try #require(running.isRunning, "\(running.error)")
    }

    /// Sends each request on its own connection.
    private static func curl(_ url: String, _ more: [String] = []) async throws -> ProgramResult {
        try await Program.run(
            Program.installed("curl"),
            [
                "--silent", "--show-error", "--max-time", "100", "--write-out", "%{http_code}", "--output", "/dev/null",
                "--header", "Authorization: Bearer \(GatewayFixture.key)",
            ] + more + [url])
    }

    @Test("refuses no request while it restarts again and again, with and without TLS", arguments: [false, true])
    func restarts(overTLS: Bool) async throws {
        if overTLS { _ = try TestCertificates(in: directory) }
        try write(
            address: "127.0.0.1:PORT",
            tls: overTLS ? ", tls: { certificate: server.pem, private_key: server.key }" : "")
        let running = try start()
        try await waitUntilServing(running)
        let port = try #require(
            String(contentsOfFile: directory.path("c.yaml"), encoding: .utf8).firstMatch(of: /127\.0\.0\.1:(\d+)/)
        ).1
        let url = (overTLS ? "https" : "http") + "://127.0.0.1:\(port)/nothing"
        let more = overTLS ? ["--cacert", directory.path("ca.pem")] : []
        let isOver = Shared(false)
        let answers = try await withThrowingTaskGroup(of: [ProgramResult].self) { group in
            for _ in 0..<4 {
                group.addTask {
                    var answers: [ProgramResult] = []
                    repeat { answers.append(try await Self.curl(url, more)) } while !isOver.current
                    return answers
                }
            }
            for start in 2...4 {
                kill(try gatewayProcess(), SIGTERM)
                try await waitUntilServing(running, times: start)
            }
            isOver.change { $0 = true }
            return try await group.reduce(into: []) { $0 += $1 }
        }
        // The client is known, so the gateway answers 404 for an unknown path instead of 401.
        #expect(
            answers.count >= 4 && answers.allSatisfy { $0.output == "404" }, "\(answers.filter { $0.output != "404" })")
        try directory.write("", to: "stop")
        kill(try gatewayProcess(), SIGTERM)
        #expect(try await running.result().status == 0, "\(running.error)")
    }

    @Test("serves an inherited Unix socket, and keeps its file")
    func unixSocket() async throws {
        let socket = directory.path("g.sock")
        try write(address: "unix:\(socket)")
        let running = try start(at: socket)
        try await waitUntilServing(running)
        let answer = try await Self.curl("http://localhost/nothing", ["--unix-socket", socket])
        #expect(answer.output == "404", "\(answer)")
        try directory.write("", to: "stop")
        kill(try gatewayProcess(), SIGTERM)
        #expect(try await running.result().status == 0)
        #expect(FileManager.default.fileExists(atPath: socket))
    }

    @Test(
        "exits with 78 for a socket that differs from the configuration, and names both",
        arguments: [
            ("127.0.0.1", "127.0.0.1:1"), ("127.0.0.1", "[::1]:PORT"), ("127.0.0.2", "127.0.0.1:PORT"),
            ("127.0.0.1", "unix:g.sock"), ("/", "127.0.0.1:8443"),
        ])
    func disagreement(inherited: String, configured: String) async throws {
        try write(address: configured)
        let address = inherited == "/" ? directory.path("g.sock") : inherited
        let ended = try await start(at: address).result()
        #expect(ended.status == 78, "\(ended)")
        let listens = inherited == "/" ? "unix:\(address)" : inherited + ":"
        #expect(ended.error.contains("the inherited socket listens at \(listens)"))
        #expect(ended.error.contains(", and listener.address is \(configured.prefix { $0 != "P" && $0 != "g" })"))
    }

    /// A gateway without TLS serves only a loopback address, which an inherited socket must not change.
    @Test("refuses the wildcard address in place of a loopback address, even with the same port")
    func everyAddress() async throws {
        try write(address: "127.0.0.1:PORT")
        let ended = try await start(at: "0.0.0.0").result()
        #expect(ended.status == 78 && ended.error.contains("the inherited socket listens at 0.0.0.0:"), "\(ended)")
    }

    @Test("refuses a socket of another name")
    func name() async throws {
        try write(address: "127.0.0.1:PORT")
        let ended = try await start(named: "paytokend").result()
        #expect(ended.status == 78 && ended.error.contains("set FileDescriptorName= to paytoken-gateway"), "\(ended)")
    }

    /// If the gateway exited immediately, systemd would restart it for the waiting caller, and would stop the socket
    /// after a few starts.
    @Test("waits for a passing obstacle, such as another gateway at the admin socket, before it exits with 75")
    func pause() async throws {
        try write(address: "127.0.0.1:PORT")
        let first = try start()
        try await waitUntilServing(first)
        let second = try FreshDirectory()
        try second.write(
            "listener: { address: \"127.0.0.1:PORT\" }\nadmin: { socket: \(directory.path("a.sock")) }\n"
                + GatewayFixture.clients(), to: "c.yaml")
        let before = ContinuousClock.now
        let ended = try await start(in: second).result()
        #expect(ended.status == 75, "\(ended)")
        #expect(before.duration(to: .now) >= .seconds(3))
        try directory.write("", to: "stop")
        kill(try gatewayProcess(), SIGTERM)
        #expect(try await first.result().status == 0)
    }
}

/// The readiness notifications that the gateway sends to systemd, and the text that `systemctl status` shows.
@Suite("The gateway's service status")
struct GatewayServiceStatusTests {
    private let directory: FreshDirectory
    private let heard: NotifySocket

    init() throws {
        directory = try FreshDirectory()
        heard = try NotifySocket(path: directory.path("notify"))
        try directory.write(
            "listener: { address: \"127.0.0.1:0\" }\nadmin: { socket: a.sock }\npaytokend: { socket: p.sock }\n"
                + GatewayFixture.clients(), to: "c.yaml")
    }

    private func next() async throws -> String {
        var state: String?
        try await wait(for: "a state") {
            state = heard.next()
            return state != nil
        }
        return try requireValue(state)
    }

    private func start() throws -> RunningProgram {
        try RunningProgram(
            Program.built("paytoken-gateway"), ["--config", directory.path("c.yaml")],
            environment: ["NOTIFY_SOCKET": directory.path("notify")])
    }

    @Test("reports to systemd why it is not ready while paytokend is away, and a refused reload")
    func notReady() async throws {
        let running = try start()
        #expect(try await next() == "READY=1\nSTATUS=Asking paytokend.")
        let reason =
            "paytokend: paytokend does not answer at \(directory.path("p.sock")); is it running, and may the gateway's user "
            + "connect?"
        let status = try await next()
        #expect(status == "STATUS=Not ready. " + reason)
        try directory.write("clients: 1\n", to: "c.yaml")
        running.signal(SIGHUP)
        #expect(
            try await next() == status
                + " The last reload was refused, and the previous configuration stays in force: see the journal for the reason."
        )
        running.signal(SIGTERM)
        #expect(try await running.result().status == 0)
        #expect(heard.next() == "STOPPING=1\nSTATUS=Finishing the requests under way.")
    }

    @Test("reports to systemd the number of clients when paytokend is ready")
    func ready() async throws {
        let paytokend = try await SimulatedPaytokend(at: directory.path("p.sock")) { _, _ in (200, Array("{}".utf8)) }
        let running = try start()
        #expect(try await next() == "READY=1\nSTATUS=Asking paytokend.")
        #expect(try await next() == "STATUS=Serving 2 clients.")
        running.signal(SIGTERM)
        #expect(try await running.result().status == 0)
        withExtendedLifetime(paytokend) {}
    }
}

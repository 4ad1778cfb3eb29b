import Foundation
import StrictJSON
import TestSupport
import Testing
import TokenForge

/// Sockets that remain open when the daemon ends, like those of systemd's socket units (sd_listen_fds(3)).
@Suite("Sockets of a service manager")
struct ActivatedSocketTests {
    /// A program that listens, and becomes the daemon once the file `go` exists. Earlier connections wait in the
    /// backlog.
    private static let activation = """
        import os, socket, sys, time
        directory, *command = sys.argv[1:]
        for number, name in enumerate(["p.sock", "a.sock"]):
            listening = socket.socket(socket.AF_UNIX)
            listening.bind(os.path.join(directory, name))
            listening.listen(64)
            os.dup2(listening.fileno(), 100 + number)
        for number in range(2):
            os.dup2(100 + number, 3 + number)
        while not os.path.exists(os.path.join(directory, "go")):
            time.sleep(0.001)
        os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="2", LISTEN_FDNAMES="paytokend:admin")
        os.execv(command[0], command)
        """

    @Test(
        "answers connections that waited during its start, even while it opens its HSM token"
    )
    func waitingConnections() async throws {
        let harness = try await DaemonHarness(prepared: DaemonConfiguration())
        try await harness.start()
        #expect(try await harness.importMerchant(SharedForge.ecMerchant).status == 0)
        #expect(try await harness.stop().status == 0)

        let paytokend = try Program.built("paytokend")
        let directory = harness.directory.path
        let daemon = try RunningProgram(
            "/usr/bin/env",
            ["python3", "-c", Self.activation, directory, paytokend, "--config", harness.configurationFile],
            environment: ["STATE_DIRECTORY": directory])
        for socket in [harness.socket, harness.adminSocket] {
            try await wait(for: "a socket") {
                if let connection = try? await RawConnection(socket) {
                    withExtendedLifetime(connection) {}
                    return true
                }
                return !daemon.isRunning
            }
        }
        let payments = try await RawConnection(harness.socket)
        let body = Array(try SharedForge.paymentToken().decryptBody(reference: "order-1"))
        try await payments.send(Array(RawConnection.head("/v1/decrypt", length: body.count).utf8) + body)
        let administration = try await RawConnection(harness.adminSocket)
        try await administration.send("GET /v1/status HTTP/1.1\r\nHost: x\r\n\r\n")
        try harness.directory.write("", to: "go")

        let released = try await payments.answer()
        #expect(released.status == 200, "\(released.status) \(released.status == 200 ? "" : released.body)")
        #expect(try await administration.answer().status == 200)
        daemon.signal(SIGTERM)
        #expect(try await daemon.result().status == 0, "\(daemon.error)")
        // The sockets belong to the service manager, so the daemon does not remove them.
        #expect(FileManager.default.fileExists(atPath: harness.socket))
        #expect(FileManager.default.fileExists(atPath: harness.adminSocket))
    }

    /// If the daemon exited at once, systemd would start it again at once for a waiting caller, and close the socket
    /// after a few starts.
    @Test(
        "waits for a temporary fault, such as a ledger in use by another daemon, before it exits with 75")
    func waitBeforeExit() async throws {
        let harness = try await DaemonHarness(prepared: DaemonConfiguration())
        try await harness.start()
        let directory = try FreshDirectory()
        try directory.write("", to: "go")
        let before = ContinuousClock.now
        let second = try RunningProgram(
            "/usr/bin/env",
            [
                "python3", "-c", Self.activation, directory.path, try Program.built("paytokend"), "--config",
                harness.configurationFile,
            ], environment: ["STATE_DIRECTORY": harness.directory.path])
        let ended = try await second.result()
        #expect(ended.status == 75, "\(ended)")
        #expect(before.duration(to: .now) >= .seconds(3))
        #expect(try await harness.stop().status == 0)
    }
}

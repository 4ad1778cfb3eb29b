import CLinux
import Glibc
import HTTPListener
import HostSystem
import Logging
import TestSupport
import Testing

/// WATCHDOG=1 as long as a program answers its own socket, and only so long.
@Suite("Service watchdog")
struct ServiceWatchdogTests {
    private let directory: FreshDirectory
    private let heard: NotifySocket
    private let warned = Shared<[String]>([])

    init() throws {
        directory = try FreshDirectory()
        heard = try NotifySocket(path: directory.path("notify"))
    }

    private func notification(_ microseconds: String, others: [String: String] = [:]) -> ServiceNotification {
        ServiceNotification(
            environment: ["NOTIFY_SOCKET": directory.path("notify"), "WATCHDOG_USEC": microseconds].merging(others) {
                $1
            },
            processID: 17, logger: Logger(label: "test") { [warned] _ in CapturedLog(lines: warned) })
    }

    private func waitForBeat() async throws {
        var beat: String?
        try await wait(for: "a beat") {
            beat = heard.next()
            return beat != nil
        }
        #expect(beat == "WATCHDOG=1")
    }

    @Test("a listener that answers is heard of again and again, and a stopping program too")
    func alive() async throws {
        try await ListenerFixture().use { fixture in
            let path = try #require(fixture.listener.socketPaths.first)
            #expect(path == fixture.socket)
            let watchdog = try #require(ServiceWatchdog.start(notification("200000"), asking: path))
            for _ in 0..<3 { try await waitForBeat() }
            watchdog.stop()
            await fixture.listener.shutdown(grace: .zero)
            while heard.next() != nil {}
            try await waitForBeat()
        }
    }

    @Test("a program that accepts no connection or does not answer is not heard of, and once it does it is")
    func stuck() async throws {
        let path = directory.path("p.sock")
        let listening = socket(AF_UNIX, CInt(SOCK_STREAM.rawValue), 0)
        defer { close(listening) }
        try #require(unsafe paytokend_unix_bind(listening, path) == 0 && listen(listening, 64) == 0)
        _ = try #require(ServiceWatchdog.start(notification("200000"), asking: path))
        // The kernel has connected them; nobody accepts.
        try await wait(for: "two questions without an answer") { warned.current.count >= 2 }
        #expect(heard.next() == nil)
        #expect(warned.current.allSatisfy { $0.hasSuffix(" level=critical") }, "\(warned.current)")
        // Accepted and not answered.
        var accepted = [accept(listening, nil, nil)]
        let before = warned.current.count
        try await wait(for: "one more") { warned.current.count > before }
        #expect(heard.next() == nil)
        while heard.next() == nil {
            accepted.append(accept(listening, nil, nil))
            for connection in accepted { close(connection) }
            accepted = []
        }
    }

    @Test("a socket that is not there is not heard of")
    func gone() async throws {
        _ = try #require(ServiceWatchdog.start(notification("200000"), asking: directory.path("none.sock")))
        try await wait(for: "two failures") { warned.current.count >= 2 }
        #expect(heard.next() == nil && warned.current.first?.hasSuffix(" level=critical") == true)
    }

    @Test(
        "nothing is asked where the service manager did not ask for it, or asked another process",
        arguments: [
            ["WATCHDOG_USEC": ""], ["WATCHDOG_USEC": "0"], ["WATCHDOG_USEC": "-1"], ["WATCHDOG_USEC": "1s"],
            ["WATCHDOG_USEC": "99999999999999999999"], ["WATCHDOG_PID": "18"], ["WATCHDOG_PID": ""],
            ["NOTIFY_SOCKET": ""],
        ])
    func notAsked(variables: [String: String]) {
        #expect(ServiceWatchdog.start(notification("200000", others: variables), asking: "/none") == nil)
    }

    @Test("the time is the service manager's, and may name this process")
    func time() {
        #expect(notification("60000000", others: ["WATCHDOG_PID": "17"]).watchdog == .seconds(60))
    }
}

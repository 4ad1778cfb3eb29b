import CLinux
import Dispatch
import Glibc
import HTTPListener
import HostSystem
import Logging
import NIOPosix
import TestSupport
import Testing

/// The watchdog, which sends WATCHDOG=1 only while the program answers on its own socket and no watched thread is blocked.
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

    private static func start(
        _ notification: ServiceNotification, asking path: String, group: MultiThreadedEventLoopGroup = .singleton
    ) -> ServiceWatchdog? {
        ServiceWatchdog.start(notification, asking: WatchedSocket(path: path), group: group)
    }

    private func waitForBeat() async throws {
        var beat: String?
        try await wait(for: "a beat") {
            beat = heard.next()
            return beat != nil
        }
        #expect(beat == "WATCHDOG=1")
    }

    @Test("beats while a listener answers, even in a stopping program")
    func beatsWhileAnswering() async throws {
        try await ListenerFixture().use { fixture in
            let path = try #require(fixture.listener.socketPaths.first)
            #expect(path == fixture.socket)
            let watchdog = try #require(Self.start(notification("200000"), asking: path))
            for _ in 0..<3 { try await waitForBeat() }
            watchdog.stop()
            await fixture.listener.shutdown(grace: .zero)
            while heard.next() != nil {}
            try await waitForBeat()
        }
    }

    @Test("stops beating while the program accepts or answers no connection, and resumes afterwards")
    func stopsBeating() async throws {
        let path = directory.path("p.sock")
        let listening = socket(AF_UNIX, CInt(SOCK_STREAM.rawValue), 0)
        defer { close(listening) }
        try #require(unsafe paytokend_unix_bind(listening, path) == 0 && listen(listening, 64) == 0)
        _ = try #require(Self.start(notification("200000"), asking: path))
        // The kernel has connected the watchdog's connections, but the program accepts none of them.
        try await wait(for: "two probes without an answer") { warned.current.count >= 2 }
        #expect(heard.next() == nil)
        #expect(warned.current.allSatisfy { $0.hasSuffix(" level=critical") }, "\(warned.current)")
        // The program now accepts a connection, but never answers on it.
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

    @Test("names one blocked event loop of several and stops beating, and resumes once the event loop runs again")
    func blockedEventLoop() async throws {
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 3)
        let blocked = DispatchSemaphore(value: 0)
        // Blocks the second event loop of the group, which the watchdog calls event loop 1.
        Array(group.makeIterator())[1].execute { blocked.wait() }
        // The socket is served by other event loops, which are not blocked.
        try await ListenerFixture().use { fixture in
            let watchdog = try #require(Self.start(notification("200000"), asking: fixture.socket, group: group))
            try await wait(for: "three checks that failed") {
                warned.current.count { $0.contains("event loop 1") } >= 3
            }
            #expect(heard.next() == nil)
            #expect(warned.current.allSatisfy { $0.hasSuffix(" level=critical") }, "\(warned.current)")
            #expect(!warned.current.contains { $0.contains("event loop 0") && $0.contains("event loop 2") })
            blocked.signal()
            try await waitForBeat()
            watchdog.stop()
        }
    }

    @Test("stops beating when task threads run nothing although the socket answers, and queues one probe for them")
    func blockedTasks() async throws {
        let waiting = Shared<[@Sendable () -> Void]>([])
        let isBlocked = Shared(true)
        let executor = WatchedExecutor(name: "the tasks") { work in
            if isBlocked.current { waiting.change { $0.append(work) } } else { work() }
        }
        try await ListenerFixture().use { fixture in
            let watchdog = try #require(
                ServiceWatchdog.start(
                    notification("200000"), asking: WatchedSocket(path: fixture.socket), executors: [executor]))
            try await wait(for: "three checks that failed") { warned.current.count { $0.contains("the tasks") } >= 3 }
            #expect(heard.next() == nil)
            #expect(waiting.current.count == 1)
            isBlocked.change { $0 = false }
            waiting.current.first?()
            try await waitForBeat()
            watchdog.stop()
        }
    }

    @Test("probes task threads with a task, and an event loop on its own thread")
    func probesExecutors() async throws {
        let isTask = await withCheckedContinuation { found in
            WatchedExecutor.tasks.execute { found.resume(returning: unsafe withUnsafeCurrentTask { unsafe $0 != nil }) }
        }
        #expect(isTask)
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 2)
        let loops = Array(group.makeIterator())
        let watched = WatchedExecutor.eventLoops(of: group)
        #expect(watched.map(\.name) == ["event loop 0", "event loop 1"])
        for (loop, executor) in zip(loops, watched) {
            #expect(
                await withCheckedContinuation { found in
                    executor.execute { found.resume(returning: loop.inEventLoop) }
                })
        }
    }

    @Test("reports once that the file of the service manager's socket is missing, and does not ask for a restart")
    func socketFileMissing() async throws {
        let watchdog = try #require(
            ServiceWatchdog.start(
                notification("200000"), asking: WatchedSocket(path: directory.path("none.sock"), isInherited: true),
                group: MultiThreadedEventLoopGroup.singleton))
        for _ in 0..<3 { try await waitForBeat() }
        // On a busy machine, warnings of blocked threads come too.
        let ofFile = warned.current.filter { $0.contains("restart the socket's unit") }
        #expect(ofFile.count == 1, "\(warned.current)")
        #expect(ofFile.first?.hasSuffix(" level=warning") == true, "\(warned.current)")
        watchdog.stop()
    }

    @Test("does not beat for a socket that does not exist")
    func socketAbsent() async throws {
        _ = try #require(Self.start(notification("200000"), asking: directory.path("none.sock")))
        try await wait(for: "two failures") { warned.current.count >= 2 }
        #expect(heard.next() == nil && warned.current.first?.hasSuffix(" level=critical") == true)
    }

    @Test(
        "probes nothing when the service manager requested no watchdog, or one of another process",
        arguments: [
            ["WATCHDOG_USEC": ""], ["WATCHDOG_USEC": "0"], ["WATCHDOG_USEC": "-1"], ["WATCHDOG_USEC": "1s"],
            ["WATCHDOG_USEC": "99999999999999999999"], ["WATCHDOG_PID": "18"], ["WATCHDOG_PID": ""],
            ["NOTIFY_SOCKET": ""],
        ])
    func notRequested(variables: [String: String]) {
        #expect(Self.start(notification("200000", others: variables), asking: "/none") == nil)
    }

    @Test("takes the interval from the service manager, which may name this process")
    func intervalFromServiceManager() {
        #expect(notification("60000000", others: ["WATCHDOG_PID": "17"]).watchdog == .seconds(60))
    }
}

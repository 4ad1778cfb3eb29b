import Foundation
import Glibc
import NIOEmbedded
import TestSupport
import Testing

@testable import Daemon
@testable import DaemonConfiguration
@testable import HTTPListener

@Suite("Connection limits and draining")
struct ConnectionLimitTests {
    @Test("refuses a connection over the limit at once, with Retry-After, and closes it", arguments: [true, false])
    func saysOverloaded(perUID: Bool) async throws {
        try await ListenerFixture(
            change: {
                if perUID { $0.maxConnectionsPerUID = 3 } else { $0.maxConnections = 3 }
            }
        ).use { fixture in
            var held: [RawConnection] = []
            for _ in 0..<3 { held.append(try await fixture.connect()) }
            try await wait(for: "three connections") { fixture.instruments.connections.value() == 3 }
            let excess = try await fixture.connect()
            let answer = try await excess.answer()
            #expect(answer.status == 503)
            #expect(answer.body.contains("\"overloaded\""))
            #expect(Int(answer.headers["retry-after"] ?? "") ?? 0 > 0)
            try await excess.waitForEnd()

            // The open connections are served. After one of them has closed, a new connection is served too.
            try await held[0].send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(try await held[0].answer().status == 200)
            await held[1].close()
            try await wait(for: "a free place") {
                let client = try await fixture.connect()
                client.sendLossy("GET /x HTTP/1.1\r\nHost: a\r\n\r\n")
                return try await client.answer().status == 200
            }
        }
    }

    @Test("serves open connections and keeps accepting during a flood of connections")
    func survivesFlood() async throws {
        try await ListenerFixture(change: { $0.maxConnections = 4 }).use { fixture in
            let served = try await fixture.connect()
            try await served.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n")
            _ = try await served.answer()
            var flood: [RawConnection] = []
            for _ in 0..<300 {
                if let connection = try? await fixture.connect() { flood.append(connection) }
            }
            // At most four connections are served, and a few more wait for the response that refuses them. All others
            // are closed, so that they occupy no descriptor.
            let most = Double(4 + ConnectionLimits.overloadedMargin)
            try await wait(for: "the excess to be closed") { fixture.instruments.connections.value() ?? 0 <= most }
            try await served.send("GET /y HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(try await served.answer().body == "GET /y 0")
            for connection in flood { await connection.close() }
            try await wait(for: "a new connection to be served") {
                let client = try await fixture.connect()
                client.sendLossy("GET /z HTTP/1.1\r\nHost: a\r\n\r\n")
                return try await client.answer().status == 200
            }
        }
    }

    @Test("admits administration when the payments socket is full")
    func keepsAdminFree() async throws {
        try await ListenerFixture(change: { $0.maxConnections = 2 }).use { fixture in
            let first = try await fixture.connect()
            let second = try await fixture.connect()
            let admin = try await RawConnection(fixture.adminSocket, staysOpen: true)
            try await admin.send("GET /admin HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(try await admin.answer().body == "GET /admin 0")
            #expect(!first.isClosed && !second.isClosed)
        }
    }

    @Test(
        "serves other uids despite a thousand idle connections of one uid",
        .enabled(if: geteuid() == 0, "only root can connect as two users"))
    func servesOtherUIDs() async throws {
        let directory = try FreshDirectory()
        unsafe _ = chmod(directory.path, 0o755)
        try await ListenerFixture(directory: directory, change: { $0.mode = 0o666 }).use { fixture in
            var idle: [RawConnection] = []
            for _ in 0..<1_000 {
                if let connection = try? await fixture.connect() { idle.append(connection) }
            }
            let other = try await Program.run(
                Program.installed("setpriv"),
                [
                    "--reuid=12345", "--regid=23456", "--groups=34567,45678", Program.installed("curl"), "--silent",
                    "--max-time", "10", "--unix-socket", fixture.socket, "http://localhost/whoami",
                ])
            #expect(other.output == "12345 23456 [34567, 45678]")
            // A client learns of its end later than the daemon closes it.
            try await wait(for: "the excess to be closed") { idle.count { !$0.isClosed } <= 128 }
            for connection in idle { await connection.close() }
        }
    }

    @Test(
        "limits the accounts of a group to half of the places, for any number of uids",
        .enabled(if: geteuid() == 0, "only root can connect as several users"))
    func keepsPlacesForNamedAccounts() async throws {
        let directory = try FreshDirectory()
        unsafe _ = chmod(directory.path, 0o755)
        try await ListenerFixture(
            directory: directory,
            change: {
                $0.mode = 0o666
                $0.maxConnections = 16
            }
        ).use { fixture in
            let first = EchoHandler.firstSubordinateUID
            let holders = try (first..<first + 4).map { uid in
                try RunningProgram(
                    Program.installed("setpriv"),
                    [
                        "--reuid=\(uid)", "--regid=7", "--clear-groups", Program.installed("curl"), "--silent",
                        "--no-progress-meter", "--parallel", "--parallel-immediate", "--write-out",
                        "%{stderr}answer %{http_code}\n", "--output",
                        "/dev/null",
                        "--unix-socket", fixture.socket, "http://localhost/held?[1-8]",
                    ])
            }
            defer { for holder in holders { holder.signal(SIGKILL) } }
            try await wait(for: "the places of the group to be taken, and the rest to be refused") {
                fixture.handler.latch.waiting == 8
                    && holders.reduce(0) { $0 + $1.error.components(separatedBy: "answer 503").count - 1 } == 24
            }
            let other = try await Program.run(
                Program.installed("setpriv"),
                [
                    "--reuid=12345", "--regid=7", "--clear-groups", Program.installed("curl"), "--silent",
                    "--max-time", "10", "--unix-socket", fixture.socket, "http://localhost/whoami",
                ])
            #expect(other.output == "12345 7 []")
        }
    }

    @Test("closes idle connections while draining, lets busy ones finish, and accepts none")
    func drains() async throws {
        let fixture = try await ListenerFixture()
        let idle = try await fixture.connect()
        let busy = try await fixture.connect()
        try await busy.send("GET /held HTTP/1.1\r\nHost: a\r\n\r\nGET /never HTTP/1.1\r\nHost: a\r\n\r\n")
        try await wait(for: "the request to be under way") { fixture.handler.latch.waiting == 1 }
        let shutdown = Task { await fixture.listener.shutdown(grace: .seconds(20)) }
        try await idle.waitForEnd()
        await #expect(throws: (any Error).self) { _ = try await fixture.connect() }
        #expect(!busy.isClosed)
        fixture.handler.latch.open()
        let answer = try await busy.answer()
        #expect(answer.body == "GET /held 0")
        #expect(answer.headers["connection"] == "close")
        await shutdown.value
        try await busy.waitForEnd()
        #expect(fixture.handler.answered.current == 1)
        #expect(busy.text.isEmpty)
    }

    /// A peer that connects just before draining begins cannot know about the draining. Its first request is served,
    /// because the peer would otherwise see a failed request to a daemon that accepted the connection.
    @Test("answers the first request of a connection opened before draining, and no second one")
    func drainsFresh() async throws {
        let fixture = try await ListenerFixture(firstRequestWhileDraining: .minutes(10))
        let served = try await fixture.connect()
        try await served.send("GET /before HTTP/1.1\r\nHost: a\r\n\r\n")
        #expect(try await served.answer().status == 200)
        // The kernel has made this connection. The listener may not have accepted it yet.
        let fresh = try await fixture.connect()
        let shutdown = Task { await fixture.listener.shutdown(grace: .seconds(120)) }
        try await served.waitForEnd()
        try await fresh.send("GET /first HTTP/1.1\r\nHost: a\r\n\r\nGET /never HTTP/1.1\r\nHost: a\r\n\r\n")
        let answer = try await fresh.answer()
        #expect(answer.body == "GET /first 0" && answer.headers["connection"] == "close")
        try await fresh.waitForEnd()
        await shutdown.value
        #expect(fixture.handler.answered.current == 2)
    }

    @Test("serves a connection that was accepted before draining began, even if it is counted afterwards")
    func drainsLate() {
        let limits = ConnectionLimits(.init(total: 4, perSource: 4))
        #expect(limits.drain().isEmpty && limits.isDraining)
        #expect(limits.admit(EmbeddedChannel(), from: .user(1000)) == .serve)
        #expect(limits.served.count == 1)
    }

    @Test("finishes a request that is still arriving when draining starts")
    func drainsArriving() async throws {
        let fixture = try await ListenerFixture()
        let client = try await fixture.connect()
        try await client.send("POST /late HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nab")
        try await client.waitUntilRead()
        let shutdown = Task { await fixture.listener.shutdown(grace: .seconds(20)) }
        try await wait(for: "the socket file to go") { unsafe access(fixture.socket, F_OK) != 0 }
        try await client.send("cd")
        #expect(try await client.answer().body == "POST /late 4")
        await shutdown.value
    }

    @Test("closes connections that do not finish in time")
    func endsDraining() async throws {
        let fixture = try await ListenerFixture()
        let client = try await fixture.connect()
        try await client.send("GET /held HTTP/1.1\r\nHost: a\r\n\r\n")
        try await wait(for: "the request to be under way") { fixture.handler.latch.waiting == 1 }
        let start = ContinuousClock.now
        await fixture.listener.shutdown(grace: .milliseconds(300))
        #expect(ContinuousClock.now - start >= .milliseconds(300))
        try await client.waitForEnd()
        #expect(client.text.isEmpty)
        fixture.handler.latch.open()
    }

    @Test("leaves room in the descriptor limit for descriptors that are not connections")
    func keepsBelowDescriptorLimit() {
        #expect(DescriptorLimit.raise() >= 256)
        #expect(DescriptorLimit.connections(wanted: 512, limit: 65_536) == 512)
        #expect(DescriptorLimit.connections(wanted: 4_000, limit: 1_024) == 768)
        #expect(DescriptorLimit.connections(wanted: 512, limit: 64) == 16)
        #expect(DescriptorLimit.connections(wanted: 4_000, limit: 1_024, outgoing: 168) == 600)
        #expect(DescriptorLimit.connections(wanted: 4_000, limit: 1_024, outgoing: 168, ofRequests: 100) == 500)
        #expect(DescriptorLimit.connections(wanted: 4_000, limit: 1_024, outgoing: 168, ofRequests: 9_999) == 300)
    }
}

@Suite("Places at a socket")
struct ConnectionCountTests {
    private let limits = ConnectionLimits(
        ConnectionLimits.Maximum(total: 6, perSource: 3, reserved: 2), ownUID: 100)

    private func arrive(_ uid: UInt32) -> ConnectionLimits.Decision {
        limits.admit(EmbeddedChannel(), from: .user(uid))
    }

    @Test("limits one uid to its own places")
    func eachUID() {
        #expect((0..<4).map { _ in arrive(1000) } == [.serve, .serve, .serve, .refuse])
        #expect(arrive(1001) == .serve)
    }

    @Test("admits root and the daemon's own user when others have taken every place")
    func reservedPlaces() {
        for uid: UInt32 in [1000, 1000, 1000, 1001, 1001, 1001] { #expect(arrive(uid) == .serve) }
        #expect(arrive(1002) == .refuse)
        #expect(arrive(0) == .serve)
        #expect(arrive(100) == .serve)
        #expect(arrive(0) == .refuse)
    }

    @Test("frees a place when its connection ends")
    func placeFreed() {
        let channels = (0..<3).map { _ in EmbeddedChannel() }
        for channel in channels { #expect(limits.admit(channel, from: .user(1000)) == .serve) }
        #expect(arrive(1000) == .refuse)
        limits.release(channels[1], decision: .serve)
        #expect(arrive(1000) == .serve)
    }
}

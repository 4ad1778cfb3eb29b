import CLinux
import Foundation
import Glibc
import NIOPosix
import TestSupport
import Testing

@testable import DaemonConfiguration
@testable import HTTPListener
@testable import HostSystem

@Suite("Socket files")
struct SocketFileTests {
    private static func status(_ path: String) -> stat? {
        var status = stat()
        return unsafe lstat(path, &status) == 0 ? status : nil
    }

    private static func mode(_ path: String) -> UInt32? { status(path).map { $0.st_mode & 0o7777 } }

    private static func exists(_ path: String) -> Bool { unsafe access(path, F_OK) == 0 }

    /// Leaves a socket file, as a killed daemon does.
    private static func leaveStaleSocket(at path: String) {
        let descriptor = socket(AF_UNIX, CInt(SOCK_STREAM.rawValue), 0)
        unsafe _ = paytokend_unix_bind(descriptor, path)
        close(descriptor)
    }

    @Test("gives both sockets the configured modes, regardless of the umask")
    func configuredModes() async throws {
        try await ListenerFixture(change: { $0.mode = 0o666 }).use { fixture in
            #expect(Self.mode(fixture.socket) == 0o666)
            #expect(Self.mode(fixture.adminSocket) == 0o600)
        }
    }

    @Test(
        "gives the payments socket its group",
        .enabled(if: geteuid() == 0, "only root can give a file to any group"))
    func socketGroup() async throws {
        let group = try #require(Accounts.group("daemon"))
        try await ListenerFixture(change: { $0.group = group }).use { fixture in
            #expect(Self.status(fixture.socket)?.st_gid == group.id)
            #expect(Self.status(fixture.adminSocket)?.st_gid == getegid())
        }
    }

    @Test("replaces a stale socket file")
    func replacesStale() async throws {
        let directory = try FreshDirectory()
        Self.leaveStaleSocket(at: directory.path("p.sock"))
        #expect(Self.exists(directory.path("p.sock")))
        try await ListenerFixture(directory: directory).use { fixture in
            let client = try await fixture.connect()
            try await client.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(try await client.answer().status == 200)
        }
    }

    @Test(
        "refuses to start a second daemon on a live socket, and keeps the first one serving",
        arguments: ["p.sock", "a.sock"])
    func leavesLiveSocket(name: String) async throws {
        try await ListenerFixture().use { fixture in
            let other = try FreshDirectory()
            await #expect(throws: ListenerError.alreadyServed(path: fixture.directory.path(name))) {
                _ = try await ListenerFixture(
                    directory: other,
                    change: { settings in
                        if name == "p.sock" { settings.socket = fixture.socket }
                        if name == "a.sock" { settings.adminSocket = fixture.adminSocket }
                    })
            }
            #expect(try FileManager.default.contentsOfDirectory(atPath: other.path).isEmpty)
            let client = try await fixture.connect()
            try await client.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(try await client.answer().status == 200)
        }
    }

    @Test("lets exactly one of two daemons serve that start on a stale socket at the same time")
    func racesForStale() async throws {
        for _ in 0..<5 {
            let directory = try FreshDirectory()
            Self.leaveStaleSocket(at: directory.path("s"))
            let outcomes = await withTaskGroup(of: Result<CInt, ListenerError>.self) { group in
                for _ in 0..<4 {
                    group.addTask {
                        do throws(ListenerError) {
                            return .success(
                                try SocketFile.listen(path: directory.path("s"), mode: 0o600, group: nil).descriptor)
                        } catch { return .failure(error) }
                    }
                }
                return await group.reduce(into: []) { $0.append($1) }
            }
            let served = outcomes.compactMap { try? $0.get() }
            #expect(served.count == 1)
            #expect(outcomes.count { $0 == .failure(.alreadyServed(path: directory.path("s"))) } == 3)
            for descriptor in served { close(descriptor) }
        }
    }

    @Test("leaves a file that is not a socket alone")
    func leavesFiles() async throws {
        let directory = try FreshDirectory()
        try directory.write("precious", to: "p.sock")
        await #expect(throws: ListenerError.self) { _ = try await ListenerFixture(directory: directory) }
        #expect(try String(contentsOfFile: directory.path("p.sock"), encoding: .utf8) == "precious")
    }

    @Test("does not follow a symbolic link")
    func followsNoLink() async throws {
        let directory = try FreshDirectory()
        try directory.write("precious", to: "target", mode: 0o600)
        try FileManager.default.createSymbolicLink(
            atPath: directory.path("p.sock"), withDestinationPath: directory.path("target"))
        await #expect(throws: ListenerError.self) { _ = try await ListenerFixture(directory: directory) }
        #expect(Self.mode(directory.path("target")) == 0o600)
    }

    @Test("names a missing directory")
    func namesDirectory() async throws {
        let directory = try FreshDirectory()
        let error = await #expect(throws: ListenerError.self) {
            _ = try await ListenerFixture(directory: directory, change: { $0.socket = directory.path("no/p.sock") })
        }
        #expect(error?.description.contains(directory.path("no")) == true)
    }

    @Test("refuses a path that does not fit a socket address")
    func refusesLongPath() async throws {
        let directory = try FreshDirectory()
        let error = await #expect(throws: ListenerError.self) {
            _ = try await ListenerFixture(
                directory: directory, change: { $0.socket = directory.path(String(repeating: "p", count: 100)) })
        }
        #expect(error?.description.contains("107 bytes") == true)
    }

    @Test("removes both files at shutdown")
    func removesFiles() async throws {
        let fixture = try await ListenerFixture()
        try await fixture.use { _ in }
        #expect(!Self.exists(fixture.socket))
        #expect(!Self.exists(fixture.adminSocket))
    }

    @Test("does not remove a file that has replaced the socket")
    func leavesSuccessor() async throws {
        let fixture = try await ListenerFixture()
        try await fixture.use { _ in
            try FileManager.default.removeItem(atPath: fixture.socket)
            Self.leaveStaleSocket(at: fixture.socket)
        }
        #expect(Self.exists(fixture.socket))
        #expect(!Self.exists(fixture.adminSocket))
    }

    @Test("removes the payments socket when the admin socket cannot be made")
    func cleansUpAfterFailure() async throws {
        let directory = try FreshDirectory()
        try directory.write("x", to: "a.sock")
        await #expect(throws: ListenerError.self) { _ = try await ListenerFixture(directory: directory) }
        #expect(!Self.exists(directory.path("p.sock")))
    }
}

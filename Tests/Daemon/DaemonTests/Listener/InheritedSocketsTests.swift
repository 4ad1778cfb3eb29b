import CLinux
import Glibc
import ServerProgram
import TestSupport
import Testing

@testable import Daemon
@testable import HTTPListener

@Suite("Inherited sockets")
struct InheritedSocketsTests {
    /// Returns the descriptor of a listening socket, as a service manager passes it.
    private static func listening(
        in directory: FreshDirectory, type: CInt = CInt(SOCK_STREAM.rawValue), listens: Bool = true
    ) -> CInt {
        let descriptor = socket(AF_UNIX, type, 0)
        unsafe _ = paytokend_unix_bind(descriptor, directory.path("inherited"))
        if listens { listen(descriptor, 16) }
        return descriptor
    }

    private static func inherit(_ descriptor: CInt, names: String?, count: String = "1", pid: String? = nil)
        throws(ListenerError) -> InheritedSockets
    {
        try InheritedSockets(
            named: ["paytokend", "admin"], processID: pid ?? "\(getpid())", count: count, names: names,
            ownProcessID: getpid(),
            firstDescriptor: descriptor)
    }

    @Test("serves a socket named paytokend instead of the path, and keeps its file")
    func servesInheritedSocket() async throws {
        let directory = try FreshDirectory()
        let descriptor = Self.listening(in: directory)
        let inherited = try Self.inherit(descriptor, names: "paytokend")
        #expect(inherited["paytokend"]?.descriptor == descriptor && inherited["admin"] == nil)
        #expect(inherited["paytokend"]?.address == .unix(path: directory.path("inherited")))
        #expect(fcntl(descriptor, F_GETFD) & FD_CLOEXEC != 0)
        let fixture = try await ListenerFixture(directory: directory, inherited: inherited)
        try await fixture.use { _ in
            #expect(unsafe access(fixture.socket, F_OK) != 0)
            #expect(unsafe access(fixture.adminSocket, F_OK) == 0)
            let client = try await RawConnection(directory.path("inherited"), staysOpen: true)
            try await client.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(try await client.answer().status == 200)
        }
        #expect(unsafe access(directory.path("inherited"), F_OK) == 0)
    }

    @Test("ignores sockets meant for another process")
    func ignoresOthers() throws {
        let sockets = try Self.inherit(3, names: "paytokend", pid: "1")
        #expect(sockets == InheritedSockets())
    }

    @Test(
        "refuses unknown, missing and repeated names", arguments: [nil, "", "web", "paytokend.socket", "admin\n"])
    func refusesNames(names: String?) throws {
        let directory = try FreshDirectory()
        let descriptor = Self.listening(in: directory)
        defer { close(descriptor) }
        #expect(throws: ListenerError.self) { try Self.inherit(descriptor, names: names) }
    }

    /// A socket of the abstract namespace has neither an owner nor a mode, and the watchdog could not connect to it.
    @Test("refuses a socket of the abstract namespace with status 78")
    func refusesAbstract() throws {
        let abstract = socket(AF_UNIX, CInt(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let name = [0] + Array("paytokend-inherited-\(getpid())".utf8)
        unsafe withUnsafeMutableBytes(of: &address.sun_path) { unsafe $0.copyBytes(from: name) }
        let length = socklen_t(MemoryLayout<sa_family_t>.size + name.count)
        let bound = unsafe withUnsafePointer(to: &address) {
            unsafe $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { unsafe bind(abstract, $0, length) }
        }
        defer { close(abstract) }
        try #require(bound == 0 && listen(abstract, 1) == 0)
        let refused = #expect(throws: ListenerError.self) { try Self.inherit(abstract, names: "paytokend") }
        let error = try #require(refused)
        #expect(error.description.contains("(paytokend) is a Unix socket without a path; use ListenStream="))
        #expect(StartFailure(listener: error).exitStatus == .configuration)
    }

    @Test("refuses a socket with a relative path, because its base is unknown")
    func refusesRelative() throws {
        let directory = try FreshDirectory()
        let path = String(repeating: "../", count: 12) + directory.path("s").dropFirst()
        let descriptor = socket(AF_UNIX, CInt(SOCK_STREAM.rawValue), 0)
        defer { close(descriptor) }
        try #require(unsafe paytokend_unix_bind(descriptor, path) == 0 && listen(descriptor, 1) == 0)
        let refused = #expect(throws: ListenerError.self) { try Self.inherit(descriptor, names: "paytokend") }
        #expect(try #require(refused).description.contains("(paytokend) is a Unix socket with a relative path; use"))
    }

    @Test("reads a path of 108 bytes, which has no terminator, completely")
    func longestPath() throws {
        let directory = try FreshDirectory()
        let missing = 107 - (directory.path + "/").utf8.count
        let path = directory.path(String(repeating: "p", count: missing))
        let descriptor = socket(AF_UNIX, CInt(SOCK_STREAM.rawValue), 0)
        defer { close(descriptor) }
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let bytes = Array(path.utf8) + Array("q".utf8)
        try #require(bytes.count == 108)
        unsafe withUnsafeMutableBytes(of: &address.sun_path) { unsafe $0.copyBytes(from: bytes) }
        let bound = unsafe withUnsafePointer(to: &address) {
            unsafe $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                unsafe bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        try #require(bound == 0 && listen(descriptor, 1) == 0)
        #expect(try Self.inherit(descriptor, names: "admin")["admin"]?.address == .unix(path: path + "q"))
    }

    @Test("refuses a network socket for the daemon, which could not identify callers there")
    func refusesNetwork() async throws {
        let network = socket(AF_INET, CInt(SOCK_STREAM.rawValue), 0)
        try #require(listen(network, 1) == 0)
        let inherited = try Self.inherit(network, names: "paytokend")
        let error = await #expect(throws: ListenerError.self) { try await ListenerFixture(inherited: inherited) }
        #expect(error?.description.contains("use ListenStream= with a path") == true)
        close(network)
    }

    @Test("refuses a descriptor that is not a listening stream socket")
    func refusesOtherDescriptors() throws {
        let directory = try FreshDirectory()
        let silent = Self.listening(in: directory, listens: false)
        let datagram = socket(AF_UNIX, CInt(SOCK_DGRAM.rawValue), 0)
        let network = socket(AF_INET, CInt(SOCK_STREAM.rawValue), 0)
        let file = unsafe open("/dev/null", O_RDONLY)
        defer { for descriptor in [silent, datagram, network, file] { close(descriptor) } }
        for descriptor in [silent, datagram, network, file, 60_000] {
            #expect(throws: ListenerError.self, "descriptor \(descriptor)") {
                try Self.inherit(descriptor, names: "admin")
            }
        }
    }

    @Test("refuses a count that is not a small number", arguments: ["-1", "65", "x", "99999999999"])
    func refusesCount(count: String) {
        #expect(throws: ListenerError.self) { try Self.inherit(3, names: "paytokend", count: count) }
    }
}

import CLinux
import Glibc
import TestSupport
import Testing

@testable import Daemon
@testable import HTTPListener

@Suite("Inherited sockets")
struct InheritedSocketsTests {
    /// A descriptor as a service manager would pass it.
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
            processID: pid ?? "\(getpid())", count: count, names: names, ownProcessID: getpid(),
            firstDescriptor: descriptor)
    }

    @Test("a socket named paytokend is served instead of the path, and its file stays")
    func serves() async throws {
        let directory = try FreshDirectory()
        let descriptor = Self.listening(in: directory)
        let inherited = try Self.inherit(descriptor, names: "paytokend")
        #expect(inherited.descriptors == [.payments: descriptor])
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

    @Test("what is meant for another process is ignored")
    func ignoresOthers() throws {
        let sockets = try Self.inherit(3, names: "paytokend", pid: "1")
        #expect(sockets.descriptors.isEmpty)
    }

    @Test(
        "unknown, missing and repeated names are refused", arguments: [nil, "", "web", "paytokend.socket", "admin\n"])
    func refusesNames(names: String?) throws {
        let directory = try FreshDirectory()
        let descriptor = Self.listening(in: directory)
        defer { close(descriptor) }
        #expect(throws: ListenerError.self) { try Self.inherit(descriptor, names: names) }
    }

    @Test("what is no listening Unix stream socket is refused")
    func refusesOtherDescriptors() throws {
        let directory = try FreshDirectory()
        let silent = Self.listening(in: directory, listens: false)
        let datagram = socket(AF_UNIX, CInt(SOCK_DGRAM.rawValue), 0)
        let network = socket(AF_INET, CInt(SOCK_STREAM.rawValue), 0)
        listen(network, 1)
        let file = unsafe open("/dev/null", O_RDONLY)
        defer { for descriptor in [silent, datagram, network, file] { close(descriptor) } }
        for descriptor in [silent, datagram, network, file, 60_000] {
            #expect(throws: ListenerError.self, "descriptor \(descriptor)") {
                try Self.inherit(descriptor, names: "admin")
            }
        }
    }

    @Test("a count that is no small number is refused", arguments: ["-1", "65", "x", "99999999999"])
    func refusesCount(count: String) {
        #expect(throws: ListenerError.self) { try Self.inherit(3, names: "paytokend", count: count) }
    }
}

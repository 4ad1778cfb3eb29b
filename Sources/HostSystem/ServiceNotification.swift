import CLinux
import Foundation
package import Logging

/// What systemd is told of a service of Type=notify (sd_notify(3)): one datagram to the socket that NOTIFY_SOCKET names.
/// Without that variable nobody asked, and nothing is sent.
package struct ServiceNotification: Sendable {
    package enum State: String, Sendable {
        /// Configuration, sockets and what a program stores are open. Not that an HSM token is: `systemctl start`, and with it the
        /// installation of a package, would wait for an HSM that is away.
        case ready = "READY=1"
        /// No new connections are taken; what is under way is being finished.
        case stopping = "STOPPING=1"
    }

    /// A path, or `@` and a name in the abstract namespace; nil when nobody asked.
    package let socket: String?
    package let logger: Logger

    package init(environment: [String: String] = ProcessInfo.processInfo.environment, logger: Logger) {
        socket = environment["NOTIFY_SOCKET"].flatMap { $0.isEmpty ? nil : $0 }
        self.logger = logger
    }

    package func notify(_ state: State) {
        guard let socket else { return }
        let error = unsafe paytokend_unix_send(socket, state.rawValue)
        guard error != 0 else { return }
        logger.error(
            "the service manager could not be told of this service's state",
            metadata: [
                "state": "\(state.rawValue)", "socket": "\(socket)",
                "reason": "\(SystemError(call: "sendto", errno: error))",
            ])
    }
}

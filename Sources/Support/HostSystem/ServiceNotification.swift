import CLinux
import Foundation
package import Logging

// Unsafe: The C function uses both strings only until it returns.

/// Notifications to systemd from a service of Type=notify (sd_notify(3)): one datagram to the socket in NOTIFY_SOCKET.
/// Without that variable, nothing is sent.
package struct ServiceNotification: Sendable {
    package enum State: Sendable, Equatable {
        /// Configuration, sockets and stored data are open. It does not mean that an HSM token is open, because
        /// otherwise `systemctl start`, and thus the installation of a package, would wait for an unreachable HSM.
        case ready
        /// The service accepts no new connections and finishes running requests.
        case stopping
        /// The program is responsive. If WatchdogSec= is set and this notification does not arrive in time, systemd
        /// restarts the service.
        case alive
        /// The status line of `systemctl status`. Any text is reduced to one line of at most
        /// ``ServiceNotification/longestStatus`` bytes.
        case status(String)

        /// The assignment in sd_notify(3)'s format.
        var line: String {
            switch self {
            case .ready: "READY=1"
            case .stopping: "STOPPING=1"
            case .alive: "WATCHDOG=1"
            case .status(let text): "STATUS=" + ServiceNotification.line(text)
            }
        }
    }

    /// The limit in bytes of UTF-8: a few lines of a terminal.
    package static let longestStatus = 400

    /// A path, or `@` and a name in the abstract namespace; nil without a service manager.
    package let socket: String?
    /// The period within which the service manager expects ``State/alive`` again; nil without a watchdog
    /// (sd_watchdog_enabled(3)).
    package let watchdog: Duration?
    package let logger: Logger

    package init(
        environment: [String: String] = ProcessInfo.processInfo.environment,
        processID: Int32 = ProcessInfo.processInfo.processIdentifier, logger: Logger
    ) {
        socket = environment["NOTIFY_SOCKET"].flatMap { $0.isEmpty ? nil : $0 }
        let isForThisProcess = environment["WATCHDOG_PID"].map { Int32($0) == processID } ?? true
        // Int64, because that is what Duration accepts. A period of more than a year counts as none.
        let microseconds = environment["WATCHDOG_USEC"].flatMap(Int64.init)
        watchdog = microseconds.flatMap {
            isForThisProcess && (1...31_536_000_000_000).contains($0) ? .microseconds($0) : nil
        }
        self.logger = logger
    }

    /// Sends the states in one datagram, so that systemd applies them together.
    package func notify(_ states: State...) {
        guard let socket else { return }
        let lines = states.map(\.line).joined(separator: "\n")
        let error = unsafe paytokend_unix_send(socket, lines)
        guard error != 0 else { return }
        logger.error(
            "the service manager could not be notified of this service's state",
            metadata: [
                "state": "\(lines)", "socket": "\(socket)",
                "reason": "\(SystemError(call: "sendto", errno: error))",
            ])
    }

    /// Removes line ends: in a status, they would start another assignment, such as WATCHDOG=1 or FDSTORE=1.
    private static func line(_ text: String) -> String {
        let spaced = String(
            String.UnicodeScalarView(text.unicodeScalars.map { $0.properties.generalCategory == .control ? " " : $0 }))
        guard spaced.utf8.count > longestStatus else { return spaced }
        var cut = ""
        for character in spaced {
            guard cut.utf8.count + character.utf8.count + "…".utf8.count <= longestStatus else { break }
            cut.append(character)
        }
        return cut + "…"
    }
}

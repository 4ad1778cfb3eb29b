import CLinux
import Foundation
package import Logging

/// What systemd is told of a service of Type=notify (sd_notify(3)): one datagram to the socket that NOTIFY_SOCKET names.
/// Without that variable nobody asked, and nothing is sent.
package struct ServiceNotification: Sendable {
    package enum State: Sendable, Equatable {
        /// Configuration, sockets and what a program stores are open. Not that an HSM token is: `systemctl start`, and with it the
        /// installation of a package, would wait for an HSM that is away.
        case ready
        /// No new connections are taken; what is under way is being finished.
        case stopping
        /// The program answers. Where WatchdogSec= is set and this does not come in time, systemd ends the service and starts
        /// it again.
        case alive
        /// What `systemctl status` shows beside the state. Any text: it is made one line of at most
        /// ``ServiceNotification/longestStatus`` bytes.
        case status(String)

        /// An assignment of sd_notify(3).
        var line: String {
            switch self {
            case .ready: "READY=1"
            case .stopping: "STOPPING=1"
            case .alive: "WATCHDOG=1"
            case .status(let text): "STATUS=" + ServiceNotification.line(text)
            }
        }
    }

    /// Bytes of UTF-8: a few lines of a terminal.
    package static let longestStatus = 400

    /// A path, or `@` and a name in the abstract namespace; nil when nobody asked.
    package let socket: String?
    /// Within which time the service manager wants to hear ``State/alive`` again; nil when it does not (sd_watchdog_enabled(3)).
    package let watchdog: Duration?
    package let logger: Logger

    package init(
        environment: [String: String] = ProcessInfo.processInfo.environment,
        processID: Int32 = ProcessInfo.processInfo.processIdentifier, logger: Logger
    ) {
        socket = environment["NOTIFY_SOCKET"].flatMap { $0.isEmpty ? nil : $0 }
        let isForThisProcess = environment["WATCHDOG_PID"].map { Int32($0) == processID } ?? true
        // Int64, since Duration takes no more; longer than a year is none.
        let microseconds = environment["WATCHDOG_USEC"].flatMap(Int64.init)
        watchdog = microseconds.flatMap {
            isForThisProcess && (1...31_536_000_000_000).contains($0) ? .microseconds($0) : nil
        }
        self.logger = logger
    }

    /// Sends these together, so that what they say of each other is seen at once.
    package func notify(_ states: State...) {
        guard let socket else { return }
        let lines = states.map(\.line).joined(separator: "\n")
        let error = unsafe paytokend_unix_send(socket, lines)
        guard error != 0 else { return }
        logger.error(
            "the service manager could not be told of this service's state",
            metadata: [
                "state": "\(lines)", "socket": "\(socket)",
                "reason": "\(SystemError(call: "sendto", errno: error))",
            ])
    }

    /// A line end in a status would begin another assignment: WATCHDOG=1, or FDSTORE=1.
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

import CLinux
import Foundation
import Glibc
package import HostSystem
import Synchronization

/// Tells the service manager that this program answers, for as long as it does (`WatchdogSec=`, sd_notify(3)).
///
/// Several times within the time that the service manager gives, a thread of its own asks the program's own socket for
/// `/healthz`, as a caller would. That goes through all that a program can be stuck in: accepting, the event loops, the pool
/// that Swift's tasks share. It goes through nothing outside the program, neither the HSM nor the ledger: what is away there
/// does not come back because this program is started again.
///
/// A connection that is closed without an answer counts as answered: the program refuses it, for want of room.
package final class ServiceWatchdog: Sendable {
    private let notification: ServiceNotification
    private let path: String
    private let pause: Duration
    private let stopping = Atomic(false)

    /// - Parameters:
    ///   - path: a Unix socket on which this program serves `GET /healthz` to its own user.
    /// - Returns: nil where the service manager does not ask for it.
    package static func start(_ notification: ServiceNotification, asking path: String) -> ServiceWatchdog? {
        guard let time = notification.watchdog, notification.socket != nil else { return nil }
        let watchdog = ServiceWatchdog(notification, path, within: time)
        Thread.detachNewThread { watchdog.run() }
        return watchdog
    }

    private init(_ notification: ServiceNotification, _ path: String, within time: Duration) {
        self.notification = notification
        self.path = path
        // One question that is asked and not answered, and one more, fit into the time.
        pause = time / 5
    }

    /// From now on nothing is asked, since the program closes its sockets; that it stops in time is watched by the service
    /// manager (TimeoutStopSec=).
    package func stop() { stopping.store(true, ordering: .relaxed) }

    private func run() {
        var isForbiddenSaid = false
        while true {
            let answer = stopping.load(ordering: .relaxed) ? .answered : ask()
            switch answer {
            case .answered: notification.notify(.alive)
            case .forbidden(let error):
                notification.notify(.alive)
                guard !isForbiddenSaid else { break }
                isForbiddenSaid = true
                notification.logger.warning(
                    "the watchdog cannot ask this program's own socket, and trusts it; let the program's user connect",
                    metadata: ["socket": "\(path)", "reason": "\(error)"])
            case .silent(let error):
                notification.logger.critical(
                    "this program does not answer its own socket; unless it does, the service manager ends it and starts it again",
                    metadata: ["socket": "\(path)", "reason": "\(error)"])
            }
            Thread.sleep(forTimeInterval: pause / .seconds(1))
        }
    }

    private enum Answer {
        case answered
        case silent(SystemError)
        /// Somebody else made the socket, and lets this program's user not connect.
        case forbidden(SystemError)
    }

    private static let question = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"

    /// Takes at most twice ``pause``: once to connect, once for the answer.
    private func ask() -> Answer {
        let connection = socket(AF_UNIX, CInt(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        guard connection >= 0 else { return .silent(SystemError(call: "socket", errno: errno)) }
        defer { close(connection) }
        let (seconds, attoseconds) = pause.components
        var limit = timeval(tv_sec: Int(seconds), tv_usec: Int(attoseconds / 1_000_000_000_000))
        let size = socklen_t(MemoryLayout<timeval>.size)
        for option in [SO_SNDTIMEO, SO_RCVTIMEO] {
            guard unsafe setsockopt(connection, SOL_SOCKET, option, &limit, size) == 0 else {
                return .silent(SystemError(call: "setsockopt", errno: errno))
            }
        }
        switch unsafe paytokend_unix_connect(connection, path) {
        case 0: break
        case let error where error == EACCES || error == EPERM:
            return .forbidden(SystemError(call: "connect", errno: error))
        case let error: return .silent(SystemError(call: "connect", errno: error))
        }
        let question = Array(Self.question.utf8)
        // What fails because the program has closed the connection shows in recv as well.
        _ = unsafe send(connection, question, question.count, CInt(MSG_NOSIGNAL))
        var first: UInt8 = 0
        guard unsafe recv(connection, &first, 1, 0) >= 0 || errno == ECONNRESET else {
            return .silent(SystemError(call: "recv", errno: errno))
        }
        return .answered
    }
}

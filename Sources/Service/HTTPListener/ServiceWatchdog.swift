import CLinux
import Foundation
import Glibc
package import HostSystem
import Locks
package import NIOCore

// Unsafe: The system calls use their buffers only until they return, and receive the buffers' lengths.

/// A Unix socket on which this program serves `GET /healthz` to its own user.
package struct WatchedSocket: Sendable {
    package let path: String
    /// True if the service manager made the socket; a restart of this program then does not restore a lost file.
    package let isInherited: Bool

    package init(path: String, isInherited: Bool = false) {
        self.path = path
        self.isInherited = isInherited
    }
}

/// Notifies the service manager while this program responds (`WatchdogSec=`, sd_notify(3)).
///
/// Several times within the watchdog time, a separate thread requests `/healthz` on the program's own socket, as a caller
/// would. It also runs a piece of work on each of the program's event loops and on the threads that Swift's tasks share. The
/// request alone would miss blocked threads: one connection belongs to one event loop, and may need no task. All of them must
/// respond. Nothing outside the program is queried, neither the HSM nor the ledger: restarting this program does not make
/// them available again.
///
/// A connection that is closed without an answer counts as answered: the program refuses it because it has no room.
package final class ServiceWatchdog: Sendable {
    private let notification: ServiceNotification
    private let socket: WatchedSocket
    private let rounds: [ExecutorRounds]
    private let pause: Duration
    private let stopping = Atomic(false)

    /// - Parameters:
    ///   - socket: a socket of this program.
    ///   - group: all event loops that serve the program's connections.
    /// - Returns: nil if the service manager has no watchdog for this program.
    package static func start(
        _ notification: ServiceNotification, asking socket: WatchedSocket, group: any EventLoopGroup
    ) -> ServiceWatchdog? {
        start(notification, asking: socket, executors: [.tasks] + WatchedExecutor.eventLoops(of: group))
    }

    /// Starts a watchdog with the given executors.
    package static func start(
        _ notification: ServiceNotification, asking socket: WatchedSocket, executors: [WatchedExecutor]
    ) -> ServiceWatchdog? {
        guard let time = notification.watchdog, notification.socket != nil else { return nil }
        let watchdog = ServiceWatchdog(notification, socket, executors, within: time)
        Thread.detachNewThread { watchdog.run() }
        return watchdog
    }

    private init(
        _ notification: ServiceNotification, _ socket: WatchedSocket, _ executors: [WatchedExecutor],
        within time: Duration
    ) {
        self.notification = notification
        self.socket = socket
        rounds = executors.map(ExecutorRounds.init)
        // With this pause, the watchdog time covers a check that fails (two pauses), a pause, and another check (two
        // pauses).
        pause = time / 5
    }

    /// Stops the checks, because the program is closing its sockets. The service manager still receives notifications,
    /// and limits the time of the stop itself (TimeoutStopSec=).
    package func stop() { stopping.store(true, ordering: .relaxed) }

    private func run() {
        var isWarned = false
        while true {
            switch stopping.load(ordering: .relaxed) ? .alive : check() {
            case .alive: notification.notify(.alive)
            case .trusted(let warning, let error):
                notification.notify(.alive)
                guard !isWarned else { break }
                isWarned = true
                notification.logger.warning(
                    "\(warning)", metadata: ["socket": "\(socket.path)", "reason": "\(error)"])
            case .silent(let error):
                notification.logger.critical(
                    "this program does not answer its own socket; unless it does, the service manager restarts it",
                    metadata: ["socket": "\(socket.path)", "reason": "\(error)"])
            case .blocked(let names):
                notification.logger.critical(
                    "threads of this program are blocked; unless they continue, the service manager restarts it",
                    metadata: ["blocked": "\(names.joined(separator: ", "))"])
            }
            Thread.sleep(forTimeInterval: pause / .seconds(1))
        }
    }

    private enum Finding {
        case alive
        /// The socket cannot be queried, for a reason outside this program, and the executors respond.
        case trusted(warning: String, SystemError)
        case silent(SystemError)
        /// The executors that did not run the work.
        case blocked([String])
    }

    /// Checks the program once. Takes at most twice ``pause``.
    private func check() -> Finding {
        let end = DispatchTime.now() + 2 * (pause / .seconds(1))
        for round in rounds { round.begin() }
        let finding: Finding
        switch ask() {
        case .answered: finding = .alive
        case .silent(let error): return .silent(error)
        case .forbidden(let error):
            finding = .trusted(
                warning:
                    "the watchdog cannot connect to this program's own socket, and assumes that it works; let the program's user connect",
                error)
        case .lost(let error):
            finding = .trusted(
                warning:
                    "the file of the service manager's socket is gone, so no caller can connect; restart the socket's unit and this one",
                error)
        }
        let blocked = rounds.filter { !$0.ended(by: end) }.map(\.name)
        return blocked.isEmpty ? finding : .blocked(blocked)
    }

    private enum Answer {
        case answered
        case silent(SystemError)
        /// Another party made the socket, and does not let this program's user connect.
        case forbidden(SystemError)
        /// The service manager made the socket, and its file no longer exists.
        case lost(SystemError)
    }

    private static let question = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"

    /// Sends one request. Takes at most twice ``pause``: once to connect, once for the answer.
    private func ask() -> Answer {
        let connection = Glibc.socket(AF_UNIX, CInt(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
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
        switch unsafe paytokend_unix_connect(connection, socket.path) {
        case 0: break
        case let error where error == EACCES || error == EPERM:
            return .forbidden(SystemError(call: "connect", errno: error))
        case ENOENT where socket.isInherited:
            return .lost(SystemError(call: "connect", errno: ENOENT))
        case let error: return .silent(SystemError(call: "connect", errno: error))
        }
        let question = Array(Self.question.utf8)
        // If sending fails because the program has closed the connection, recv reports it as well.
        _ = unsafe send(connection, question, question.count, CInt(MSG_NOSIGNAL))
        var first: UInt8 = 0
        guard unsafe recv(connection, &first, 1, 0) >= 0 || errno == ECONNRESET else {
            return .silent(SystemError(call: "recv", errno: errno))
        }
        return .answered
    }
}

/// Rounds of work for one executor. Each round starts after the previous one has run, so that work does not pile up on
/// a blocked executor.
private final class ExecutorRounds: Sendable {
    private struct State {
        var isRunning = false
        var hasEnded = DispatchSemaphore(value: 0)
    }

    private let executor: WatchedExecutor
    private let state = Mutex(State())

    var name: String { executor.name }

    init(_ executor: WatchedExecutor) {
        self.executor = executor
    }

    func begin() {
        let isNew = state.withLock { state in
            guard !state.isRunning else { return false }
            state = State(isRunning: true)
            return true
        }
        guard isNew else { return }
        executor.execute { [self] in
            state.withLock { state in
                state.isRunning = false
                state.hasEnded.signal()
            }
        }
    }

    /// Waits until `end` for the work that was started last.
    ///
    /// - Returns: true if that work has run.
    func ended(by end: DispatchTime) -> Bool {
        state.withLock { $0.hasEnded }.wait(timeout: end) == .success
    }
}

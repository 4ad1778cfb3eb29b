import Logging
import NIOCore

/// The daemon's two listening sockets and the connections that came through them.
final class Listener: Sendable {
    /// Binds (or takes over inherited sockets), and serves until ``shutdown(grace:)``.
    /// - Throws: ``ListenerError``; `.alreadyServed` when another daemon listens there, which ends with exit status 75.
    static func start(
        settings: ListenerSettings, inherited: InheritedSockets, handler: any RequestHandler,
        instruments: Instruments, group: any EventLoopGroup, logger: Logger
    ) async throws(ListenerError) -> Listener {
        Listener()
    }

    /// Stops accepting, closes idle connections, lets the others finish their request for at most `grace`, closes what
    /// is left and unlinks the socket files that are still ours.
    func shutdown(grace: Duration = .seconds(30)) async {}
}

/// Why the daemon cannot listen.
enum ListenerError: Error, Sendable, Equatable, CustomStringConvertible {
    /// A daemon answers on this socket; nothing was unlinked. Exit status 75.
    case alreadyServed(path: String)
    /// Anything else: what failed, with what, and what to do.
    case unusable(String)

    var description: String {
        switch self {
        case .alreadyServed(let path):
            "another daemon already serves \(path); stop it first, or configure another path"
        case .unusable(let what): what
        }
    }
}

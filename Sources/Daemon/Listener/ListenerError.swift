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

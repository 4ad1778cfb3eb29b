/// Why there is no answer. Each says what was wrong, with what, and what to do.
public enum UnixSocketClientError: Error, Sendable, Equatable, CustomStringConvertible {
    /// ENOENT: nothing at that path.
    case notThere(path: String)
    /// ECONNREFUSED: a socket file that nobody listens on.
    case notListening(path: String)
    /// EAGAIN: the queue of connections that wait to be accepted is full.
    case busy(path: String)
    /// EACCES, EPERM.
    case notPermitted(path: String)
    /// More bytes than `sockaddr_un` has room for (108 with the terminating zero on Linux).
    case pathTooLong(path: String)
    /// Any other error of connect(2), by its number and name.
    case cannotConnect(path: String, error: String)
    /// The whole exchange took longer than it was given.
    case deadlineExceeded(path: String, after: Duration)
    /// The answer had begun, and then nothing came of it for so long.
    case silent(path: String, for: Duration)
    /// The answer's body is larger than this program takes.
    case answerTooLarge(limit: Int)
    /// The connection ended before the answer did.
    case cutShort(path: String)
    /// A connection that had served before was closed, and nothing came in answer to the request.
    case closed(path: String)
    /// What answers there does not speak HTTP/1.1.
    case notHTTP(path: String)
    /// Another account's process listens there than this request may be sent to.
    case untrustedPeer(path: String, uid: UInt32)

    public var description: String { sentence(of: "paytokend") }

    /// - Parameter program: whose socket it is: `paytokend` or `paytoken-gateway`.
    public func sentence(of program: String) -> String {
        switch self {
        case .notThere(let path):
            "There is no socket at \(path). Is \(program) running, and is this its socket? "
                + "Name another with --socket, or look at `systemctl status \(program)`."
        case .notListening(let path):
            "Nobody listens on \(path): \(program) has ended and left its socket behind. Start it again."
        case .busy(let path):
            "Too many connections wait at \(path) already. Try again in a moment."
        case .notPermitted(let path):
            "No permission to connect to \(path). Use an account that the socket's owner, group and mode admit "
                + (program == "paytokend"
                    ? "(listener.group, listener.mode, listener.admin_mode)." : "(admin.group, admin.mode).")
        case .pathTooLong(let path):
            "\(path) is too long for a Unix socket's path, which has at most 107 bytes. Use a shorter path."
        case .cannotConnect(let path, let error):
            "Cannot connect to \(path): \(error)."
        case .deadlineExceeded(let path, let after):
            "No answer from \(path) within \(after.components.seconds) s. What was asked may have happened: "
                + "look before repeating it."
        case .silent(let path, let duration):
            "Nothing came from \(path) for \(duration.components.seconds) s in the middle of its answer. "
                + "Look at the log of \(program), then try again."
        case .answerTooLarge(let limit):
            "The answer has more than \(limit) bytes, so this program stopped reading it."
        case .cutShort(let path):
            "The connection to \(path) ended before the answer did. What was asked may have happened: "
                + "look before repeating it."
        case .closed(let path):
            "\(program) closed the connection to \(path) before it answered. Send the request again on another one."
        case .notHTTP(let path):
            "What listens on \(path) does not speak HTTP/1.1. Is it the socket of \(program)?"
        case .untrustedPeer(let path, let uid):
            "The process that listens on \(path) runs as uid \(uid): neither as root, nor as the account of this command, nor as the "
                + "socket's owner in a directory that others cannot write. Nothing was sent to it. Is it the socket of \(program)?"
        }
    }

    public var exitStatus: ExitStatus {
        switch self {
        case .busy: .tryAgainLater
        case .notPermitted, .untrustedPeer: .notPermitted
        case .pathTooLong: .usage
        case .notThere, .notListening, .cannotConnect, .deadlineExceeded, .silent, .answerTooLarge, .cutShort, .closed,
            .notHTTP:
            .unreachable
        }
    }
}

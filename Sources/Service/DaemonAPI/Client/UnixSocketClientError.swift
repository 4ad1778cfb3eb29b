/// A reason why a request got no complete answer. Each description says what failed, on which socket, and what to do.
public enum UnixSocketClientError: Error, Sendable, Equatable, CustomStringConvertible {
    /// No file exists at that path (ENOENT), or a part of the path is no directory (ENOTDIR).
    case notThere(path: String)
    /// No process listens on the socket file (ECONNREFUSED), or the file is no socket (ENOTSOCK).
    case notListening(path: String)
    /// The socket's accept queue is full (EAGAIN).
    case busy(path: String)
    /// This process may not connect to the socket (EACCES, EPERM).
    case notPermitted(path: String)
    /// The path is longer than `sockaddr_un` allows: 108 bytes with the terminating zero on Linux.
    case pathTooLong(path: String)
    /// Any other error of the socket, described by `error`.
    case cannotConnect(path: String, error: String)
    /// The request got no complete answer within its deadline.
    case deadlineExceeded(path: String, after: Duration)
    /// The answer began, but then no byte of its body arrived for this time.
    case silent(path: String, for: Duration)
    /// The answer's body is longer than ``UnixSocketClient/maximumAnswerBytes``.
    case answerTooLarge(limit: Int)
    /// The connection ended before the answer was complete.
    case cutShort(path: String)
    /// The connection was closed before any byte of an answer arrived, after it had delivered earlier answers.
    case closed(path: String)
    /// The listening process does not speak HTTP/1.1.
    case notHTTP(path: String)
    /// The listening process runs under an account to which this request must not be sent.
    case untrustedPeer(path: String, uid: UInt32)

    public var description: String { sentence(of: "paytokend") }

    /// Returns the description as a sentence that names the program.
    ///
    /// - Parameter program: the program that owns the socket: `paytokend` or `paytoken-gateway`.
    public func sentence(of program: String) -> String {
        switch self {
        case .notThere(let path):
            "There is no socket at \(path). Is \(program) running, and is this its socket? "
                + "Name another with --socket, or check `systemctl status \(program)`."
        case .notListening(let path):
            "No process listens on \(path): \(program) has ended and left its socket. Start it again."
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
            "No answer from \(path) within \(after.components.seconds) s. The request may have been carried out: "
                + "check before you repeat it."
        case .silent(let path, let duration):
            "No data came from \(path) for \(duration.components.seconds) s in the middle of its answer. "
                + "Check the log of \(program), then try again."
        case .answerTooLarge(let limit):
            "The answer has more than \(limit) bytes, so this program stopped reading it."
        case .cutShort(let path):
            "The connection to \(path) ended before the answer did. The request may have been carried out: "
                + "check before you repeat it."
        case .closed(let path):
            "\(program) closed the connection to \(path) before it answered. Send the request again on another one."
        case .notHTTP(let path):
            "The process that listens on \(path) does not speak HTTP/1.1. Is it the socket of \(program)?"
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

package import DaemonAPI
import Encodings
package import SecretMemory

/// The exit status of a command that ends early or did not succeed, and its text for standard error.
package struct CommandFailure: CommandEnding, Equatable {
    package let status: ExitStatus
    /// The text for standard error; nil if the command has already written everything that the user needs.
    package let message: String?
    /// Further lines for standard error, below the message.
    package let more: [String]

    package var failure: CommandFailure { self }

    /// - Parameter hint: the commands that may help. They follow the other lines, after `See:`.
    package init(_ status: ExitStatus, _ message: String?, more: [String] = [], hint: String? = nil) {
        self.status = status
        self.message = message
        self.more = more + (hint.map { ["See: \($0)"] } ?? [])
    }

    /// Makes the failure for a request that the daemon or the gateway refused. The message is `code: message (details)`
    /// from the response. The commands that may help follow.
    ///
    /// - Parameter target: the refused request's path and query, which determine the commands.
    package init(refusal: RefusalAnswer, httpStatus: Int, to target: String) {
        let details = refusal.details.map { " (\($0))" } ?? ""
        self.init(
            refusal.exitStatus(httpStatus: httpStatus), "\(refusal.code): \(refusal.message)\(details)",
            hint: CommandHints.commands(after: refusal.code, details: refusal.details, at: target))
    }

    /// Makes the failure for a change that still needs a second person's approval.
    ///
    /// - Parameter note: further information for the requester.
    package init(_ pending: PendingAnswer, note: String? = nil) {
        self.init(
            .tryAgainLater,
            "pending: a second person must permit this before \(RFC3339.string(pending.expires)): paytokenctl approval approve "
                + pending.approval, more: note.map { [$0] } ?? [])
    }

    /// Makes the failure for a request that got no response on the socket.
    ///
    /// - Parameter program: the name of the program that owns the socket, for the text.
    package init(_ error: UnixSocketClientError, of program: String) {
        self.init(error.exitStatus, error.sentence(of: program))
    }
}

/// An error that ends the program with the exit status and the text of `failure`, unless the command catches it.
package protocol CommandEnding: Error {
    var failure: CommandFailure { get }
}

extension SecretFileError: CommandEnding {
    package var failure: CommandFailure {
        if case .accessibleToOthers = reason { return CommandFailure(.notPermitted, description) }
        return CommandFailure(.unreadable, description)
    }
}

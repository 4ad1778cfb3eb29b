import CommandOutput
import DaemonAPI
import Encodings
import KeyFiles

/// How a command ends when it does not succeed: what standard error gets, and the exit status.
struct CommandFailure: Error, Equatable {
    let status: ExitStatus
    /// Nothing where the output has said it all.
    let message: String?
    /// What stands below it, a line each.
    let more: [String]

    init(_ status: ExitStatus, _ message: String?, more: [String] = []) {
        self.status = status
        self.message = message
        self.more = more
    }

    /// `code: message (details)`, as the daemon gave them.
    init(refusal: RefusalAnswer, httpStatus: Int) {
        let details = refusal.details.map { " (\($0))" } ?? ""
        self.init(refusal.exitStatus(httpStatus: httpStatus), "\(refusal.code): \(refusal.message)\(details)")
    }

    /// It waits for a second person.
    ///
    /// - Parameter note: what else the person who asked should know.
    init(_ pending: PendingAnswer, note: String? = nil) {
        self.init(
            .tryAgainLater,
            "pending: a second person must permit this before \(RFC3339.string(pending.expires)): "
                + NextStep.approve(pending.approval), more: note.map { [$0] } ?? [])
    }

    init(_ lost: LostOutput) {
        self.init(lost.exitStatus, lost.description)
    }

    /// - Parameter program: whose socket it is.
    init(_ error: UnixSocketClientError, of program: String) {
        self.init(error.exitStatus, error.sentence(of: program))
    }

    init(_ error: KeyFileError) {
        switch error.kind {
        case .exposed: self.init(.notPermitted, error.message)
        case .mismatched: self.init(.no, "certificate_unsuitable: \(error.message)")
        default: self.init(.unreadable, error.message)
        }
    }

    func report() {
        for line in (message.map { [$0] } ?? []) + more { Console.error(line) }
    }
}

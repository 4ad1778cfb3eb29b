import DaemonAPI
import Ledger

/// Why the daemon did not start: the sentence for standard error, and the status it exits with.
struct StartFailure: Error, Sendable, Equatable {
    let exitStatus: ExitStatus
    let message: String

    init(_ exitStatus: ExitStatus, _ message: String) {
        self.exitStatus = exitStatus
        self.message = message
    }

    init(listener error: ListenerError) {
        let status: ExitStatus = if case .alreadyServed = error { .tryAgainLater } else { .configuration }
        self.init(status, error.description)
    }

    init(ledger error: LedgerOpeningError) {
        let status: ExitStatus =
            switch error {
            case .inUse, .notNow: .tryAgainLater
            default: .configuration
            }
        self.init(status, error.description)
    }
}

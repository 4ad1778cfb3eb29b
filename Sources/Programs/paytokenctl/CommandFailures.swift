import CommandOutput
import KeyFiles
import Ledger
import OfflineLedger

// Maps the errors that parts of a command throw to the way in which the command ends.

extension KeyFileError: CommandEnding {
    var failure: CommandFailure {
        switch kind {
        case .exposed: CommandFailure(.notPermitted, message)
        case .mismatched: CommandFailure(.no, "certificate_unsuitable: \(message)")
        default: CommandFailure(.unreadable, message)
        }
    }
}

/// A server, a database or a file that is unsuitable for the command.
extension LedgerOpeningError: CommandEnding {
    var failure: CommandFailure {
        switch self {
        case .unreachable, .notNow, .inUse, .nodeInUse: CommandFailure(.tryAgainLater, description)
        case .newerSchema, .nodesServe: CommandFailure(.no, description)
        case .notALedger(let server):
            CommandFailure(
                .no,
                "The schema paytokend on \(server) is not a ledger's, and nothing was changed. Use another database.")
        case .noDirectory: CommandFailure(.unreadable, description)
        case .notPrivate: CommandFailure(.notPermitted, description)
        default:
            CommandFailure(.configuration, description, hint: remedy.map { "paytokenctl help ledger \($0.rawValue)" })
        }
    }
}

extension LedgerMoveError: CommandEnding {
    var failure: CommandFailure {
        switch self {
        case .noFile: CommandFailure(.unreadable, description)
        case .anotherAccount: CommandFailure(.notPermitted, description)
        case .file(.notALedger): CommandFailure(.configuration, description)
        case .file(let reason), .database(let reason): reason.failure
        case .restored:
            CommandFailure(
                .no, description, hint: "paytokenctl help ledger restore, paytokenctl help ledger accept-restore")
        case .olderFile, .openRenewal, .brokenChain, .nodeKnown, .elsewhere, .key, .accepted:
            CommandFailure(.no, description)
        case .nodeInUse, .overtaken, .brokenOff: CommandFailure(.tryAgainLater, description)
        }
    }
}

extension LedgerFileRestoreError: CommandEnding {
    var failure: CommandFailure {
        switch self {
        case .file(let reason): reason.failure
        case .broken: CommandFailure(.no, description)
        case .brokenOff: CommandFailure(.tryAgainLater, description)
        }
    }
}

package import DaemonAPI
package import Ledger
import SecretMemory
import ServerProgram
import Telemetry
import UnixSignals
import WorkerSupervision

/// What the program `paytokend` does, from its configuration file to its exit status.
package enum DaemonProgram {
    package static func check(configurationFile: String) -> ExitStatus {
        ServingDaemon.check(configurationFile: configurationFile)
    }

    /// Serves until SIGTERM or SIGINT.
    ///
    /// - Parameters:
    ///   - awaitsRestore: whether to stay, and release nothing, while the ledger is not the one that the token remembers, until
    ///     an operator accepts it. Otherwise the daemon ends with status 78.
    ///   - ledger: another one than the configuration's, to measure what that one costs.
    package static func run(
        configurationFile: String, awaitsRestore: Bool = false, ledger: (any Ledger)? = nil
    ) async -> ExitStatus {
        await ServingDaemon.run(configurationFile: configurationFile) { configuration, start throws(StartFailure) in
            // By now secrets have been read: the configuration's check looks into the PIN files.
            if SecretBytes.unlockedByteCount > 0 {
                start.logger.warning(
                    "\(UnlockedMemory.warning)",
                    metadata: ["process": "paytokend", "bytes": "\(SecretBytes.unlockedByteCount)"])
            }
            let assembly = try await Assembly.make(configuration, logger: start.logger, ledger: ledger)
            return try await .start(assembly, configuration, start, awaitsRestore: awaitsRestore)
        }
    }
}

extension StartFailure {
    /// - Parameter command: the verb of `paytokenctl ledger` that helps. While no daemon serves, that command line is the
    ///   operator's only tool.
    init(_ exitStatus: ExitStatus, _ message: String, command: String?) {
        self.init(exitStatus, message + (command.map { "\nSee: paytokenctl help ledger \($0)" } ?? ""))
    }

    init(ledger error: LedgerOpeningError) {
        let status: ExitStatus =
            switch error {
            // An older schema too: a newer program that is started before the upgrade waits for it, while its callers wait in the
            // socket, and needs no second start by hand.
            case .inUse, .notNow, .unreachable, .nodeInUse, .olderSchema: .tryAgainLater
            default: .configuration
            }
        self.init(status, error.description, command: error.remedy?.rawValue)
    }
}

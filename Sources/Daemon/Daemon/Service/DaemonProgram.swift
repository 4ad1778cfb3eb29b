package import DaemonAPI
package import Ledger
import SecretMemory
import ServerProgram
import Telemetry
import UnixSignals
import WorkerSupervision

/// The program `paytokend`, from its configuration file to its exit status.
package enum DaemonProgram {
    package static func check(configurationFile: String) -> ExitStatus {
        ServingDaemon.check(configurationFile: configurationFile)
    }

    /// Serves until SIGTERM or SIGINT.
    ///
    /// - Parameters:
    ///   - awaitsRestore: true to keep running without releasing payments if the ledger is not the one that the HSM
    ///     token remembers, until an operator accepts it. If false, the daemon then exits with status 78.
    ///   - ledger: a ledger that replaces the configuration's, so that the cost of the latter can be measured.
    package static func run(
        configurationFile: String, awaitsRestore: Bool = false, ledger: (any Ledger)? = nil
    ) async -> ExitStatus {
        await ServingDaemon.run(configurationFile: configurationFile) { configuration, start throws(StartFailure) in
            // Secrets have been read by now: the configuration's check reads the PIN files.
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
    /// - Parameter command: the verb of `paytokenctl ledger` that helps. While no daemon serves, that command is the
    ///   operator's only tool.
    init(_ exitStatus: ExitStatus, _ message: String, command: String?) {
        self.init(exitStatus, message + (command.map { "\nSee: paytokenctl help ledger \($0)" } ?? ""))
    }

    init(ledger error: LedgerOpeningError) {
        let status: ExitStatus =
            switch error {
            // An older schema is temporary too: a newer program that is started before the upgrade waits for it. Its
            // callers wait in the socket, and no second start by hand is needed.
            case .inUse, .notNow, .unreachable, .nodeInUse, .olderSchema: .tryAgainLater
            default: .configuration
            }
        self.init(status, error.description, command: error.remedy?.rawValue)
    }
}

package import DaemonAPI
package import Ledger
import SecretMemory
import ServerProgram
import Telemetry
import UnixSignals
import WorkerSupervision

/// The program `paytokend`, which runs the daemon with a configuration file, or only checks the file.
package enum DaemonProgram {
    package static func check(configurationFile: String) -> ExitStatus {
        ServingDaemon.check(configurationFile: configurationFile)
    }

    /// Runs the daemon until SIGTERM or SIGINT.
    ///
    /// - Parameters:
    ///   - awaitsRestore: the behaviour if the ledger is not the one that the HSM token remembers. If true, the daemon
    ///     keeps running, and releases nothing until an operator accepts the ledger. If false, it exits with status 78.
    ///   - ledger: a ledger to use instead of the configured one. Benchmarks use it to measure what the ledger costs.
    package static func run(
        configurationFile: String, awaitsRestore: Bool = false, ledger: (any Ledger)? = nil
    ) async -> ExitStatus {
        await ServingDaemon.run(configurationFile: configurationFile) { configuration, start throws(StartFailure) in
            // Reading the configuration has read the PIN files, so the first secrets are already in memory.
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
    /// - Parameter command: the subcommand of `paytokenctl ledger` that repairs the fault; nil if there is none. The
    ///   message refers to the subcommand's help, which is available while no daemon runs.
    init(_ exitStatus: ExitStatus, _ message: String, command: String?) {
        self.init(exitStatus, message + (command.map { "\nSee: paytokenctl help ledger \($0)" } ?? ""))
    }

    init(ledger error: LedgerOpeningError) {
        let status: ExitStatus =
            switch error {
            // An older schema is temporary too, since a newer program may be started before the schema is upgraded.
            // With this status the service manager starts the program again. Meanwhile the callers' connections wait in
            // the listening socket.
            case .inUse, .notNow, .unreachable, .nodeInUse, .olderSchema: .tryAgainLater
            default: .configuration
            }
        self.init(status, error.description, command: error.remedy?.rawValue)
    }
}

import Ledger
import Logging

/// SIGHUP: access, trust, log level and PIN files are read again, all or nothing. Open connections are judged anew at
/// their next request.
struct Reload: Sendable {
    let file: String
    let assembly: Assembly
    let log: StandardErrorLog
    let logger: Logger

    func run() async {
        do throws(StartFailure) {
            let configuration = try DaemonProgram.load(file)
            try assembly.live.replace(with: configuration)
            log.apply(configuration.log)
            // A PIN that was refused is tried again now that its file may have changed.
            assembly.worker.retry()
            logger.notice("configuration reloaded", metadata: ["file": "\(file)"])
            for warning in configuration.warnings {
                logger.warning(
                    "insecure setting", metadata: ["place": "\(warning.place)", "reason": "\(warning.message)"])
            }
        } catch {
            logger.error(
                "configuration not reloaded; the one in force stays",
                metadata: ["file": "\(file)", "reason": "\(error.message)"])
        }
    }
}

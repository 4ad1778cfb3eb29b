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
            let policies = try Policies(configuration)
            // Before it is in force: nothing is decided by rules that are not in the record.
            try await assembly.lifeRecords.reloaded(configuration.fileDigest)
            let pending = assembly.live.replace(with: configuration, policies: policies)
            log.level = configuration.log.level
            // A PIN that was refused is tried again now that its file may have changed.
            assembly.hsmTokens.retry()
            logger.notice("configuration reloaded", metadata: ["file": "\(file)"])
            if !pending.isEmpty {
                logger.warning(
                    "these settings were changed too, and stay as they were until a restart",
                    metadata: ["sections": "\(pending.joined(separator: ", "))"])
            }
            for warning in assembly.live.warnings {
                logger.warning(
                    "insecure setting", metadata: ["place": "\(warning.place)", "reason": "\(warning.message)"])
            }
        } catch {
            await assembly.lifeRecords.reloadRefused()
            logger.error(
                "configuration not reloaded; the one in force stays",
                metadata: ["file": "\(file)", "reason": "\(error.message)"])
        }
    }
}

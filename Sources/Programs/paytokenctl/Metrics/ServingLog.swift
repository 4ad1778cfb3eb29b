import Locks
import Logging
import Telemetry

/// Logs once that the metrics are unavailable, and once that they are available again, since a scrape comes every few
/// seconds.
final class ServingLog: Sendable {
    let logger: Logger
    private let output: StandardErrorLog
    private let fault = Mutex<String?>(nil)

    init() {
        output = StandardErrorLog(LogSettings(level: .info, format: .text))
        logger = output.logger("paytokenctl")
    }

    func unavailable(_ sentence: String) {
        let isNew = fault.withLock { fault in
            defer { fault = sentence }
            return fault != sentence
        }
        if isNew { logger.error("the metrics cannot be fetched", metadata: ["reason": "\(sentence)"]) }
    }

    func available() {
        let hasEnded = fault.withLock { fault in
            defer { fault = nil }
            return fault != nil
        }
        if hasEnded { logger.notice("the metrics can be fetched again") }
    }

    func flush() { output.flush() }
}

import AuditChain
import Ledger
import ProductVersion
import Refusals

/// The records of the daemon's own life: start, configuration, stop.
struct LifeRecords: Sendable {
    let recorder: UsageRecorder
    let clock: WallClock

    /// - Throws: when they cannot be recorded; then the daemon does not start.
    func started(with configuration: AuditDigest) async throws(StartFailure) {
        try await append(.start(version: AuditText(ProductVersion.current)))
        try await append(.configurationLoad(file: configuration))
    }

    /// To be called before the configuration is in force.
    ///
    /// - Throws: when it cannot be recorded; then the old one stays in force.
    func reloaded(_ configuration: AuditDigest) async throws(StartFailure) {
        try await append(.configurationReload(file: configuration))
    }

    func reloadRefused() async {
        recorder.ledger.note(
            AuditRecord(
                time: AuditTime(clock.now()), event: .configurationReload(file: nil),
                outcome: .refused(.malformedRequest)))
    }

    /// The last record; a checkpoint seals it.
    func stopped() async {
        do throws(StartFailure) {
            try await append(.stop)
        } catch {
            // The ledger's trouble has been logged, and a stop is not to be refused.
        }
    }

    private func append(_ event: AuditEvent) async throws(StartFailure) {
        do throws(Refusal) {
            try await recorder.append(AuditRecord(time: AuditTime(clock.now()), event: event))
        } catch {
            throw StartFailure(
                .tryAgainLater,
                "The ledger does not take the record of the start or the configuration: it cannot be "
                    + "written at present.")
        }
    }
}

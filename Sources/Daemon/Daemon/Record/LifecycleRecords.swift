import AuditChain
import DaemonConfiguration
import Ledger
import ProductVersion
import Refusals
import ServerProgram
import UsageRecording

/// Records the daemon's start, its configurations and its stop.
struct LifecycleRecords: Sendable {
    let recorder: UsageRecorder
    let programs: ProgramFiles
    let clock: WallClock

    /// Records the daemon's start and its configuration.
    /// - Throws: if they cannot be recorded. The daemon then does not start.
    func started(with configuration: Configuration) async throws(StartFailure) {
        var configuration = configuration
        configuration.readCredentials()
        try await append(
            [
                .start(version: AuditText(ProductVersion.current), programs: programs.digests),
                .configurationLoad(file: configuration.fileDigest),
            ] + configuration.recordedValues.events())
    }

    /// Records a reloaded configuration, before it takes effect.
    ///
    /// - Parameters:
    ///   - values: the values that will be in force. Nil if the record already has them with this file digest.
    ///   - requester: the person who requested the reload; nil at SIGHUP.
    /// - Throws: if it cannot be recorded. The old configuration then stays in force.
    func reloaded(
        _ file: AuditDigest, values: ConfigurationValues?, by requester: ConfigurationReload.Requester? = nil
    ) async throws(StartFailure) {
        let sequences = try await append(
            [.configurationReload(file: file)] + (values?.events() ?? []),
            by: requester.map { AuditCaller($0.caller) })
        requester?.draft.recorded(at: sequences.first)
    }

    /// Records an HSM token's PKCS#11 library if it has changed since it was last recorded. Called before the worker
    /// serves.
    func opened(hsmToken: String) {
        guard let event = programs.changed(hsmToken: hsmToken) else { return }
        recorder.ledger.note(
            AuditRecord(time: AuditTime(clock.now()), event: event, hsmToken: AuditText(hsmToken)))
    }

    /// Records the programs' files once a week, from a week after the start on.
    func startReadingPrograms(every pause: Duration = .seconds(7 * 86_400)) -> Task<Void, Never> {
        Task {
            while (try? await Task.sleep(for: pause)) != nil {
                recorder.ledger.note(
                    AuditRecord(time: AuditTime(clock.now()), event: .programDigests(programs.readAgain())))
            }
        }
    }

    /// Records that a worker generated key pairs for its self-tests and stored them in the HSM token.
    func madeTestKeys(_ count: Int, hsmToken: String) {
        guard count > 0 else { return }
        recorder.ledger.note(
            AuditRecord(
                time: AuditTime(clock.now()), event: .testKeysCreate(count: count), hsmToken: AuditText(hsmToken)))
    }

    func reloadRefused() async {
        recorder.ledger.note(
            AuditRecord(
                time: AuditTime(clock.now()), event: .configurationReload(file: nil),
                outcome: .refused(.malformedRequest)))
    }

    /// Records the daemon's stop, as the last record. An audit checkpoint then seals it.
    func stopped() async {
        do throws(Refusal) {
            try await recorder.append(AuditRecord(time: AuditTime(clock.now()), event: .stop))
        } catch {
            // The ledger has already logged its fault, and the daemon stops even if its stop is not recorded.
        }
    }

    /// Appends all events or none. Otherwise a `configuration_load` record could be without the record of its values,
    /// like one that an older version of the daemon wrote.
    @discardableResult
    private func append(_ events: [AuditEvent], by caller: AuditCaller? = nil) async throws(StartFailure) -> [Int] {
        let time = AuditTime(clock.now())
        do throws(Refusal) {
            return try await recorder.append(events.map { AuditRecord(time: time, event: $0, caller: caller) })
        } catch {
            throw StartFailure(
                .tryAgainLater,
                "The start or the configuration could not be recorded, because the ledger cannot be written at "
                    + "present.")
        }
    }
}

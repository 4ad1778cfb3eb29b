import DaemonConfiguration
import HTTPListener
import HostSystem
import Logging
import ProductVersion
import Refusals
import ServerProgram
import UsageRecording
import WorkerSupervision

/// A daemon that serves: its listener, and the tasks that run until it is stopped.
///
/// It does not use ServiceGroup of swift-service-lifecycle, which stops services one after another without a common time
/// limit. Here all steps of a shutdown share 30 seconds, and later steps depend on the time that is left.
struct ServingDaemon: ServingProgram {
    static let name = "paytokend"
    static let socketNames = SocketKind.allCases.map(\.rawValue)
    static let firstStatus = "Opening the HSM tokens."

    let parts: Assembly
    let listener: Listener
    var watchedSocket: WatchedSocket? { listener.watchedSocket }
    /// True if the daemon keeps running with a ledger that is not the one that the HSM token remembers.
    private let awaitsRestore: Bool
    /// The task that seals the record. At a stop it continues longer than the other tasks, until the last record is
    /// written.
    private let sealing: Task<Void, Never>
    private let tasks: [Task<Void, Never>]
    private let logger: Logger

    /// The maximum time from the request to stop until the daemon ends, even if something hangs.
    private static let drainTime = Duration.seconds(30)
    /// The part of ``drainTime`` for which requests under way may wait for the HSM. After that, all calls of HSM tokens
    /// fail, so that these requests are answered.
    private static let hsmTime = Duration.seconds(20)
    /// The additional time after ``hsmTime`` for sending the answers to requests whose HSM calls were ended.
    private static let lastAnswers = Duration.seconds(2)
    /// The minimum time that remains for writing and sealing the last records.
    private static let endTime = Duration.seconds(5)

    /// Records the start, opens the sockets, and starts the HSM tokens and all tasks. If the start cannot be recorded or a
    /// socket cannot be opened, closes the ledger and throws.
    static func start(
        _ assembly: Assembly, _ configuration: Configuration, _ start: ProgramStart, awaitsRestore: Bool
    ) async throws(StartFailure) -> ServingDaemon {
        let listener: Listener
        do throws(StartFailure) {
            try await assembly.lifeRecords.started(with: configuration)
            listener = try await start.listen { () throws(ListenerError) in
                try configuration.listener.sockets(
                    inherited: start.inherited, handler: assembly.router, instruments: assembly.instruments,
                    logger: start.logger)
            }
        } catch {
            await assembly.ledger.close()
            throw error
        }
        await assembly.hsmTokens.start()
        let sealing =
            assembly.hsmTokens.all.first { $0.name == assembly.sealing.name } ?? assembly.hsmTokens.first
        let opening = assembly.opening.start { [hsmTokens = assembly.hsmTokens, gate = assembly.gate] in
            // Requests wait until no HSM token is starting, and the ledger has been compared with the HSM token that seals.
            // They do not wait for the comparison if that HSM token is unavailable.
            hsmTokens.all.allSatisfy { $0.condition != .starting }
                && (gate.position != .waiting || !sealing.isServing)
        }
        let comparing = assembly.gate.start(openings: sealing.openings) { sealing.isServing }
        let logger = start.logger
        let daemon = ServingDaemon(
            parts: assembly, listener: listener, awaitsRestore: awaitsRestore, sealing: assembly.checkpoints.start(),
            tasks: [
                opening, comparing, assembly.refusalSummaries.start(), assembly.recordCheck.start(),
                assembly.attributeRecords.start(), assembly.keySearch.start(), assembly.renewalWork.start(),
                assembly.lifeRecords.startReadingPrograms(),
                ClaimPruning(ledger: assembly.ledger, live: assembly.live, clock: .system, logger: logger).start(),
                ApprovalExpiry(ledger: assembly.ledger, clock: .system, logger: logger).start(),
                GoogleRootKeyWatch(
                    live: assembly.live, instruments: assembly.instruments, clock: .system, logger: logger
                ).start(),
            ] + [assembly.archiving?.start()].compactMap(\.self) + assembly.others.start(), logger: logger)
        logger.notice(
            "serving",
            metadata: [
                "version": "\(ProductVersion.current)", "socket": "\(configuration.listener.socket)",
                "admin_socket": "\(configuration.listener.adminSocket)", "node": "\(assembly.ledger.node)",
                "ledger": "\(assembly.ledger.engine)",
            ])
        return daemon
    }

    func failure() async -> StartFailure? {
        for await case .held(let disagreement) in parts.gate.verdicts where !awaitsRestore {
            return StartFailure(
                .configuration, "paytokend: " + disagreement.description,
                command: disagreement.finding == nil ? nil : "accept-restore")
        }
        return nil
    }

    /// Answers the requests under way, then writes and seals the last records.
    ///
    /// - Parameter failure: the disagreement between ledger and HSM token, if the daemon stops because of it. The ledger is
    ///   then not sealed, so that the HSM token keeps what it remembers. Nil for any other stop.
    func stop(after failure: StartFailure?) async {
        let started = ContinuousClock.now
        let patience = Task { [hsmTokens = parts.hsmTokens] in
            guard (try? await Task.sleep(for: Self.hsmTime)) != nil else { return }
            hsmTokens.giveUp()
        }
        await listener.shutdown(grace: Self.hsmTime + Self.lastAnswers)
        for task in tasks { task.cancel() }
        let ending = Task {
            await parts.refusalSummaries.finish()
            await parts.lifeRecords.stopped()
            sealing.cancel()
            if failure == nil { await seal() }
            await parts.hsmTokens.shutdown()
            await parts.ledger.close()
        }
        if await ending.value(within: max(Self.endTime, Self.drainTime - started.duration(to: .now))) == nil {
            logger.error(
                "stopping while the ledger or an HSM token does not respond; the record's end may be missing or unsealed"
            )
        }
        patience.cancel()
    }

    /// Makes the last audit checkpoint before the daemon ends. Without this audit checkpoint, the end of the record
    /// would not be sealed until the next start.
    private func seal() async {
        do throws(Refusal) {
            try await parts.checkpoints.seal()
        } catch {
            logger.warning("the end of the record was not sealed", metadata: ["reason": "\(error.message)"])
        }
    }
}

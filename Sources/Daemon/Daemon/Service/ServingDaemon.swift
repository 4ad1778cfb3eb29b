import HTTPListener
import HostSystem
import Logging
import ProductVersion
import Refusals
import ServerProgram
import WorkerSupervision

/// A serving daemon: the listener, and the tasks that run alongside it until it is stopped.
///
/// This is not a ServiceGroup of swift-service-lifecycle, whose services stop one after the other without a common time
/// limit. Here all shutdown steps share 30 seconds, and later steps depend on the time that is left.
struct ServingDaemon: ServingProgram {
    static let name = "paytokend"
    static let socketNames = SocketKind.allCases.map(\.rawValue)
    static let firstStatus = "Opening the HSM tokens."

    let parts: Assembly
    let listener: Listener
    /// True if the daemon keeps running when the ledger is not the one that the HSM token remembers.
    private let awaitsRestore: Bool
    /// Seals the record. It outlasts the other tasks, until the last record is written.
    private let sealing: Task<Void, Never>
    private let tasks: [Task<Void, Never>]
    private let logger: Logger

    /// The longest time that a stopping daemon lives, even if something hangs.
    private static let drainTime = Duration.seconds(30)
    /// The part of the drain time for which requests under way may wait for the HSM. After that, the daemon gives up
    /// the HSM tokens, and the waiting requests are answered.
    private static let hsmTime = Duration.seconds(20)
    /// The time for sending the answers to those requests.
    private static let lastAnswers = Duration.seconds(2)
    /// The part of the drain time reserved for the last records and their seal.
    private static let endTime = Duration.seconds(5)

    /// Records the start, opens the sockets and begins to open the HSM tokens. Closes the ledger on failure.
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
        let first = assembly.hsmTokens.first
        let opening = assembly.opening.start { [hsmTokens = assembly.hsmTokens, gate = assembly.gate] in
            // The opening is over when no HSM token is starting and the ledger has been compared with the first HSM
            // token. While that HSM token is unavailable, the comparison is not awaited.
            hsmTokens.all.allSatisfy { $0.condition != .starting } && (gate.position != .waiting || !first.isServing)
        }
        let comparing = assembly.gate.start(openings: first.openings) { first.isServing }
        let logger = start.logger
        let daemon = ServingDaemon(
            parts: assembly, listener: listener, awaitsRestore: awaitsRestore, sealing: assembly.checkpoints.start(),
            tasks: [
                opening, comparing, assembly.refusalSummaries.start(), assembly.recordCheck.start(),
                ClaimPruning(ledger: assembly.ledger, live: assembly.live, clock: .system, logger: logger).start(),
                ApprovalExpiry(ledger: assembly.ledger, clock: .system, logger: logger).start(),
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
    /// - Parameter failure: the mismatch between the ledger and the HSM token's memory, if the daemon stops for it; the
    ///   ledger is then not sealed. Otherwise nil.
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

    /// Makes the audit checkpoint at shutdown. Without it the record's end is unsealed until the next start.
    private func seal() async {
        do throws(Refusal) {
            try await parts.checkpoints.seal()
        } catch {
            logger.warning("the end of the record was not sealed", metadata: ["reason": "\(error.message)"])
        }
    }
}

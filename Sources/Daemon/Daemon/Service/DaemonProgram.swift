import ConfigurationFile
public import DaemonAPI
import Foundation
import Glibc
import HTTPListener
import HostSystem
package import Ledger
import Logging
import NIOPosix
import SecretMemory
import Telemetry
import UnixSignals
import WorkerSupervision

/// What the program `paytokend` does, from its configuration file to its exit status.
public enum DaemonProgram {
    /// Prints every problem and every warning of the configuration on standard error.
    ///
    /// - Returns: `done`, or `configuration` when there is a problem.
    public static func check(configurationFile: String) -> ExitStatus {
        do throws(StartFailure) {
            let configuration = try load(configurationFile, examinesPlaces: true)
            for warning in configuration.warnings { say("\(warning.place): warning: \(warning.message)") }
            return .done
        } catch {
            say(error.message)
            return error.exitStatus
        }
    }

    /// Serves until SIGTERM or SIGINT.
    ///
    /// - Parameter awaitsRestore: whether to stay, and release nothing, when the ledger is not the one that the token
    ///   remembers, until somebody accepts it. Otherwise the daemon ends with status 78.
    public static func run(configurationFile: String, awaitsRestore: Bool = false) async -> ExitStatus {
        await run(configurationFile: configurationFile, awaitsRestore: awaitsRestore, ConfiguredLedger.opening)
    }

    /// The same with another ledger than the configuration's, for measuring what that one costs.
    package static func run(configurationFile: String, ledger: any Ledger) async -> ExitStatus {
        await run(configurationFile: configurationFile, awaitsRestore: false) { _, _ in ledger }
    }

    private static func run(
        configurationFile: String, awaitsRestore: Bool, _ openLedger: LedgerOpening
    ) async -> ExitStatus {
        let isActivated = InheritedSockets.areInEnvironment
        do throws(StartFailure) {
            try await serve(configurationFile: configurationFile, awaitsRestore: awaitsRestore, openLedger)
            return .done
        } catch {
            say(error.message)
            if isActivated, error.exitStatus == .tryAgainLater {
                try? await Task.sleep(for: InheritedSockets.pauseBeforeTryingAgain)
            }
            return error.exitStatus
        }
    }

    private static func serve(
        configurationFile: String, awaitsRestore: Bool, _ openLedger: LedgerOpening
    ) async throws(StartFailure) {
        try harden()
        // Before anything else: a signal that comes early, such as a reload right after the start, must not end the process.
        let signals = await UnixSignalsSequence(trapping: .sigterm, .sigint, .sighup)
        let inherited: InheritedSockets
        do throws(ListenerError) {
            inherited = try InheritedSockets.takeFromEnvironment(named: SocketKind.allCases.map(\.rawValue))
        } catch {
            throw StartFailure(listener: error)
        }
        let configuration = try load(configurationFile)
        let log = StandardErrorLog(configuration.log)
        let logger = log.logger("paytokend")
        for warning in configuration.warnings {
            logger.warning(
                "\(warning.headline)", metadata: ["place": "\(warning.place)", "reason": "\(warning.message)"])
        }
        // By now secrets have been read: the configuration's check looks into the PIN files.
        if SecretBytes.unlockedByteCount > 0 {
            logger.warning(
                "\(UnlockedMemory.warning)",
                metadata: ["process": "paytokend", "bytes": "\(SecretBytes.unlockedByteCount)"])
        }

        let assembly = try await Assembly.make(configuration, logger: logger, openLedger: openLedger)
        let daemon = try await ServingDaemon.start(assembly, configuration, inherited: inherited, logger: logger)
        let service = ServiceNotification(logger: logger)
        service.notify(.ready, .status("Opening the HSM tokens."))
        let watchdog = daemon.watchedSocket.flatMap {
            ServiceWatchdog.start(service, asking: $0, group: MultiThreadedEventLoopGroup.singleton)
        }
        let status = assembly.status(of: service)
        let showing = status.start()
        let reload = Reload(file: configurationFile, assembly: assembly, log: log, logger: logger)
        let events = DaemonEvents(signals: signals, verdicts: assembly.gate.verdicts)
        let refusedStart = await untilStopped(events, awaitsRestore: awaitsRestore, logger: logger) {
            status.reloaded(inForce: await reload.run())
        }
        showing.cancel()
        service.notify(.stopping, .status("Finishing what is under way."))
        watchdog?.stop()
        await daemon.stop(seals: refusedStart == nil)
        log.flush()
        if let refusedStart { throw refusedStart }
    }

    /// - Returns: nil for a signal to stop; a failure when the ledger is not the one that the HSM token remembers.
    private static func untilStopped(
        _ events: DaemonEvents, awaitsRestore: Bool, logger: Logger, reload: () async -> Void
    ) async -> StartFailure? {
        for await event in events {
            switch event {
            case .signal(.sighup):
                await reload()
            case .signal(let signal):
                logger.notice("draining", metadata: ["signal": "\(signal)"])
                return nil
            case .verdict(.held(let disagreement)) where !awaitsRestore:
                return StartFailure(.configuration, "paytokend: " + disagreement.description)
            case .verdict:
                break
            }
        }
        return nil
    }

    static func load(_ file: String, examinesPlaces: Bool = false) throws(StartFailure) -> Configuration {
        do throws(ConfigurationProblems) {
            return try Configuration.load(path: file, examinesPlaces: examinesPlaces)
        } catch {
            throw StartFailure(.configuration, error.description)
        }
    }

    /// To be called first, while the main thread is the only one.
    public static func forbidNewPrivileges() {
        HardenedProcess.forbidNewPrivileges()
    }

    /// With card data in its memory.
    private static func harden() throws(StartFailure) {
        guard HardenedProcess.harden() else {
            throw StartFailure(.defect, "paytokend: the process cannot be hardened (prctl).")
        }
    }

    private static func say(_ text: String) {
        FileHandle.standardError.write(Data((text + "\n").utf8))
    }
}

/// What a serving daemon waits for: signals, and the verdict on its ledger.
struct DaemonEvents: AsyncSequence, Sendable {
    enum Element: Sendable {
        case signal(UnixSignal)
        case verdict(LedgerGate.Position)
    }

    private let merged: AsyncStream<Element>

    init(signals: UnixSignalsSequence, verdicts: AsyncStream<LedgerGate.Position>) {
        let (merged, continuation) = AsyncStream.makeStream(of: Element.self)
        let signals = Task { for await signal in signals { continuation.yield(.signal(signal)) } }
        let verdicts = Task { for await verdict in verdicts { continuation.yield(.verdict(verdict)) } }
        continuation.onTermination = { _ in
            signals.cancel()
            verdicts.cancel()
        }
        self.merged = merged
    }

    func makeAsyncIterator() -> AsyncStream<Element>.Iterator { merged.makeAsyncIterator() }
}

/// Why the daemon did not start: the sentence for standard error, and the status it exits with.
struct StartFailure: Error, Sendable, Equatable {
    let exitStatus: ExitStatus
    let message: String

    init(_ exitStatus: ExitStatus, _ message: String) {
        self.exitStatus = exitStatus
        self.message = message
    }

    init(listener error: ListenerError) {
        let status: ExitStatus = if case .alreadyServed = error { .tryAgainLater } else { .configuration }
        self.init(status, error.description)
    }

    init(ledger error: LedgerOpeningError) {
        let status: ExitStatus =
            switch error {
            // An older schema too: a newer program that is started before the upgrade waits for it, while its callers wait in the
            // socket, and needs no second start by hand.
            case .inUse, .notNow, .unreachable, .nodeInUse, .olderSchema: .tryAgainLater
            default: .configuration
            }
        self.init(status, error.description)
    }
}

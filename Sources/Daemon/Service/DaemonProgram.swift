import CLinux
public import DaemonAPI
import Foundation
import Glibc
package import Ledger
import Logging
import NIOPosix
import ProductVersion
import Refusals
import SecretMemory
import UnixSignals

/// What the program `paytokend` does, from its configuration file to its exit status.
public enum DaemonProgram {
    /// Says every problem and every warning of the configuration on standard error.
    ///
    /// - Returns: `done`, or `configuration` when there is a problem.
    public static func check(configurationFile: String) -> ExitStatus {
        do throws(StartFailure) {
            let configuration = try load(configurationFile)
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
        await run(configurationFile: configurationFile, awaitsRestore: awaitsRestore, SQLiteLedger.opening)
    }

    /// The same with another ledger than the configuration's, for measuring what that one costs.
    package static func run(configurationFile: String, ledger: any Ledger) async -> ExitStatus {
        await run(configurationFile: configurationFile, awaitsRestore: false) { _, _ in ledger }
    }

    private static func run(
        configurationFile: String, awaitsRestore: Bool, _ openLedger: LedgerOpening
    ) async -> ExitStatus {
        do throws(StartFailure) {
            try await serve(configurationFile: configurationFile, awaitsRestore: awaitsRestore, openLedger)
            return .done
        } catch {
            say(error.message)
            return error.exitStatus
        }
    }

    /// At most this long does a stopping daemon live on, whatever hangs.
    private static let drainTime = Duration.seconds(30)
    /// Of it, at most this long do requests under way wait for their tokens: then the tokens are given up, which answers
    /// the requests that wait for them.
    private static let tokenTime = Duration.seconds(20)
    /// For the answers to requests whose token was given up to leave.
    private static let lastAnswers = Duration.seconds(2)
    /// Of it, what is kept for the last records and their seal once requests have ended or were given up.
    private static let endTime = Duration.seconds(5)

    private static func serve(
        configurationFile: String, awaitsRestore: Bool, _ openLedger: LedgerOpening
    ) async throws(StartFailure) {
        try harden()
        // Before anything else: a signal that comes early, a reload right after the start say, must not end the process.
        let signals = await UnixSignalsSequence(trapping: .sigterm, .sigint, .sighup)
        let inherited: InheritedSockets
        do throws(ListenerError) {
            inherited = try InheritedSockets.takeFromEnvironment()
        } catch {
            throw StartFailure(listener: error)
        }
        let configuration = try load(configurationFile)
        let log = StandardErrorLog(configuration.log)
        let logger = log.logger("paytokend")
        for warning in configuration.warnings {
            logger.warning("insecure setting", metadata: ["place": "\(warning.place)", "reason": "\(warning.message)"])
        }
        // Reading the configuration has looked into the PIN files.
        if SecretBytes.unlockedByteCount > 0 {
            logger.warning(
                "\(UnlockedMemory.warning)",
                metadata: ["process": "paytokend", "bytes": "\(SecretBytes.unlockedByteCount)"])
        }

        let assembly = try await Assembly.make(configuration, logger: logger, openLedger: openLedger)
        let listener: Listener
        do throws(StartFailure) {
            try await assembly.lifeRecords.started(with: configuration.fileDigest)
        } catch {
            await assembly.ledger.close()
            throw error
        }
        do throws(ListenerError) {
            listener = try await Listener.start(
                settings: configuration.listener, inherited: inherited, handler: assembly.router,
                instruments: assembly.instruments, group: MultiThreadedEventLoopGroup.singleton, logger: logger)
        } catch {
            await assembly.ledger.close()
            throw StartFailure(listener: error)
        }
        await assembly.hsmTokens.start()
        let comparing = assembly.gate.start { [first = assembly.hsmTokens.first] in
            if case .ready = first.condition { true } else { false }
        }
        let sealing = assembly.checkpoints.start()
        let summarising = assembly.refusalSummaries.start()
        let pruning = ClaimPruning(ledger: assembly.ledger, live: assembly.live, clock: .system, logger: logger)
            .start()
        let expiring = ApprovalExpiry(ledger: assembly.ledger, clock: .system, logger: logger).start()
        logger.notice(
            "serving",
            metadata: [
                "version": "\(ProductVersion.current)", "socket": "\(configuration.listener.socket)",
                "admin_socket": "\(configuration.listener.adminSocket)", "node": "\(assembly.ledger.node)",
            ])

        let service = ServiceNotification(logger: logger)
        service.notify(.ready)

        let reload = Reload(file: configurationFile, assembly: assembly, log: log, logger: logger)
        var refusedStart: StartFailure?
        for await occasion in DaemonEvents(signals: signals, verdicts: assembly.gate.verdicts) {
            switch occasion {
            case .signal(.sighup):
                await reload.run()
                continue
            case .signal(let signal):
                logger.notice("draining", metadata: ["signal": "\(signal)"])
            case .verdict(.held(let disagreement)) where !awaitsRestore:
                refusedStart = StartFailure(.configuration, "paytokend: " + disagreement.description)
            case .verdict:
                continue
            }
            break
        }

        service.notify(.stopping)
        let draining = ContinuousClock.now
        let patience = Task { [hsmTokens = assembly.hsmTokens] in
            guard (try? await Task.sleep(for: tokenTime)) != nil else { return }
            hsmTokens.giveUp()
        }
        await listener.shutdown(grace: tokenTime + lastAnswers)
        for task in [pruning, expiring, comparing, summarising] { task.cancel() }
        let isServed = refusedStart == nil
        let ending = Task {
            await assembly.refusalSummaries.finish()
            await assembly.lifeRecords.stopped()
            sealing.cancel()
            if isServed { await seal(assembly.checkpoints, logger: logger) }
            await assembly.hsmTokens.shutdown()
            await assembly.ledger.close()
        }
        if await ending.value(within: max(endTime, drainTime - draining.duration(to: .now))) == nil {
            logger.error(
                "stopping without the ledger or a token, which do not answer; the end of the record may be missing or not sealed"
            )
        }
        patience.cancel()
        logger.notice("stopped")
        log.flush()
        if let refusedStart { throw refusedStart }
    }

    /// The checkpoint at shutdown. Without one the record's end is unsealed until the next start.
    private static func seal(_ checkpoints: Checkpoints, logger: Logger) async {
        do throws(Refusal) {
            try await checkpoints.seal()
        } catch {
            logger.warning("the end of the record was not sealed", metadata: ["reason": "\(error.message)"])
        }
    }

    static func load(_ file: String) throws(StartFailure) -> Configuration {
        do throws(ConfigurationProblems) {
            return try Configuration.load(path: file)
        } catch {
            throw StartFailure(.configuration, error.description)
        }
    }

    /// The kernel keeps this for each thread, and a thread has it from the one that made it: to be called first, while
    /// the main thread is the only one. Whether it worked is found out by ``run(configurationFile:awaitsRestore:)``.
    public static func forbidNewPrivileges() {
        _ = paytokend_forbid_new_privileges()
    }

    /// What a process with card data in its memory gives up: new privileges, core dumps, debuggers of its own user.
    private static func harden() throws(StartFailure) {
        guard paytokend_forbid_new_privileges() == 0, paytokend_forbid_dumps() == 0 else {
            throw StartFailure(.defect, "paytokend: the process cannot be hardened (prctl).")
        }
        signal(SIGPIPE, SIG_IGN)
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

/// What systemd is told of a service of Type=notify (sd_notify(3)): one datagram to the socket that NOTIFY_SOCKET names.
/// Without that variable nobody asked, and nothing is sent.
struct ServiceNotification: Sendable {
    enum State: String, Sendable {
        /// Configuration, ledger and sockets are open. Not that the token is: `systemctl start`, and with it the
        /// installation of a package, would wait for an HSM that is away.
        case ready = "READY=1"
        /// No new connections are taken; what is under way is being finished.
        case stopping = "STOPPING=1"
    }

    /// A path, or `@` and a name in the abstract namespace; nil when nobody asked.
    let socket: String?
    let logger: Logger

    init(environment: [String: String] = ProcessInfo.processInfo.environment, logger: Logger) {
        socket = environment["NOTIFY_SOCKET"].flatMap { $0.isEmpty ? nil : $0 }
        self.logger = logger
    }

    func notify(_ state: State) {
        guard let socket else { return }
        let error = unsafe paytokend_unix_send(socket, state.rawValue)
        guard error != 0 else { return }
        logger.error(
            "the service manager could not be told of this service's state",
            metadata: [
                "state": "\(state.rawValue)", "socket": "\(socket)",
                "reason": "\(SystemError(call: "sendto", errno: error))",
            ])
    }
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
            case .inUse, .notNow: .tryAgainLater
            default: .configuration
            }
        self.init(status, error.description)
    }
}

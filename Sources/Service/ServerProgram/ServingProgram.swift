// The common parts of the programs that run until a signal ends them, `paytokend`, `paytoken-gateway` and, without a
// socket of its own, `paytoken-outbound`:
//
//   ServingProgram.swift      the program's life, from the configuration file to the exit status
//   LiveConfiguration.swift   the configuration in force, and SIGHUP
//   Router.swift              from a request's head to the route that answers it; refusals and their answers
//   RequestLog.swift          one line and one count for each request
//
// A program adds the parts that it opens, its routes, the rights that they need, and the parts that a reload replaces.

package import DaemonAPI
import Foundation
package import HTTPListener
import HostSystem
package import Logging
import NIOPosix
import Telemetry
import UnixSignals

/// A program that runs until a signal ends it.
package protocol ServingProgram: Sendable {
    associatedtype Parts: ReloadableParts
    /// The program's name, in messages and the log.
    static var name: String { get }
    /// The names that the service manager gives the program's sockets (FileDescriptorName=).
    static var socketNames: [String] { get }
    /// The status text for the service manager (`STATUS=`) from the start until the program reports another one.
    static var firstStatus: String { get }

    var parts: Parts { get }
    /// The socket that the watchdog of the service manager checks; nil if the program listens on none.
    var watchedSocket: WatchedSocket? { get }
    /// Waits for a failure that must stop the program, and returns it. Returns nil if no such failure can happen.
    func failure() async -> StartFailure?
    /// Accepts no more connections, finishes the requests under way, and closes everything.
    ///
    /// - Parameter failure: the reason to stop; nil for a signal.
    func stop(after failure: StartFailure?) async
}

/// The inputs, in addition to the configuration, from which a program's parts are made.
package struct ProgramStart: Sendable {
    package let inherited: InheritedSockets
    package let logger: Logger

    /// Opens the sockets in the given order, on the event loops that the whole program shares.
    package func listen(
        on sockets: () throws(ListenerError) -> [ListeningSocket]
    ) async throws(StartFailure) -> Listener {
        do throws(ListenerError) {
            return try await Listener.start(sockets(), group: MultiThreadedEventLoopGroup.singleton, logger: logger)
        } catch {
            throw StartFailure(listener: error)
        }
    }
}

extension ServingProgram {
    /// Prints every problem and every warning of the configuration on standard error.
    ///
    /// - Returns: `done`, or `configuration` when there is a problem.
    package static func check(configurationFile: String) -> ExitStatus {
        do throws(StartFailure) {
            for warning in try Parts.Configuration.loaded(from: configurationFile, examinesPlaces: true).warnings {
                say("\(warning.place): warning: \(warning.message)")
            }
            return .done
        } catch {
            say(error.message)
            return error.exitStatus
        }
    }

    /// Serves until SIGTERM or SIGINT.
    ///
    /// - Parameter start: opens the parts that the program needs, the sockets last.
    package static func run(
        configurationFile: String, start: (Parts.Configuration, ProgramStart) async throws(StartFailure) -> Self
    ) async -> ExitStatus {
        let isActivated = InheritedSockets.areInEnvironment
        do throws(StartFailure) {
            try await serve(configurationFile, start)
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
        _ file: String, _ start: (Parts.Configuration, ProgramStart) async throws(StartFailure) -> Self
    ) async throws(StartFailure) {
        // The program's memory holds secrets, which other processes must not be able to read.
        guard HardenedProcess.harden() else {
            throw StartFailure(.defect, "\(name): the process cannot be hardened (prctl).")
        }
        // This comes first, so that an early signal, such as a reload right after the start, does not end the process.
        let signals = await UnixSignalsSequence(trapping: .sigterm, .sigint, .sighup)
        let inherited: InheritedSockets
        do throws(ListenerError) {
            inherited = try InheritedSockets.takeFromEnvironment(named: socketNames)
        } catch {
            throw StartFailure(listener: error)
        }
        let configuration = try Parts.Configuration.loaded(from: file)
        let log = StandardErrorLog(configuration.log)
        let logger = log.logger(name)
        logger.warn(of: configuration.warnings)

        let program = try await start(configuration, ProgramStart(inherited: inherited, logger: logger))
        let service = ServiceNotification(logger: logger)
        service.notify(.ready, .status(firstStatus))
        let watchdog = program.watchedSocket.flatMap {
            ServiceWatchdog.start(service, asking: $0, group: MultiThreadedEventLoopGroup.singleton)
        }
        let status = program.parts.status(of: service)
        let showing = status.start()
        let source = ReloadSource(file: file, log: log, logger: logger)
        let failure = await program.untilStopped(signals, logger) { request in
            let isInForce =
                if let request { await request.perform(source) } else {
                    await program.parts.reload(from: file, log: log, logger: logger)
                }
            if let isInForce { status.reloaded(inForce: isInForce) }
        }
        showing.cancel()
        service.notify(.stopping, .status("Finishing the requests under way."))
        watchdog?.stop()
        await program.stop(after: failure)
        logger.notice("stopped")
        log.flush()
        if let failure { throw failure }
    }

    /// Waits until a signal or a failure stops the program. Reloads at each SIGHUP and at each request.
    ///
    /// - Parameter reload: receives the request, or nil at SIGHUP.
    /// - Returns: the failure; nil for a signal to stop.
    private func untilStopped(
        _ signals: UnixSignalsSequence, _ logger: Logger, reload: (ReloadRequest?) async -> Void
    ) async -> StartFailure? {
        let (events, continuation) = AsyncStream.makeStream(of: ProgramEvent.self)
        let signalling = Task { for await signal in signals { continuation.yield(.signal(signal)) } }
        let failing = Task { if let failure = await failure() { continuation.yield(.failure(failure)) } }
        let requesting = Task { [parts] in
            for await request in parts.reloadRequests { continuation.yield(.reload(request)) }
        }
        defer {
            signalling.cancel()
            failing.cancel()
            requesting.cancel()
        }
        for await event in events {
            switch event {
            case .signal(.sighup): await reload(nil)
            case .reload(let request): await reload(request)
            case .signal(let signal):
                logger.notice("draining", metadata: ["signal": "\(signal)"])
                return nil
            case .failure(let failure): return failure
            }
        }
        return nil
    }

    private static func say(_ text: String) {
        FileHandle.standardError.write(Data((text + "\n").utf8))
    }
}

private enum ProgramEvent: Sendable {
    case signal(UnixSignal)
    case reload(ReloadRequest)
    case failure(StartFailure)
}

/// The reason why a program did not start: the sentence for standard error, and the exit status.
package struct StartFailure: Error, Sendable, Equatable {
    package let exitStatus: ExitStatus
    package let message: String

    package init(_ exitStatus: ExitStatus, _ message: String) {
        self.exitStatus = exitStatus
        self.message = message
    }

    package init(listener error: ListenerError) {
        let status: ExitStatus = if case .alreadyServed = error { .tryAgainLater } else { .configuration }
        self.init(status, error.description)
    }
}

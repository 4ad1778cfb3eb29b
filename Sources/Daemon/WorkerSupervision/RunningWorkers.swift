import Foundation
import Locks
import Logging
import NIOCore
import NIOPosix
import ProductVersion
import Telemetry
import WorkerProtocol

/// The worker processes of one HSM token, each from its start until it has been reaped: the serving worker, the successor
/// that is opening the HSM token, and those that are ending.
final class RunningWorkers: Sendable {
    /// A worker that has opened the HSM token and serves.
    struct Opened: Sendable {
        let number: UInt64
        let process: WorkerProcess
        let description: HSMTokenDescription
        let since = ContinuousClock.now
        /// The worker's resident memory after opening the HSM token, in bytes; nil if /proc does not show it.
        let memory: Int?
    }

    private struct State {
        var lastNumber: UInt64 = 0
        /// All processes that have not been reaped, by worker number.
        var processes: [UInt64: WorkerProcess] = [:]
        /// The number of the worker that is opening the HSM token.
        var opening: UInt64?
        var serving: UInt64?
        /// True once the daemon is stopping. A worker that is started after that is killed at once.
        var isStopping = false
    }

    let settings: HSMTokenSettings
    private let executable: WorkerExecutable
    let logger: Logger
    let events: WorkerEvents
    let eventLoop: any EventLoop
    let calls: CallQueue
    private let ended: @Sendable (_ worker: UInt64, _ wasUseful: Bool) -> Void
    private let state = Mutex(State())

    /// - Parameters:
    ///   - eventLoop: the event loop on which the workers' answers arrive.
    ///   - ended: called when any worker has ended, even one that never served. `wasUseful` is true if the worker had
    ///     answered calls while it served.
    init(
        settings: HSMTokenSettings, executable: WorkerExecutable, logger: Logger, events: WorkerEvents,
        eventLoop: any EventLoop, calls: CallQueue, ended: @escaping @Sendable (UInt64, _ wasUseful: Bool) -> Void
    ) {
        self.settings = settings
        self.executable = executable
        self.logger = logger
        self.events = events
        self.eventLoop = eventLoop
        self.calls = calls
        self.ended = ended
    }

    /// The serving worker's process identifier; nil while no worker serves.
    var servingProcess: pid_t? {
        state.withLock { state in state.serving.flatMap { state.processes[$0]?.identifier } }
    }

    var isStopping: Bool { state.withLock { $0.isStopping } }

    /// Starts a worker, waits until it has opened the HSM token and listed its keys, and then lets it serve.
    func launch() async -> Result<Opened, WorkerFailure> {
        do throws(WorkerExecutableError) {
            let (process, socket) = try WorkerProcess.spawn(executable, environment: settings.environment) {
                [logger] line, process in
                logger.notice(
                    "the worker or its PKCS#11 library wrote to standard error",
                    metadata: [
                        "worker.pid": "\(process)", "line": "\(line.text)", "dropped": "\(line.dropped)",
                    ])
            }
            let (number, isStopping) = state.withLock { state in
                state.lastNumber += 1
                state.processes[state.lastNumber] = process
                state.opening = state.lastNumber
                return (state.lastNumber, state.isStopping)
            }
            defer { state.withLock { $0.opening = nil } }
            if isStopping { process.kill() }
            guard await connect(process, socket: socket, number: number) else {
                process.kill()
                return .failure(WorkerFailure(.hsmTokenUnavailable, "The worker ended at its start."))
            }
            return await open(number, process)
        } catch {
            return .failure(WorkerFailure(.hsmTokenUnavailable, error.message))
        }
    }

    private func connect(_ process: WorkerProcess, socket: CInt, number: UInt64) async -> Bool {
        let end = WorkerEnd()
        let connection = try? await WorkerConnection.attach(
            socket: socket, to: eventLoop,
            receive: { [calls] identifier, answer in calls.received(answer, for: identifier, from: number) },
            closed: { [self] in
                end.close()
                // A worker counts as ended once its connection is closed, even if its process still runs.
                ended(number, calls.ended(number))
                Task { await self.reap(process, number: number, end) }
            })
        guard let connection else {
            Task { await reap(process, number: number, end) }
            return false
        }
        calls.add(
            ConnectedWorker(
                number: number,
                send: { connection.send($0) },
                close: {
                    end.markIntended()
                    connection.close()
                },
                kill: { reason in
                    end.set(reason)
                    connection.close()
                }))
        // The worker may have ended before it was added to the queue.
        if end.isClosed { calls.ended(number) }
        return !end.isClosed
    }

    private func open(_ number: UInt64, _ process: WorkerProcess) async -> Result<Opened, WorkerFailure> {
        let opening = HSMTokenOpening(
            programVersion: ProductVersion.current, modulePath: settings.module, tokenURI: settings.uri,
            pinFile: settings.pinFile, sessions: UInt16(clamping: settings.sessions),
            initializationString: settings.initArgs, allowExtractableSecret: settings.allowExtractableSecret,
            callTimeout: UInt32(clamping: Int64(settings.callTimeout.inSeconds * 1000)),
            refusedLogins: settings.refusedLogins, deniedSystemCalls: settings.deniedSystemCalls,
            portalIssuer: settings.portalKey?.issuer ?? "", portalKeyId: settings.portalKey?.keyId ?? "")
        do throws(WorkerFailure) {
            guard case .opened(let description) = try await ask(.open(opening), number) else {
                throw WorkerFailure(.protocolViolation, "The worker's answer does not match the request.")
            }
            // The daemon learns the keys before the worker serves, so that no call with one of them comes too early.
            let began = ContinuousClock.now
            let keys = try await KeyPages.all(readers: Int(description.sessions)) {
                [self] (request) async throws(WorkerFailure) in try await ask(request, number)
            }
            await events.keys(keys, began)
            guard calls.serve(with: number, opened: description) else {
                throw WorkerFailure(.hsmTokenUnavailable, "The worker ended.")
            }
            state.withLock { $0.serving = number }
            return .success(
                Opened(
                    number: number, process: process, description: description, memory: process.residentMemory))
        } catch {
            calls.close(number)
            return .failure(error)
        }
    }

    private func ask(_ request: WorkerRequest, _ number: UInt64) async throws(WorkerFailure) -> WorkerAnswer {
        try await calls.submit(request, to: number).answer()
    }

    /// Waits for the process of a worker whose connection is closed, and reports why the worker ended. A process that does
    /// not end by itself within some seconds is killed.
    private func reap(_ process: WorkerProcess, number: UInt64, _ end: WorkerEnd) async {
        let exit = await process.end(within: end.reason?.timeToEnd ?? .seconds(5))
        state.withLock { $0.processes[number] = nil }
        guard let reason = end.reason else { return }
        events.restarted(reason)
        var metadata: Logger.Metadata = [
            "worker.pid": "\(process.identifier)", "reason": "\(reason.rawValue)", "exit": "\(exit)",
        ]
        if reason == .hsmToken, let failure = calls.latestFailure { metadata["failure"] = "\(failure.message)" }
        logger.warning("a worker has ended", metadata: metadata)
    }

    // MARK: Stopping

    /// Ends the worker that is opening the HSM token, since no call needs it and opening may take a minute. A login in
    /// progress may finish. Every worker that is started after this call is killed.
    func stopOpening() {
        let opening = state.withLock { state in
            state.isStopping = true
            return state.opening.flatMap { state.processes[$0] }
        }
        if let opening { Task { await opening.end(within: WorkerEvents.RestartReason.timeout.timeToEnd) } }
    }

    /// Fails all calls and kills all workers.
    func giveUp(_ failure: WorkerFailure) {
        let processes = state.withLock { state in
            state.isStopping = true
            return Array(state.processes.values)
        }
        let calls = calls.giveUp(failure)
        // The connections are closed before the workers are killed. Otherwise their ends would count as crashes.
        self.calls.closeAll()
        if !processes.isEmpty {
            logger.warning(
                "the worker is killed before it is done, because the daemon is stopping",
                metadata: ["calls": "\(calls)"])
        }
        for process in processes { process.kill() }
    }

    /// Refuses the waiting calls, closes the connections to all workers, and waits until their processes have ended.
    func end(_ failure: WorkerFailure) async {
        calls.refuse(failure)
        calls.closeAll()
        await withTaskGroup(of: Void.self) { group in
            for process in state.withLock({ Array($0.processes.values) }) {
                group.addTask { _ = await process.end(within: .seconds(5)) }
            }
        }
    }
}

/// A worker as a ``CallQueue`` uses it.
struct ConnectedWorker: Sendable {
    /// The worker's number. Each worker that is started for the HSM token has a higher number than the one before.
    let number: UInt64
    /// Sends a frame; does not wait until it is written.
    let send: @Sendable ([UInt8]) -> Void
    /// Closes the connection to a worker without calls. The worker then ends, which does not count as a crash.
    let close: @Sendable () -> Void
    /// Closes the connection to a worker that must end now. Its process is killed if it does not end within
    /// ``WorkerEvents/RestartReason/timeToEnd``.
    let kill: @Sendable (WorkerEvents.RestartReason) -> Void
}

/// The daemon's end of the socket pair that connects it to one worker. Frames that are sent close together are written with
/// one system call.
final class WorkerConnection: Sendable {
    private struct Outbox {
        var bytes: [UInt8] = []
        var isFlushScheduled = false
    }

    private let channel: any Channel
    private let outbox = Mutex(Outbox())

    private init(channel: any Channel) {
        self.channel = channel
    }

    /// Creates the connection. It owns the socket from now on, even if this function throws.
    /// - Parameters:
    ///   - receive: called on the event loop with each answer. It returns false if the worker had no such request, and the
    ///     connection is then closed.
    ///   - closed: called once, on the event loop, when no more answers will come.
    static func attach(
        socket: CInt, to eventLoop: any EventLoop,
        receive: @escaping @Sendable (UInt64, WorkerAnswer) -> Bool,
        closed: @escaping @Sendable () -> Void
    ) async throws -> WorkerConnection {
        let channel = try await ClientBootstrap(group: eventLoop)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(
                        AnswerHandler(receive: receive, closed: closed))
                }
            }
            .withConnectedSocket(socket).get()
        return WorkerConnection(channel: channel)
    }

    /// Sends a whole frame. If the connection is closed, the frame is lost.
    func send(_ frame: [UInt8]) {
        let flushes = outbox.withLock { outbox in
            outbox.bytes.append(contentsOf: frame)
            defer { outbox.isFlushScheduled = true }
            return !outbox.isFlushScheduled
        }
        if flushes { channel.eventLoop.execute { self.flush() } }
    }

    /// Closes the connection, but not before this call returns. Answers that have already been read are still processed.
    func close() {
        channel.eventLoop.execute { self.channel.close(promise: nil) }
    }

    private func flush() {
        let bytes = outbox.withLock { outbox in
            defer { outbox = Outbox() }
            return outbox.bytes
        }
        channel.writeAndFlush(channel.allocator.buffer(bytes: bytes), promise: nil)
    }
}

private final class AnswerHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private var decoder = FrameDecoder(maximumLength: FieldBound.answerFrame)
    private let receive: @Sendable (UInt64, WorkerAnswer) -> Bool
    private let closed: @Sendable () -> Void

    init(
        receive: @escaping @Sendable (UInt64, WorkerAnswer) -> Bool, closed: @escaping @Sendable () -> Void
    ) {
        self.receive = receive
        self.closed = closed
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        decoder.append(unwrapInboundIn(data).readableBytesView)
        do {
            while let frame = try decoder.next() {
                guard receive(frame.identifier, try WorkerAnswer(frame)) else {
                    context.close(promise: nil)
                    return
                }
            }
        } catch {
            context.close(promise: nil)
        }
    }

    func channelInactive(context: ChannelHandlerContext) {
        closed()
        context.fireChannelInactive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        context.close(promise: nil)
    }
}

/// The reason for which a worker's connection closes. The daemon sets it before it closes the connection, and reads it when
/// the connection has closed.
final class WorkerEnd: Sendable {
    private struct State {
        var reason: WorkerEvents.RestartReason? = .died
        var isClosed = false
    }

    private let state = Mutex(State())

    /// Marks the worker's end as intended, so that it does not count as a restart. A reason that was already set remains.
    func markIntended() {
        state.withLock { state in
            if state.reason == .died { state.reason = nil }
        }
    }

    func set(_ reason: WorkerEvents.RestartReason) {
        state.withLock { $0.reason = reason }
    }

    func close() {
        state.withLock { $0.isClosed = true }
    }

    /// The reason for the `paytokend_worker_restarts_total` metric; nil if the worker's end was intended.
    var reason: WorkerEvents.RestartReason? { state.withLock { $0.reason } }
    var isClosed: Bool { state.withLock { $0.isClosed } }
}

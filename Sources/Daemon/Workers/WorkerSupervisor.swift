import Foundation
import Logging
import NIOCore
import ProductVersion
import Synchronization
import WorkerProtocol

/// Starts a token's workers one after the other and puts them behind the ``CallQueue``.
final class WorkerSupervisor: Sendable {
    enum Signal: Sendable {
        case ended(lane: UInt64, wasUseful: Bool)
        case recycleDue(UInt64)
        case outgrown(UInt64)
        case retry
        case stop
    }

    /// A worker that has opened the token.
    private struct Served: Sendable {
        let lane: UInt64
        let process: WorkerProcess
        let description: TokenDescription
        let since = ContinuousClock.now
        /// Resident memory once the token was open, in bytes; nil where /proc does not tell.
        let memory: Int?
    }

    private struct State {
        var condition = WorkerCondition.starting
        var lanes: UInt64 = 0
        var isStopping = false
        /// Every process that has not been reaped, by its lane.
        var processes: [UInt64: WorkerProcess] = [:]
        /// The lane whose worker opens the token now.
        var opening: UInt64?
        var serving: UInt64?
        /// A successor's login was refused: the PIN is wrong by now, and the old worker serves on its old login.
        var isLoginRefused = false
        var hasWarnedOfSecrets = false
    }

    private let settings: TokenSettings
    private let executable: WorkerExecutable
    private let logger: Logger
    private let events: WorkerEvents
    private let eventLoop: any EventLoop
    private let calls: CallQueue
    private let memoryGrowth: Int
    private let signals: AsyncStream<Signal>
    private let continuation: AsyncStream<Signal>.Continuation
    private let state = Mutex(State())

    init(
        settings: TokenSettings, executable: WorkerExecutable, logger: Logger, events: WorkerEvents,
        eventLoop: any EventLoop, calls: CallQueue, memoryGrowth: Int, signals: AsyncStream<Signal>,
        continuation: AsyncStream<Signal>.Continuation
    ) {
        self.settings = settings
        self.executable = executable
        var logger = logger
        logger[metadataKey: "token"] = "\(settings.name)"
        self.logger = logger
        self.events = events
        self.eventLoop = eventLoop
        self.calls = calls
        self.memoryGrowth = memoryGrowth
        self.signals = signals
        self.continuation = continuation
    }

    /// Ready means that calls are taken, at this moment: what is known here alone lags behind, at both ends.
    var condition: WorkerCondition {
        if let token = calls.servedToken { return .ready(token) }
        let condition = state.withLock { $0.condition }
        if case .ready = condition { return .starting }
        return condition
    }

    func retry() {
        continuation.yield(.retry)
    }

    /// The process that serves now.
    var processIdentifier: pid_t? {
        state.withLock { state in state.serving.flatMap { state.processes[$0]?.identifier } }
    }

    func stop() {
        let opening = state.withLock { state in
            state.isStopping = true
            return state.opening.flatMap { state.processes[$0] }
        }
        // Opening a token may take a minute, and nobody waits for it any more; a login that has begun may end.
        if let opening { Task { await opening.end(within: WorkerEvents.RestartReason.timeout.timeToEnd) } }
        continuation.yield(.stop)
    }

    /// Answers all calls and ends all workers now.
    func giveUp() {
        let processes = state.withLock { state in
            state.isStopping = true
            return Array(state.processes.values)
        }
        let calls = calls.giveUp(WorkerFailure(.tokenUnavailable, "The daemon is shutting down."))
        // Closed first: it is this end that does not wait any longer, which is no death to be counted.
        self.calls.closeAll()
        if !processes.isEmpty {
            logger.warning(
                "the worker is ended although it is not done: the daemon stops", metadata: ["calls": "\(calls)"])
        }
        for process in processes { process.kill() }
        continuation.yield(.stop)
    }

    private var isStopping: Bool { state.withLock { $0.isStopping } }
    private var isLoginRefused: Bool {
        get { state.withLock { $0.isLoginRefused } }
        set { state.withLock { $0.isLoginRefused = newValue } }
    }

    private func set(_ condition: WorkerCondition) {
        let changed = state.withLock { state in
            defer { state.condition = condition }
            return state.condition != condition
        }
        if changed { events.condition(condition) }
    }

    // MARK: Supervision

    func run() async {
        let calls = calls
        let interval = TimeAmount.nanoseconds(Int64(max(settings.callTimeout.inSeconds / 20, 0.02) * 1e9))
        let expiry = eventLoop.scheduleRepeatedTask(initialDelay: interval, delay: interval) { [self] _ in
            calls.expire()
            warnOfUnlockedSecrets()
        }
        defer { expiry.cancel() }

        var signals = signals.makeAsyncIterator()
        var delay = RespawnDelay()
        var serving: Served?
        var outgrown: UInt64?
        while !isStopping {
            guard let served = serving else {
                serving = await open(&delay, &signals)
                continue
            }
            // Once is enough: a successor that fails is tried again by itself.
            let growth = served.lane == outgrown ? nil : watchGrowth(of: served)
            defer { growth?.cancel() }
            switch await signals.next() {
            case .ended(lane: served.lane, let wasUseful):
                serving = nil
                await pause(after: served, wasUseful: wasUseful, &delay)
            case .recycleDue(served.lane):
                serving = await recycle(served, .recycled)
            case .outgrown(served.lane):
                outgrown = served.lane
                serving = await recycle(served, .memory)
            case .retry where isLoginRefused:
                serving = await recycle(served, .recycled)
            case .ended, .recycleDue, .outgrown, .retry:
                continue
            case .stop, nil:
                stop()
            }
        }
        await drain()
    }

    /// The first worker, or the next after one that ended. nil when there is none yet; it has waited then.
    private func open(
        _ delay: inout RespawnDelay, _ signals: inout AsyncStream<Signal>.Iterator
    ) async -> Served? {
        switch await launch() {
        case .success(let served):
            logger.info(
                "the token is open", metadata: ["tier.ec": "\(served.description.tierECv1?.rawValue ?? "none")"])
            set(.ready(served.description))
            return served
        case .failure(let failure):
            logger.error("the token cannot be opened", metadata: ["reason": "\(failure.message)"])
            set(.unavailable(failure))
            calls.refuse(failure)
            if let pause = delay.afterRefusal(failure) {
                await sleep(pause)
            } else {
                await pinFileChange(&signals)
            }
            return nil
        }
    }

    /// Looks every second how large a worker has become.
    private func watchGrowth(of served: Served) -> RepeatedTask? {
        guard let memory = served.memory else { return nil }
        let (continuation, most, lane) = (continuation, memory + memoryGrowth, served.lane)
        let process = served.process.identifier
        return eventLoop.scheduleRepeatedTask(initialDelay: .seconds(1), delay: .seconds(1)) { task in
            guard let now = WorkerMemory.resident(of: process), now > most else { return }
            task.cancel()
            continuation.yield(.outgrown(lane))
        }
    }

    /// Says once that secrets may be swapped to a disk.
    private func warnOfUnlockedSecrets() {
        let count = calls.unlockedSecrets
        guard count > 0 else { return }
        let hasWarned = state.withLock { state in
            defer { state.hasWarnedOfSecrets = true }
            return state.hasWarnedOfSecrets
        }
        guard !hasWarned else { return }
        logger.warning("\(UnlockedMemory.warning)", metadata: ["process": "paytokend-hsm", "bytes": "\(count)"])
    }

    private func pause(after served: Served, wasUseful: Bool, _ delay: inout RespawnDelay) async {
        guard !isStopping else { return }
        set(.starting)
        let pause = delay.afterDeath(served: .now - served.since, wasUseful: wasUseful)
        guard pause > .zero else { return }
        if pause >= .seconds(2) {
            let failure = WorkerFailure(.tokenUnavailable, "The worker ended again and again; the next try comes.")
            set(.unavailable(failure))
            calls.refuse(failure)
        }
        await sleep(pause)
    }

    /// A successor first, then the change: no call waits for it. Without a successor the old one goes on.
    private func recycle(_ served: Served, _ reason: WorkerEvents.RestartReason) async -> Served? {
        switch await launch() {
        case .success(let successor):
            isLoginRefused = false
            logger.info(
                "a fresh worker has taken over",
                metadata: ["worker.pid": "\(successor.process.identifier)", "reason": "\(reason.rawValue)"])
            events.restarted(reason)
            set(.ready(successor.description))
            return successor
        case .failure(let failure):
            logger.warning("no fresh worker, the old one goes on", metadata: ["reason": "\(failure.message)"])
            // A refused PIN is not tried again by itself, since tokens count wrong ones: only when SIGHUP says that the
            // PIN file has been read anew. Until then the old worker goes on, worn out or not.
            isLoginRefused = failure.kind == .loginRefused
            guard !isLoginRefused else { return served }
            let lane = served.lane
            let continuation = continuation
            _ = eventLoop.scheduleTask(in: .seconds(30)) { continuation.yield(.recycleDue(lane)) }
            return served
        }
    }

    /// Sleeps in short pieces: a stop is not to wait for a pause.
    private func sleep(_ duration: Duration) async {
        let end = ContinuousClock.now + duration
        while !isStopping, ContinuousClock.now < end {
            try? await Task.sleep(for: min(.milliseconds(100), end - .now))
        }
    }

    /// A refused PIN is not tried again by itself: tokens count wrong ones.
    private func pinFileChange(_ signals: inout AsyncStream<Signal>.Iterator) async {
        let continuation = continuation
        let path = settings.pinFile
        let refused = FileVersion(path: path)
        let watch = eventLoop.scheduleRepeatedTask(initialDelay: .seconds(2), delay: .seconds(2)) { _ in
            if FileVersion(path: path) != refused { continuation.yield(.retry) }
        }
        defer { watch.cancel() }
        while let signal = await signals.next() {
            switch signal {
            case .retry, .stop: return
            case .ended, .recycleDue, .outgrown: continue
            }
        }
    }

    // MARK: One worker

    /// Starts a worker, has it open the token and list its keys, and lets it serve.
    private func launch() async -> Result<Served, WorkerFailure> {
        do throws(WorkerExecutableError) {
            let (process, socket) = try WorkerProcess.spawn(executable, environment: settings.environment)
            let lane = state.withLock { state in
                state.lanes += 1
                state.processes[state.lanes] = process
                state.opening = state.lanes
                return state.lanes
            }
            defer { state.withLock { $0.opening = nil } }
            if isStopping { process.kill() }
            guard await connect(process, socket: socket, lane: lane) else {
                process.kill()
                return .failure(WorkerFailure(.tokenUnavailable, "The worker ended at its start."))
            }
            return await open(lane, process)
        } catch {
            return .failure(WorkerFailure(.tokenUnavailable, error.message))
        }
    }

    private func connect(_ process: WorkerProcess, socket: CInt, lane: UInt64) async -> Bool {
        let end = LaneEnd()
        let connection = try? await WorkerConnection.attach(
            socket: socket, to: eventLoop,
            receive: { [calls] identifier, answer in calls.received(answer, for: identifier, from: lane) },
            closed: { [self] in
                end.close()
                // The socket's end is the worker's end, whatever its process still does.
                let wasUseful = calls.ended(lane)
                continuation.yield(.ended(lane: lane, wasUseful: wasUseful))
                Task { await self.bury(process, lane: lane, end) }
            })
        guard let connection else {
            Task { await bury(process, lane: lane, end) }
            return false
        }
        calls.add(
            WorkerLane(
                identifier: lane,
                send: { connection.send($0) },
                close: {
                    end.expect()
                    connection.close()
                },
                kill: { reason in
                    end.set(reason)
                    connection.close()
                }))
        if end.isClosed { calls.ended(lane) }
        return !end.isClosed
    }

    /// Sees a worker out whose socket is closed.
    private func bury(_ process: WorkerProcess, lane: UInt64, _ end: LaneEnd) async {
        let exit = await process.end(within: end.reason?.timeToEnd ?? .seconds(5))
        state.withLock { $0.processes[lane] = nil }
        guard let reason = end.reason else { return }
        events.restarted(reason)
        logger.warning(
            "a worker has ended",
            metadata: [
                "worker.pid": "\(process.identifier)", "reason": "\(reason.rawValue)", "exit": "\(exit)",
            ])
    }

    private func open(_ lane: UInt64, _ process: WorkerProcess) async -> Result<Served, WorkerFailure> {
        let opening = TokenOpening(
            programVersion: ProductVersion.current, modulePath: settings.module, tokenURI: settings.uri,
            pinFile: settings.pinFile, sessions: UInt16(clamping: settings.sessions),
            initializationString: settings.initArgs, allowExtractableSecret: settings.allowExtractableSecret,
            callTimeout: UInt32(clamping: Int64(settings.callTimeout.inSeconds * 1000)),
            refusedLogins: settings.refusedLogins, deniedSystemCalls: settings.deniedSystemCalls)
        do throws(WorkerFailure) {
            guard case .opened(let description) = try await calls.submit(.open(opening), to: lane).answer() else {
                throw WorkerFailure(.protocolViolation, "The worker answered something else than it was asked.")
            }
            // The keys are known before the first call is made with them.
            let began = ContinuousClock.now
            let keys = try await KeyPages.all(readers: Int(description.sessions)) {
                [calls] (request) async throws(WorkerFailure) in
                try await calls.submit(request, to: lane).answer()
            }
            await events.keys(keys, began)
            guard calls.serve(with: lane, opened: description) else {
                throw WorkerFailure(.tokenUnavailable, "The worker ended.")
            }
            state.withLock { $0.serving = lane }
            let memory = WorkerMemory.resident(of: process.identifier)
            return .success(Served(lane: lane, process: process, description: description, memory: memory))
        } catch {
            calls.close(lane)
            return .failure(error)
        }
    }

    /// Lets calls end, then the workers.
    private func drain() async {
        let end = ContinuousClock.now + settings.callTimeout
        while !calls.isIdle, ContinuousClock.now < end { try? await Task.sleep(for: .milliseconds(10)) }
        calls.refuse(WorkerFailure(.tokenUnavailable, "The daemon is shutting down."))
        calls.closeAll()
        await withTaskGroup(of: Void.self) { group in
            for process in state.withLock({ Array($0.processes.values) }) {
                group.addTask { _ = await process.end(within: .seconds(5)) }
            }
        }
    }
}

/// What tells one version of a file from another.
private struct FileVersion: Equatable {
    private let inode: UInt64?
    private let modified: Date?

    init(path: String) {
        let attributes = try? FileManager.default.attributesOfItem(atPath: path)
        inode = attributes?[.systemFileNumber] as? UInt64
        modified = attributes?[.modificationDate] as? Date
    }
}

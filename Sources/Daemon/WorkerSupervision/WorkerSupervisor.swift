import Foundation
import Locks
import Logging
import NIOCore
import Telemetry
import WorkerProtocol

/// Keeps one HSM token in service. It decides when to start the next worker after one has ended, and when to replace one
/// that still serves. ``RunningWorkers`` starts and ends the processes.
final class WorkerSupervisor: Sendable {
    enum Signal: Sendable {
        case ended(worker: UInt64, wasUseful: Bool)
        case recycleDue(UInt64)
        case outgrown(UInt64)
        case retry
        case stop
    }

    /// The number of bytes by which a worker may grow after opening its HSM token; then it is replaced. SoftHSM 2.6.1 leaks
    /// about 265 bytes with each derivation, so the limit allows a million derivations, the default of `recycle_after`. A
    /// worker that grows faster leaks objects, which slows its sessions long before memory runs out. The limit is on growth
    /// rather than size, since a worker with thousands of keys is large from the start.
    static let memoryGrowth = 256 * 1024 * 1024

    private struct State {
        var condition = HSMTokenCondition.starting
        /// True if the HSM token refused a successor's login: the PIN in the file is wrong now. The old worker
        /// continues with its old login.
        var isLoginRefused = false
        var hasWarnedOfSecrets = false
    }

    private let workers: RunningWorkers
    private let memoryGrowth: Int
    private let signals: AsyncStream<Signal>
    private let continuation: AsyncStream<Signal>.Continuation
    private let state = Mutex(State())

    init(
        _ workers: RunningWorkers, memoryGrowth: Int, signals: AsyncStream<Signal>,
        continuation: AsyncStream<Signal>.Continuation
    ) {
        self.workers = workers
        self.memoryGrowth = memoryGrowth
        self.signals = signals
        self.continuation = continuation
    }

    /// The current condition, ready if calls are accepted at this moment. The call queue decides that, since the condition
    /// in `state` changes a little later, when a worker begins to serve and when it ends.
    var condition: HSMTokenCondition {
        if let hsmToken = calls.servedHSMToken { return .ready(hsmToken) }
        let condition = state.withLock { $0.condition }
        if case .ready = condition { return .starting }
        return condition
    }

    func retry() {
        continuation.yield(.retry)
    }

    /// The serving worker's process identifier; nil while no worker serves.
    var processIdentifier: pid_t? { workers.servingProcess }

    func stop() {
        workers.stopOpening()
        continuation.yield(.stop)
    }

    /// Fails all calls and kills all workers now.
    func giveUp() {
        workers.giveUp(Self.shuttingDown)
        continuation.yield(.stop)
    }

    private static let shuttingDown = WorkerFailure(.hsmTokenUnavailable, "The daemon is shutting down.")

    private var settings: HSMTokenSettings { workers.settings }
    private var logger: Logger { workers.logger }
    private var eventLoop: any EventLoop { workers.eventLoop }
    private var calls: CallQueue { workers.calls }
    private var isStopping: Bool { workers.isStopping }
    private var isLoginRefused: Bool {
        get { state.withLock { $0.isLoginRefused } }
        set { state.withLock { $0.isLoginRefused = newValue } }
    }

    private func set(_ condition: HSMTokenCondition) {
        let changed = state.withLock { state in
            defer { state.condition = condition }
            return state.condition != condition
        }
        if changed { workers.events.condition(condition) }
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
        var serving: RunningWorkers.Opened?
        var outgrown: UInt64?
        while !isStopping {
            guard let served = serving else {
                serving = await open(&delay, &signals)
                continue
            }
            // A worker's growth is reported only once. If its successor fails to start, a timer causes the next attempt.
            let growth = served.number == outgrown ? nil : watchGrowth(of: served)
            defer { growth?.cancel() }
            switch await signals.next() {
            case .ended(worker: served.number, let wasUseful):
                serving = nil
                await pause(after: served, wasUseful: wasUseful, &delay)
            case .recycleDue(served.number):
                serving = await recycle(served, .recycled)
            case .outgrown(served.number):
                outgrown = served.number
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

    /// Starts the first worker, or the next one after a worker has ended. If it cannot open the HSM token, returns nil
    /// after a pause.
    private func open(
        _ delay: inout RespawnDelay, _ signals: inout AsyncStream<Signal>.Iterator
    ) async -> RunningWorkers.Opened? {
        switch await workers.launch() {
        case .success(let served):
            logger.info(
                "the HSM token is open", metadata: ["tier.ec": "\(served.description.tierECv1?.rawValue ?? "none")"])
            set(.ready(served.description))
            return served
        case .failure(let failure):
            logger.error("the HSM token cannot be opened", metadata: ["reason": "\(failure.message)"])
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

    /// Checks the worker's memory every second, and reports once when it exceeds the limit.
    private func watchGrowth(of served: RunningWorkers.Opened) -> RepeatedTask? {
        guard let memory = served.memory else { return nil }
        let (continuation, most, worker) = (continuation, memory + memoryGrowth, served.number)
        let process = served.process
        return eventLoop.scheduleRepeatedTask(initialDelay: .seconds(1), delay: .seconds(1)) { task in
            guard let now = process.residentMemory, now > most else { return }
            task.cancel()
            continuation.yield(.outgrown(worker))
        }
    }

    /// Logs a warning, once, if the workers could not lock all secrets in memory, so that the kernel may swap them to a
    /// disk.
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

    private func pause(after served: RunningWorkers.Opened, wasUseful: Bool, _ delay: inout RespawnDelay) async {
        guard !isStopping else { return }
        set(.starting)
        let pause = delay.afterDeath(served: .now - served.since, wasUseful: wasUseful)
        guard pause > .zero else { return }
        if pause >= .seconds(2) {
            let failure = WorkerFailure(
                .hsmTokenUnavailable,
                "The worker ended several times in a row; it is started again after a pause."
                    + (calls.latestFailure.map { " The last failure of the HSM token: \($0.message)" } ?? ""))
            set(.unavailable(failure))
            calls.refuse(failure)
        }
        await sleep(pause)
    }

    /// Starts a successor, and switches to it once it serves, so that no call waits. If the successor fails, the old worker
    /// continues.
    private func recycle(_ served: RunningWorkers.Opened, _ reason: WorkerEvents.RestartReason) async -> RunningWorkers
        .Opened?
    {
        switch await workers.launch() {
        case .success(let successor):
            isLoginRefused = false
            logger.info(
                "a fresh worker has taken over",
                metadata: ["worker.pid": "\(successor.process.identifier)", "reason": "\(reason.rawValue)"])
            workers.events.restarted(reason)
            set(.ready(successor.description))
            return successor
        case .failure(let failure):
            logger.warning(
                "a new worker could not take over; the old one continues", metadata: ["reason": "\(failure.message)"])
            // After a refused PIN no new worker is started by itself, since HSM tokens count wrong PINs. Only SIGHUP, which
            // reads the PIN file again, causes another attempt. Until then the old worker continues, however old it is.
            isLoginRefused = failure.kind == .loginRefused
            guard !isLoginRefused else { return served }
            let (continuation, worker) = (continuation, served.number)
            _ = eventLoop.scheduleTask(in: .seconds(30)) { continuation.yield(.recycleDue(worker)) }
            return served
        }
    }

    /// Sleeps in short pieces, so that a daemon that stops does not wait for the rest of the pause.
    private func sleep(_ duration: Duration) async {
        let end = ContinuousClock.now + duration
        while !isStopping, ContinuousClock.now < end {
            try? await Task.sleep(for: min(.milliseconds(100), end - .now))
        }
    }

    /// Waits until the PIN file changes, or until SIGHUP has made the daemon read it again. A refused PIN is not tried
    /// again before, since HSM tokens count wrong PINs.
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

    /// Waits until no calls are left, at most for `call_timeout`, and then ends the workers.
    private func drain() async {
        let end = ContinuousClock.now + settings.callTimeout
        while !calls.isIdle, ContinuousClock.now < end { try? await Task.sleep(for: .milliseconds(10)) }
        await workers.end(Self.shuttingDown)
    }
}

/// An inode and modification time, which differ if a file has been replaced or changed.
private struct FileVersion: Equatable {
    private let inode: UInt64?
    private let modified: Date?

    init(path: String) {
        let attributes = try? FileManager.default.attributesOfItem(atPath: path)
        inode = attributes?[.systemFileNumber] as? UInt64
        modified = attributes?[.modificationDate] as? Date
    }
}

/// The pause between the end of a worker and the start of the next.
struct RespawnDelay {
    /// The time that a worker must have served for its end not to lengthen the next pause.
    static let healthyAfter = Duration.seconds(30)

    private var deaths = 0
    private var refusals = 0

    /// The pause after workers that end repeatedly but answer calls in between. It only keeps the restarts from using a
    /// whole core.
    static let useful = Duration.milliseconds(200)

    /// Returns the pause after the end of a worker that served: none at first, then 1, 2, 4 … 30 s. If the worker had
    /// answered calls, the pause is never longer than ``useful``.
    /// - Parameter wasUseful: true if the worker had answered calls.
    mutating func afterDeath(served: Duration, wasUseful: Bool = false) -> Duration {
        refusals = 0
        if wasUseful {
            defer { deaths = 1 }
            return served >= Self.healthyAfter || deaths == 0 ? .zero : Self.useful
        }
        deaths = served >= Self.healthyAfter ? 1 : deaths + 1
        return Self.doubledPause(deaths - 2, atMost: 30)
    }

    /// Returns the pause after a worker that could not open its HSM token: 1, 2, 4, then every 5 s, since the HSM token
    /// may return at any time. The pause is 30 s after failures that seldom end by themselves, and nil after a refused
    /// PIN. Another attempt could lock the PIN, so the next one waits until the PIN's file changes or SIGHUP arrives.
    mutating func afterRefusal(_ failure: WorkerFailure) -> Duration? {
        refusals += 1
        switch failure.kind {
        case .loginRefused: return nil
        case .protocolViolation, .notSupported: return .seconds(30)
        default: return Self.doubledPause(refusals - 1, atMost: 5)
        }
    }

    private static func doubledPause(_ exponent: Int, atMost most: Int) -> Duration {
        exponent < 0 ? .zero : .seconds(min(1 << min(exponent, 16), most))
    }
}

import Foundation
import Logging
import NIOCore
import Synchronization
import Telemetry
import WorkerProtocol

/// Keeps one HSM token served: starts its workers one after the other, and decides when to start the next one and when
/// to replace one. ``RunningWorkers`` starts and ends them.
final class WorkerSupervisor: Sendable {
    enum Signal: Sendable {
        case ended(worker: UInt64, wasUseful: Bool)
        case recycleDue(UInt64)
        case outgrown(UInt64)
        case retry
        case stop
    }

    /// The growth in bytes, since a worker opened its HSM token, at which the worker is replaced. SoftHSM 2.6.1 loses
    /// about 265 bytes with each derivation. The limit allows a million derivations, as many as `recycle_after` does by
    /// default. A worker that grows faster loses objects, which slows its sessions long before memory runs out. Growth
    /// counts and not size, since a worker with thousands of keys is large from the start.
    static let memoryGrowth = 256 * 1024 * 1024

    private struct State {
        var condition = HSMTokenCondition.starting
        /// True if a successor's login was refused: the PIN is wrong by now, and the old worker continues with its old
        /// login.
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

    /// The present condition. Ready means that calls are accepted at this moment. The queue decides that; the state
    /// here is updated later, both when a worker begins to serve and when it ends.
    var condition: HSMTokenCondition {
        if let hsmToken = calls.servedHSMToken { return .ready(hsmToken) }
        let condition = state.withLock { $0.condition }
        if case .ready = condition { return .starting }
        return condition
    }

    func retry() {
        continuation.yield(.retry)
    }

    /// The serving process.
    var processIdentifier: pid_t? { workers.servingProcess }

    func stop() {
        workers.stopOpening()
        continuation.yield(.stop)
    }

    /// Answers all calls and ends all workers now.
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
            // Once is enough: a failed successor is retried by itself.
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

    /// Opens the first worker, or the next after one that ended. Returns nil, after a pause, if there is none yet.
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

    /// Checks every second how large a worker has become.
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

    /// Warns once that secrets may be swapped to a disk.
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
                .hsmTokenUnavailable, "The worker ended several times in a row; it is started again after a pause.")
            set(.unavailable(failure))
            calls.refuse(failure)
        }
        await sleep(pause)
    }

    /// Starts a successor first and then switches, so that no call waits. Without a successor the old worker continues.
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
            // A refused PIN is not retried automatically, since HSM tokens count wrong ones; only SIGHUP, which reads
            // the PIN file again, triggers a retry. Until then the old worker continues, however old it is.
            isLoginRefused = failure.kind == .loginRefused
            guard !isLoginRefused else { return served }
            let (continuation, worker) = (continuation, served.number)
            _ = eventLoop.scheduleTask(in: .seconds(30)) { continuation.yield(.recycleDue(worker)) }
            return served
        }
    }

    /// Sleeps in short pieces, so that a stop does not wait for the pause.
    private func sleep(_ duration: Duration) async {
        let end = ContinuousClock.now + duration
        while !isStopping, ContinuousClock.now < end {
            try? await Task.sleep(for: min(.milliseconds(100), end - .now))
        }
    }

    /// Waits until the PIN file changes or SIGHUP reports that it was read again. A refused PIN is not retried
    /// automatically, since HSM tokens count wrong ones.
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

    /// Waits for the calls to end, then ends the workers.
    private func drain() async {
        let end = ContinuousClock.now + settings.callTimeout
        while !calls.isIdle, ContinuousClock.now < end { try? await Task.sleep(for: .milliseconds(10)) }
        await workers.end(Self.shuttingDown)
    }
}

/// Distinguishes versions of a file.
private struct FileVersion: Equatable {
    private let inode: UInt64?
    private let modified: Date?

    init(path: String) {
        let attributes = try? FileManager.default.attributesOfItem(atPath: path)
        inode = attributes?[.systemFileNumber] as? UInt64
        modified = attributes?[.modificationDate] as? Date
    }
}

/// The pause before the next worker is started.
struct RespawnDelay {
    /// The serving time after which a worker counts as healthy at its start.
    static let healthyAfter = Duration.seconds(30)

    private var deaths = 0
    private var refusals = 0

    /// The short pause before replacing a worker that ends repeatedly but answers calls in between; it only keeps the
    /// restarts from taking a whole core.
    static let useful = Duration.milliseconds(200)

    /// Returns the pause after the end of a worker that served: none at first, then 1, 2, 4 … 30 s, or ``useful``.
    /// - Parameter wasUseful: true if it had answered calls.
    mutating func afterDeath(served: Duration, wasUseful: Bool = false) -> Duration {
        refusals = 0
        if wasUseful {
            defer { deaths = 1 }
            return served >= Self.healthyAfter || deaths == 0 ? .zero : Self.useful
        }
        deaths = served >= Self.healthyAfter ? 1 : deaths + 1
        return Self.doubling(deaths - 2, atMost: 30)
    }

    /// Returns the pause after a worker that could not open its HSM token: 1, 2, 4, then every 5 s, since the HSM token
    /// may be back at any moment. nil for a refused PIN: another attempt could lock it, so something has to change
    /// first.
    mutating func afterRefusal(_ failure: WorkerFailure) -> Duration? {
        refusals += 1
        switch failure.kind {
        case .loginRefused: return nil
        case .protocolViolation, .notSupported: return .seconds(30)
        default: return Self.doubling(refusals - 1, atMost: 5)
        }
    }

    private static func doubling(_ exponent: Int, atMost most: Int) -> Duration {
        exponent < 0 ? .zero : .seconds(min(1 << min(exponent, 16), most))
    }
}

import Foundation
import Logging
import NIOCore
import Synchronization
import Telemetry
import WorkerProtocol

/// Keeps one HSM token served: starts its workers one after the other, and decides when the next one is started and when
/// one is replaced. ``RunningWorkers`` does the starting and ending.
final class WorkerSupervisor: Sendable {
    enum Signal: Sendable {
        case ended(worker: UInt64, wasUseful: Bool)
        case recycleDue(UInt64)
        case outgrown(UInt64)
        case retry
        case stop
    }

    /// A worker that has grown by more bytes than this since it opened its token is replaced. SoftHSM 2.6.1 loses about
    /// 265 bytes with each derivation: that is a million of them, as many as `recycle_after` allows by default. What grows
    /// faster loses objects, which makes its sessions slow long before memory runs out. A worker that holds thousands of
    /// keys is large from the start, and so it is growth that counts and not size.
    static let memoryGrowth = 256 * 1024 * 1024

    private struct State {
        var condition = HSMTokenCondition.starting
        /// A successor's login was refused: the PIN is wrong by now, and the old worker serves on its old login.
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

    /// Ready means that calls are taken at this moment. The queue knows that; what is known here is behind it both when a
    /// worker begins to serve and when it ends.
    var condition: HSMTokenCondition {
        if let hsmToken = calls.servedHSMToken { return .ready(hsmToken) }
        let condition = state.withLock { $0.condition }
        if case .ready = condition { return .starting }
        return condition
    }

    func retry() {
        continuation.yield(.retry)
    }

    /// The process that serves now.
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
            // Once is enough: a successor that fails is tried again by itself.
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

    /// The first worker, or the next after one that ended. nil when there is none yet; it has waited then.
    private func open(
        _ delay: inout RespawnDelay, _ signals: inout AsyncStream<Signal>.Iterator
    ) async -> RunningWorkers.Opened? {
        switch await workers.launch() {
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

    /// A successor first, then the change: no call waits for it. Without a successor the old one goes on.
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
            logger.warning("no fresh worker, the old one goes on", metadata: ["reason": "\(failure.message)"])
            // A refused PIN is not tried again by itself, since tokens count wrong ones: only when SIGHUP says that the
            // PIN file has been read anew. Until then the old worker goes on, worn out or not.
            isLoginRefused = failure.kind == .loginRefused
            guard !isLoginRefused else { return served }
            let (continuation, worker) = (continuation, served.number)
            _ = eventLoop.scheduleTask(in: .seconds(30)) { continuation.yield(.recycleDue(worker)) }
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

    /// Waits until the PIN file changes or SIGHUP says that it was read anew. A refused PIN is not tried again by itself,
    /// since tokens count wrong ones.
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

    /// Lets calls end, then the workers.
    private func drain() async {
        let end = ContinuousClock.now + settings.callTimeout
        while !calls.isIdle, ContinuousClock.now < end { try? await Task.sleep(for: .milliseconds(10)) }
        await workers.end(Self.shuttingDown)
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

/// How long to wait before the next worker is started.
struct RespawnDelay {
    /// A worker that served for this long was not broken from its start.
    static let healthyAfter = Duration.seconds(30)

    private var deaths = 0
    private var refusals = 0

    /// For a worker that ends again and again, but answers calls in between: the next one is started after this short
    /// pause, which only keeps the restarts from taking a whole core.
    static let useful = Duration.milliseconds(200)

    /// After the end of a worker that served: none at first, then 1, 2, 4 … 30 s, or ``useful``.
    /// - Parameter wasUseful: it had answered calls.
    mutating func afterDeath(served: Duration, wasUseful: Bool = false) -> Duration {
        refusals = 0
        if wasUseful {
            defer { deaths = 1 }
            return served >= Self.healthyAfter || deaths == 0 ? .zero : Self.useful
        }
        deaths = served >= Self.healthyAfter ? 1 : deaths + 1
        return Self.doubling(deaths - 2, atMost: 30)
    }

    /// After a worker that could not open its token: 1, 2, 4, then every 5 s, since the token may be back at any
    /// moment. nil for a refused PIN: another try could lock it, so something has to change first.
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

import CLinux
import Foundation
import Glibc
import HostSystem
import Locks

// Unsafe: Spawning copies its arguments before it returns. Every other call writes into a variable or a buffer whose
// length it receives.

/// One run of a ``UseLogProgram``. The output is read as it arrives. The first bytes of the program's standard error go to
/// the log.
///
/// ``read(_:)`` blocks the calling thread until the program has ended. Afterwards the program has been reaped, its pipes
/// are closed, and its whole process group has been killed. Only a process that left the group survives.
package final class UseLogRun: Sendable {
    package enum Failure: Error, Equatable, CustomStringConvertible {
        case notStarted
        case tooLong(limit: Int)
        case timedOut(Duration)
        case ended(WorkerExit, said: String)
        /// ``UseLogRun/stop()`` ended the program.
        case stopped

        package var description: String {
            switch self {
            case .notStarted: "it cannot be started"
            case .tooLong(let limit): "it printed more than \(limit >> 20) MiB"
            case .timedOut(let timeout): "it did not end within \(timeout)"
            case .ended(let exit, let said): exit.description + (said.isEmpty ? "" : ": \(said)")
            case .stopped: "it was stopped"
            }
        }
    }

    /// The maximum number of bytes that are read from standard output. A million uses take about 130 MB.
    static let maximumBytes = 1 << 30
    /// The maximum number of pieces that have been read but not consumed.
    private static let maximumPieces = 4
    /// The maximum time for reading the rest of standard error after the program has ended.
    private static let grace = Duration.seconds(1)

    private let process: pid_t
    /// The program's output and error pipes; nil once ``read(_:)`` has taken them.
    private let pipes: Mutex<UseLogPipes?>
    /// Wakes the thread in ``read(_:)``, which then checks `state`.
    private let wake: WakePipe
    private let timeout: Duration
    private let state = Mutex((pieces: 0, isStopped: false))

    /// Starts the program in its own process group. The program inherits only the descriptors 0 to 2 and, as descriptor 3,
    /// its own executable file.
    package init(
        _ program: UseLogProgram, _ executable: TrustedExecutable, variables: [String: String]
    ) throws(Failure) {
        timeout = program.timeout
        guard let wake = WakePipe() else { throw .notStarted }
        self.wake = wake
        let environment = ["PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"]
            .merging(program.environment) { _, own in own }.merging(variables) { _, own in own }
        var (child, output, errors): (pid_t, CInt, CInt) = (0, -1, -1)
        let error = unsafe withCStrings([program.path] + program.arguments) { arguments in
            unsafe withCStrings(environment.map { "\($0.key)=\($0.value)" }.sorted()) { environment in
                unsafe paytokend_spawn_command(
                    executable.descriptor, arguments, environment, &child, &output, &errors)
            }
        }
        guard error == 0 else { throw .notStarted }
        process = child
        pipes = Mutex(UseLogPipes(output: OwnedDescriptor(output), errors: OwnedDescriptor(errors), wake: wake))
    }

    /// Makes ``read(_:)`` kill the program. Does nothing once the program has ended. Any thread may call it.
    package func stop() {
        state.withLock { $0.isStopped = true }
        wake.signal()
    }

    /// Runs the program to its end on a separate thread.
    ///
    /// - Parameter lease: a value that is kept alive until the program has ended.
    /// - Returns: the program's output. The consumer must call ``took()`` for each piece, since reading pauses while four
    ///   pieces are not consumed. The program is stopped when the stream is cancelled or released.
    package func pieces(keeping lease: some Sendable) -> AsyncThrowingStream<[UInt8], any Error> {
        let (stream, continuation) = AsyncThrowingStream.makeStream(of: [UInt8].self)
        continuation.onTermination = { [weak self] _ in self?.stop() }
        let thread = Thread { [self] in
            defer { withExtendedLifetime(lease) {} }
            do {
                try read { piece in
                    state.withLock { $0.pieces += 1 }
                    continuation.yield(piece)
                }
                continuation.finish()
            } catch {
                continuation.finish(throwing: error)
            }
        }
        thread.name = "use-log"
        thread.stackSize = 512 << 10
        thread.start()
        return stream
    }

    /// Reports that the consumer took a piece out of the stream, so that reading may continue.
    package func took() {
        state.withLock { $0.pieces -= 1 }
        wake.signal()
    }

    /// Passes the program's output to `take`, and blocks until the program has ended.
    ///
    /// - Parameter take: a function that receives each piece of the output. If it throws, the program is killed.
    func read(_ take: ([UInt8]) throws -> Void) throws {
        guard var pipes = pipes.withLock({ $0.take() }) else { throw Failure.notStarted }
        let deadline = ContinuousClock.now + timeout
        var total = 0
        do {
            while pipes.hasOutput {
                let wantsMore = try state.withLock { state in
                    guard !state.isStopped else { throw Failure.stopped }
                    return state.pieces < Self.maximumPieces
                }
                guard let data = try pipes.next(takesOutput: wantsMore, within: left(until: deadline)) else { continue }
                total += data.count
                guard total <= Self.maximumBytes else { throw Failure.tooLong(limit: Self.maximumBytes) }
                try take(data)
            }
            // The program has closed its standard output, but may still be running.
            while paytokend_has_ended(process) == 0 {
                guard !state.withLock({ $0.isStopped }) else { throw Failure.stopped }
                _ = try pipes.next(takesOutput: false, within: min(.milliseconds(10), left(until: deadline)))
            }
        } catch {
            killGroup()
            _ = reap()
            throw error
        }
        // The group is killed before the program is reaped. After that, another process or group could have the identifier.
        killGroup()
        let end = ContinuousClock.now + Self.grace
        while pipes.hasErrors, let left = try? left(until: end) {
            _ = try? pipes.next(takesOutput: false, within: left)
        }
        let exit = reap()
        guard exit != .status(0) else { return }
        let line = String(decoding: pipes.said.prefix { $0 != 0x0A }, as: UTF8.self)
        throw Failure.ended(exit, said: line)
    }

    private func left(until deadline: ContinuousClock.Instant) throws(Failure) -> Duration {
        let left = ContinuousClock.now.duration(to: deadline)
        guard left > .zero else { throw .timedOut(timeout) }
        return left
    }

    private func killGroup() { _ = kill(-process, SIGKILL) }

    private func reap() -> WorkerExit {
        var status: CInt = 0
        _ = unsafe paytokend_reap(process, &status)
        return WorkerExit(waitStatus: status)
    }
}

/// The descriptors for which a run's thread waits in poll(2).
private struct UseLogPipes {
    private static let (piece, maximumSaid) = (64 * 1024, 512)

    private var output: OwnedDescriptor?
    private var errors: OwnedDescriptor?
    private let wake: WakePipe
    /// The first bytes of the program's standard error.
    private(set) var said: [UInt8] = []

    var hasOutput: Bool { output != nil }
    var hasErrors: Bool { errors != nil }

    init(output: OwnedDescriptor, errors: OwnedDescriptor, wake: WakePipe) {
        (self.output, self.errors, self.wake) = (output, errors, wake)
    }

    /// Waits for output, an error message or a wake-up, at most for `limit`.
    ///
    /// - Returns: a piece of the output, if one arrived.
    mutating func next(takesOutput: Bool, within limit: Duration) throws -> [UInt8]? {
        // poll(2) ignores negative descriptors.
        var waited = [takesOutput ? output?.number ?? -1 : -1, errors?.number ?? -1, wake.reading.number]
            .map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
        let milliseconds = limit.components.seconds * 1000 + limit.components.attoseconds / 1_000_000_000_000_000 + 1
        guard unsafe poll(&waited, nfds_t(waited.count), Int32(min(milliseconds, 60_000))) > 0 else { return nil }
        if waited[2].revents != 0 { wake.drain() }
        if waited[1].revents != 0, let descriptor = errors {
            let data = Self.read(from: descriptor)
            if data.isEmpty { errors = nil }
            said += data.prefix(Self.maximumSaid - said.count)
        }
        guard waited[0].revents != 0, let descriptor = output else { return nil }
        let data = Self.read(from: descriptor)
        if data.isEmpty { output = nil }
        return data.isEmpty ? nil : data
    }

    /// Returns the bytes that have arrived; an empty array at the end of the stream, or if reading fails.
    private static func read(from descriptor: OwnedDescriptor) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: piece)
        let count = unsafe Glibc.read(descriptor.number, &bytes, piece)
        return Array(bytes.prefix(max(count, 0)))
    }
}

/// Wakes a thread that waits in poll(2).
private final class WakePipe: Sendable {
    let reading: OwnedDescriptor
    private let writing: OwnedDescriptor

    init?() {
        var ends: [CInt] = [-1, -1]
        guard unsafe pipe(&ends) == 0 else { return nil }
        for end in ends {
            _ = fcntl(end, F_SETFD, FD_CLOEXEC)
            _ = fcntl(end, F_SETFL, O_NONBLOCK)
        }
        (reading, writing) = (OwnedDescriptor(ends[0]), OwnedDescriptor(ends[1]))
    }

    func signal() {
        var byte: UInt8 = 0
        // The write fails if the pipe is full, but a full pipe wakes the thread as well.
        _ = unsafe write(writing.number, &byte, 1)
    }

    func drain() {
        var bytes = [UInt8](repeating: 0, count: 256)
        while unsafe read(reading.number, &bytes, bytes.count) == bytes.count {}
    }
}

import CLinux
import Foundation
import Glibc
import HostSystem
import Synchronization

/// One run of a ``UseLogProgram``. Its output is read as it arrives; the first bytes of its standard error go to the
/// log.
///
/// ``read(_:)`` runs the program to its end, on the calling thread. The program and its process group are gone
/// afterwards, however the run ended; the program is reaped and its pipes are closed. A process that left the group
/// survives.
package final class UseLogRun: Sendable {
    package enum Failure: Error, Equatable, CustomStringConvertible {
        case notStarted
        case tooLong(limit: Int)
        case timedOut(Duration)
        case ended(WorkerExit, said: String)
        /// Ended by ``stop()``.
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

    /// The largest number of bytes that are read from standard output. A million uses take about 130 MB.
    static let maximumBytes = 1 << 30
    /// The largest number of pieces that were read and not yet consumed.
    private static let maximumPieces = 4
    /// The time for reading standard error after the program's end.
    private static let grace = Duration.seconds(1)

    private let process: pid_t
    /// The program's output and error pipes; nil once ``read(_:)`` has taken them.
    private let pipes: Mutex<UseLogPipes?>
    /// Makes the thread check `state`.
    private let wake: WakePipe
    private let timeout: Duration
    private let state = Mutex((pieces: 0, isStopped: false))

    /// Starts the program in its own process group. The program inherits only standard input, output and error and, as
    /// descriptor 3, its own executable file.
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

    /// Ends the program, from any thread. Does nothing once it has ended.
    package func stop() {
        state.withLock { $0.isStopped = true }
        wake.signal()
    }

    /// Runs the program to its end on a separate thread.
    ///
    /// - Parameter lease: a lease that is kept until the program has ended.
    /// - Returns: the program's output, read no faster than ``took()`` reports its consumption. Without a reader the
    ///   run is stopped.
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

    /// Reports that a piece was taken out of the stream.
    package func took() {
        state.withLock { $0.pieces -= 1 }
        wake.signal()
    }

    /// Passes the program's output to `take`, and blocks until the program has ended.
    ///
    /// - Parameter take: a function that receives each piece of the output; if it throws, the program is killed.
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
            // The program has closed its output but may continue to run.
            while paytokend_has_ended(process) == 0 {
                guard !state.withLock({ $0.isStopped }) else { throw Failure.stopped }
                _ = try pipes.next(takesOutput: false, within: min(.milliseconds(10), left(until: deadline)))
            }
        } catch {
            killGroup()
            _ = reap()
            throw error
        }
        // The group is killed before the program is reaped: until then no other process or group can have its
        // identifier.
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

/// The descriptors that a run's thread waits for.
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

    /// Waits for an event, but not longer than the limit.
    ///
    /// - Returns: output, if any arrived.
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

    /// Returns the bytes that have arrived; an empty array at the end, and if reading fails.
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
        // A full pipe wakes the thread as well.
        _ = unsafe write(writing.number, &byte, 1)
    }

    func drain() {
        var bytes = [UInt8](repeating: 0, count: 256)
        while unsafe read(reading.number, &bytes, bytes.count) == bytes.count {}
    }
}

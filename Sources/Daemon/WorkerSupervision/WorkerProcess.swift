import CLinux
import Foundation
import HostSystem
import Locks

// Unsafe: Spawning copies its arguments before it returns, and writes only the variables whose addresses it
// receives.

/// The way in which a program's process ended: its exit status, or the signal that ended it.
package enum WorkerExit: Sendable, Equatable, CustomStringConvertible {
    case status(Int32)
    case signal(Int32)

    init(waitStatus: Int32) {
        let signal = waitStatus & 0x7F
        self = signal == 0 ? .status((waitStatus >> 8) & 0xFF) : .signal(signal)
    }

    package var description: String {
        switch self {
        case .status(let status): "it ended with status \(status)"
        case .signal(let signal): "it was ended by signal \(signal)"
        }
    }
}

/// One process of the worker's program. A thread of its own waits for the process and reaps it. So no zombie remains, and
/// no thread of the cooperative pool blocks.
final class WorkerProcess: Sendable {
    private enum State {
        case running([CheckedContinuation<WorkerExit, Never>])
        case ended(WorkerExit)
    }

    let identifier: pid_t
    private let state = Mutex(State.running([]))

    private init(identifier: pid_t) {
        self.identifier = identifier
    }

    /// The environment of every worker. By default, glibc caches 7 freed blocks of each size for a thread, and takes a lock
    /// to free more. An operation of SoftHSM frees many blocks of the same sizes at once. A cache of 127 blocks saves a
    /// seventh of a worker's time.
    private static let environment = [
        "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "GLIBC_TUNABLES": "glibc.malloc.tcache_count=127",
    ]

    /// Starts a worker. It does not inherit this process's environment.
    /// - Parameter wrote: receives the lines that the worker and its library write to standard error. It is called on a
    ///   thread of its own, until both have closed their standard error.
    /// - Returns: the process, and the daemon's end of the socket pair, which the caller must close.
    static func spawn(
        _ executable: WorkerExecutable, environment: [String: String],
        wrote: @escaping @Sendable (WorkerOutput.Line, pid_t) -> Void
    ) throws(WorkerExecutableError) -> (process: WorkerProcess, socket: CInt) {
        let variables = Self.environment.merging(environment) { _, configured in configured }
        var identifier: pid_t = 0
        var socket: CInt = -1
        var errors: CInt = -1
        let error = unsafe withCStrings([WorkerExecutable.name]) { arguments in
            unsafe withCStrings(variables.map { "\($0.key)=\($0.value)" }.sorted()) { environment in
                unsafe paytokend_spawn(executable.descriptor, arguments, environment, &identifier, &socket, &errors)
            }
        }
        guard error == 0 else {
            throw WorkerExecutableError(message: "\(executable.path) cannot be started: errno \(error)")
        }
        let process = WorkerProcess(identifier: identifier)
        WorkerOutput.read(from: OwnedDescriptor(errors)) { wrote($0, process.identifier) }
        let reaper = Thread { process.awaitEnd() }
        reaper.name = "worker-reaper"
        reaper.stackSize = 128 * 1024
        reaper.start()
        return (process, socket)
    }

    /// Kills the process. Does nothing if it has ended: while the lock is held the process is not reaped, so no other
    /// process can have its identifier.
    func kill() {
        state.withLock { state in
            if case .running = state { _ = Glibc.kill(identifier, SIGKILL) }
        }
    }

    /// Waits until the process has ended and been reaped.
    func end() async -> WorkerExit {
        await withCheckedContinuation { continuation in
            let exit: WorkerExit? = state.withLock { state in
                switch state {
                case .ended(let exit): return exit
                case .running(let waiting):
                    state = .running(waiting + [continuation])
                    return nil
                }
            }
            if let exit { continuation.resume(returning: exit) }
        }
    }

    /// Waits until the process has ended, and kills it if it has not ended within that time.
    func end(within limit: Duration) async -> WorkerExit {
        let deadline = Task {
            try await Task.sleep(for: limit)
            kill()
        }
        defer { deadline.cancel() }
        return await end()
    }

    /// The resident memory in bytes, from `/proc/PID/statm` (proc(5)). Nil if /proc hides other processes (hidepid), or if
    /// the process has ended.
    var residentMemory: Int? {
        guard let text = try? String(contentsOfFile: "/proc/\(identifier)/statm", encoding: .utf8) else { return nil }
        let fields = text.split(separator: " ")
        guard fields.count > 1, let pages = Int(fields[1]) else { return nil }
        return pages * Int(sysconf(Int32(_SC_PAGESIZE)))
    }

    private func awaitEnd() {
        _ = paytokend_await_end(identifier)
        let (waiting, exit): ([CheckedContinuation<WorkerExit, Never>], WorkerExit) = state.withLock { state in
            var status: Int32 = 0
            _ = unsafe paytokend_reap(identifier, &status)
            let exit = WorkerExit(waitStatus: status)
            guard case .running(let waiting) = state else { return ([], exit) }
            state = .ended(exit)
            return (waiting, exit)
        }
        for continuation in waiting { continuation.resume(returning: exit) }
    }
}

/// The worker's program. It is opened once, so that all workers of this daemon run the same file, even if an upgrade has
/// replaced it in the meantime.
package final class WorkerExecutable: Sendable {
    static let name = "paytokend-hsm"

    /// The path at which the program was opened. Messages mention it.
    let path: String
    private let file: OwnedDescriptor
    var descriptor: CInt { file.number }
    /// A path at which this process can read the opened file, even if an upgrade has replaced it.
    package var openedPath: String { "/proc/self/fd/\(descriptor)" }

    /// Opens the program.
    /// - Throws: ``WorkerExecutableError`` if the file cannot be opened or is not executable.
    package init(path: String) throws(WorkerExecutableError) {
        guard FileManager.default.isExecutableFile(atPath: path) else {
            throw WorkerExecutableError(message: "\(path) is not an executable file")
        }
        file = OwnedDescriptor(unsafe paytokend_open_executable(path))
        guard file.isOpen else {
            throw WorkerExecutableError(message: "\(path) cannot be opened: errno \(-file.number)")
        }
        self.path = path
    }

    /// Opens the worker's program that was installed with this program: in the same directory, else in
    /// `../libexec/paytokend`.
    package static func installed() throws(WorkerExecutableError) -> WorkerExecutable {
        guard let own = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe") else {
            throw WorkerExecutableError(message: "/proc/self/exe cannot be read; is /proc mounted?")
        }
        let directory = URL(fileURLWithPath: own).deletingLastPathComponent()
        let candidates = [
            directory.appendingPathComponent(name).path,
            directory.deletingLastPathComponent().appendingPathComponent("libexec/paytokend/\(name)").path,
        ]
        guard let path = candidates.first(where: { FileManager.default.isExecutableFile(atPath: $0) }) else {
            throw WorkerExecutableError(
                message: "the worker program is neither \(candidates[0]) nor \(candidates[1]); install it there")
        }
        return try WorkerExecutable(path: path)
    }
}

package struct WorkerExecutableError: Error, Sendable, Equatable {
    /// One sentence for a person.
    package let message: String
}

import CLinux
import Foundation
import Glibc
import Synchronization

/// The small command that prints what a token's own counter or log says of its keys' uses: `tokens[].use_log`.
struct UseLogProgram: Sendable, Equatable {
    /// Absolute.
    var path: String
    var arguments: [String]
    /// The longest that it may run.
    var timeout: Duration
    /// Beside `PAYTOKEND_NODE`, `PAYTOKEND_TOKEN`, `PAYTOKEND_SINCE` and `PAYTOKEND_UNTIL`, and the few that every program needs.
    var environment: [String: String]

    /// Why the path is not run: whoever can change the program, or put another in its place, could have the daemon run it.
    ///
    /// - Returns: nil when it may be run.
    static func objection(to path: String) -> String? {
        let target = URL(filePath: path).resolvingSymlinksInPath().path
        return objection(toPlace: path) ?? (target == path ? nil : objection(toPlace: target))
    }

    private static func objection(toPlace path: String) -> String? {
        var status = stat()
        guard unsafe stat(path, &status) == 0, status.st_mode & S_IFMT == S_IFREG, unsafe access(path, X_OK) == 0 else {
            return "is no program that can be run"
        }
        var place = path
        while true {
            guard unsafe stat(place, &status) == 0 else { return "cannot be looked at" }
            guard status.st_uid == 0 || status.st_uid == geteuid() else {
                return "or a directory above it belongs to neither root nor the daemon's account"
            }
            // In a directory such as /tmp nobody but the owner replaces a file.
            let isSticky = status.st_mode & S_IFMT == S_IFDIR && status.st_mode & UInt32(S_ISVTX) != 0
            guard status.st_mode & 0o022 == 0 || isSticky else {
                return "or a directory above it can be written by others; use chmod go-w"
            }
            guard place != "/" else { return nil }
            place = URL(filePath: place).deletingLastPathComponent().path
        }
    }
}

/// One run of it. Its output is taken as it comes, and what it writes to standard error is told in the log, its first bytes only.
final class UseLogRun: Sendable {
    enum Failure: Error, Equatable, CustomStringConvertible {
        case notStarted
        case tooLong(limit: Int)
        case timedOut(Duration)
        case ended(WorkerExit, said: String)

        var description: String {
            switch self {
            case .notStarted: "it cannot be started"
            case .tooLong(let limit): "it printed more than \(limit >> 20) MiB"
            case .timedOut(let timeout): "it did not end within \(timeout)"
            case .ended(let exit, let said): exit.description + (said.isEmpty ? "" : ": \(said)")
            }
        }
    }

    /// Of standard output. A million uses have about 130 MB.
    static let maximumBytes = 1 << 30
    private static let (piece, mostSaid) = (64 * 1024, 512)

    private let process: pid_t
    private let output: CInt
    private let errors: CInt
    private let timeout: Duration

    /// Starts it in a process group of its own, with nothing of this process's but its three standard files.
    init(_ program: UseLogProgram, variables: [String: String]) throws(Failure) {
        timeout = program.timeout
        let environment = ["PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"]
            .merging(program.environment) { _, own in own }.merging(variables) { _, own in own }
        var (child, output, errors): (pid_t, CInt, CInt) = (0, -1, -1)
        let error = unsafe withCStrings([program.path] + program.arguments) { arguments in
            unsafe withCStrings(environment.map { "\($0.key)=\($0.value)" }.sorted()) { environment in
                unsafe paytokend_spawn_command(arguments, environment, &child, &output, &errors)
            }
        }
        guard error == 0 else { throw .notStarted }
        (process, self.output, self.errors) = (child, output, errors)
    }

    deinit {
        close(output)
        close(errors)
    }

    /// Blocks until it has ended.
    ///
    /// - Parameter take: called with each piece of the output; when it throws, the program is ended.
    func read(_ take: ([UInt8]) throws -> Void) throws {
        let deadline = ContinuousClock.now + timeout
        let said = Mutex<[UInt8]>([])
        let drained = DispatchGroup()
        drained.enter()
        DispatchQueue.global().async { [self] in
            while let data = Self.read(from: errors), !data.isEmpty {
                said.withLock { if $0.count < Self.mostSaid { $0 += data.prefix(Self.mostSaid - $0.count) } }
            }
            drained.leave()
        }
        do {
            var total = 0
            while true {
                try awaitOutput(until: deadline)
                guard let data = Self.read(from: output), !data.isEmpty else { break }
                total += data.count
                guard total <= Self.maximumBytes else { throw Failure.tooLong(limit: Self.maximumBytes) }
                try take(data)
            }
        } catch {
            end()
            throw error
        }
        // It has closed its output, and may go on all the same.
        var status: CInt = 0
        while unsafe waitpid(process, &status, WNOHANG) == 0 {
            guard ContinuousClock.now < deadline else {
                end()
                throw Failure.timedOut(timeout)
            }
            usleep(10_000)
        }
        // What it has started ends with it.
        _ = kill(-process, SIGKILL)
        let exit = WorkerExit(waitStatus: status)
        guard exit != .status(0) else { return }
        _ = drained.wait(timeout: .now() + 1)
        let line = said.withLock { String(decoding: $0.prefix { $0 != 0x0A }, as: UTF8.self) }
        throw Failure.ended(exit, said: line)
    }

    /// Kills its group, and reaps it.
    private func end() {
        _ = kill(-process, SIGKILL)
        var status: CInt = 0
        _ = unsafe paytokend_reap(process, &status)
    }

    /// Empty at the end; nil where it cannot be read.
    private static func read(from descriptor: CInt) -> [UInt8]? {
        var bytes = [UInt8](repeating: 0, count: piece)
        let count = unsafe Glibc.read(descriptor, &bytes, piece)
        return count >= 0 ? Array(bytes.prefix(count)) : nil
    }

    /// Returns when there is output or its end. What the program itself has started may keep the pipe open for longer than it lives.
    private func awaitOutput(until deadline: ContinuousClock.Instant) throws(Failure) {
        var waited = pollfd(fd: output, events: Int16(POLLIN), revents: 0)
        while true {
            let left = ContinuousClock.now.duration(to: deadline)
            guard left > .zero else { throw .timedOut(timeout) }
            let milliseconds = min(
                left.components.seconds * 1000 + left.components.attoseconds / 1_000_000_000_000_000 + 1, 60_000)
            if unsafe poll(&waited, 1, Int32(milliseconds)) > 0 { return }
        }
    }
}

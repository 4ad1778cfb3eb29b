import Foundation
import HostSystem
import Locks
import ProgramStart

/// A program's exit status and output.
public struct ProgramResult: Sendable, CustomStringConvertible {
    /// The exit status, or 128 plus the signal that ended it.
    public let status: Int32
    public let outputBytes: [UInt8]
    public let errorBytes: [UInt8]

    public var output: String { String(decoding: outputBytes, as: UTF8.self) }
    public var error: String { String(decoding: errorBytes, as: UTF8.self) }
    public var description: String { "exit \(status)\n\(output)\n\(error)" }
}

/// Failures to run a program, as distinguished from failures of the program.
public enum ProgramFailure: Error, CustomStringConvertible {
    case notFound(String)
    case notStarted(String, errno: Int32)
    case deadline(String, seconds: Double, output: String)

    public var description: String {
        switch self {
        case .notFound(let path): "\(path) is not there; build it first"
        case .notStarted(let path, let errno): "\(path) was not started: errno \(errno)"
        case .deadline(let name, let seconds, let output): "\(name) did not end within \(seconds) s: \(output)"
        }
    }
}

/// A running program. Its output goes to files instead of pipes, so that a test can search the output at any time. A
/// pipe would need a reader, and the reader would hang if another child inherited the pipe's descriptor.
///
/// Foundation's Process is not used. Up to Swift 6.3, its `run()` copies 256 bytes from each entry of /proc/self/fd,
/// which are more than the entry has. From 1355 open descriptors on, the copy passes the end of readdir's buffer, and
/// the process crashes if the next page is unmapped (swift-corelibs-foundation, pull request 5472).
public final class RunningProgram: Sendable {
    private let directory: FreshDirectory
    private let ended = Mutex<Ending>(.running([]))

    private enum Ending {
        case running([CheckedContinuation<Int32, Never>])
        case ended(Int32)
    }

    public let name: String
    public let processIdentifier: Int32

    /// Starts `path` with `arguments`.
    ///
    /// - Parameters:
    ///   - environment: variables added to the environment of this process.
    ///   - input: the bytes of standard input.
    public init(
        _ path: String, _ arguments: [String], environment: [String: String] = [:], input: [UInt8] = [],
        workingDirectory: String? = nil
    ) throws {
        guard FileManager.default.isExecutableFile(atPath: path) else { throw ProgramFailure.notFound(path) }
        name = URL(filePath: path).lastPathComponent
        directory = try FreshDirectory()
        try directory.write(input, to: "in")
        try directory.write([], to: "out")
        try directory.write([], to: "err")
        let path = URL(filePath: path).path
        let variables = ProcessInfo.processInfo.environment.merging(environment) { $1 }.map { "\($0.key)=\($0.value)" }
        let (input, output, errors) = (directory.path("in"), directory.path("out"), directory.path("err"))
        var process: pid_t = 0
        let error = unsafe withCStrings([path] + arguments) { arguments in
            unsafe withCStrings(variables) { variables in
                unsafe program_start(path, arguments, variables, workingDirectory, input, output, errors, &process)
            }
        }
        guard error == 0 else { throw ProgramFailure.notStarted(path, errno: error) }
        processIdentifier = process
        ExitCleanup.add(program: process)
        Thread.detachNewThread { [weak self, process] in
            let status = Self.reap(process)
            ExitCleanup.remove(program: process)
            self?.finish(status)
        }
    }

    deinit { if isRunning { kill(processIdentifier, SIGKILL) } }

    private func finish(_ status: Int32) {
        let waiting = ended.withLock { ending -> [CheckedContinuation<Int32, Never>] in
            guard case .running(let waiting) = ending else { return [] }
            ending = .ended(status)
            return waiting
        }
        for continuation in waiting { continuation.resume(returning: status) }
    }

    /// Blocks until the process has ended; returns ``ProgramResult/status``.
    private static func reap(_ process: pid_t) -> Int32 {
        var status: Int32 = 0
        while unsafe waitpid(process, &status, 0) < 0, errno == EINTR {}
        let byItself = status & 0x7f == 0
        return byItself ? status >> 8 & 0xff : 128 + (status & 0x7f)
    }

    /// The bytes written to standard output so far.
    public var outputBytes: [UInt8] { contents("out") }
    /// The bytes written to standard error so far.
    public var errorBytes: [UInt8] { contents("err") }
    public var error: String { String(decoding: errorBytes, as: UTF8.self) }

    public var isRunning: Bool {
        ended.withLock { if case .running = $0 { true } else { false } }
    }

    private func contents(_ name: String) -> [UInt8] {
        (try? Data(contentsOf: URL(filePath: directory.path(name)))).map(Array.init) ?? []
    }

    public func signal(_ number: Int32) { kill(processIdentifier, number) }

    /// Waits until the program exits. At the deadline, kills it and throws.
    public func result(within seconds: Double = 180) async throws -> ProgramResult {
        let expired = Mutex(false)
        let deadline = ContinuousClock.now + .seconds(seconds)
        let alarm = Task { [weak self] in
            try await Task.sleep(until: deadline)
            expired.withLock { $0 = true }
            self?.signal(SIGKILL)
        }
        let status = await withCheckedContinuation { continuation in
            let known = ended.withLock { ending -> Int32? in
                switch ending {
                case .ended(let status): return status
                case .running(let waiting):
                    ending = .running(waiting + [continuation])
                    return nil
                }
            }
            if let known { continuation.resume(returning: known) }
        }
        alarm.cancel()
        if expired.withLock({ $0 }) {
            throw ProgramFailure.deadline(name, seconds: seconds, output: String(error.suffix(2000)))
        }
        return ProgramResult(status: status, outputBytes: outputBytes, errorBytes: errorBytes)
    }
}

/// Finds programs and runs them.
public enum Program {
    /// Runs a program to its end.
    ///
    /// - Parameter waitsForTurn: true to wait until fewer than the maximum number of programs run; false to start at
    ///   once, for a test whose deadline depends on the start.
    public static func run(
        _ path: String, _ arguments: [String], environment: [String: String] = [:], input: [UInt8] = [],
        waitsForTurn: Bool = true, within seconds: Double = 180
    ) async throws -> ProgramResult {
        func run() async throws -> ProgramResult {
            try await RunningProgram(path, arguments, environment: environment, input: input).result(within: seconds)
        }
        return waitsForTurn ? try await ProgramLimit.shared.run { try await run() } : try await run()
    }

    /// Returns the path of a product of this package, which is in the directory of the running tests.
    public static func built(_ name: String) throws -> String {
        let own = URL(filePath: "/proc/self/exe").resolvingSymlinksInPath()
        var candidates = [own, URL(filePath: CommandLine.arguments[0])].map {
            $0.deletingLastPathComponent().appending(path: name).path
        }
        candidates.append(FileManager.default.currentDirectoryPath + "/.build/debug/\(name)")
        guard let path = candidates.first(where: FileManager.default.isExecutableFile(atPath:)) else {
            throw ProgramFailure.notFound(candidates[0])
        }
        return path
    }

    /// Returns the path of a program that PATH finds.
    public static func installed(_ name: String) throws -> String {
        let path = ProcessInfo.processInfo.environment["PATH"] ?? "/usr/bin:/bin:/usr/sbin:/sbin"
        let candidates = path.split(separator: ":").map { "\($0)/\(name)" }
        guard let found = candidates.first(where: FileManager.default.isExecutableFile(atPath:)) else {
            throw ProgramFailure.notFound(name)
        }
        return found
    }
}

/// Limits how many short-lived programs run at once. Otherwise a test with many arguments would start hundreds on two
/// cores, and they would time out.
final class ProgramLimit: Sendable {
    static let shared = ProgramLimit(12)

    private struct State {
        var free: Int
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    private let state: Mutex<State>

    init(_ count: Int) { state = Mutex(State(free: count)) }

    func run<Value>(_ body: () async throws -> Value) async throws -> Value {
        await withCheckedContinuation { continuation in
            let ready = state.withLock { state -> Bool in
                if state.free > 0 {
                    state.free -= 1
                    return true
                }
                state.waiting.append(continuation)
                return false
            }
            if ready { continuation.resume() }
        }
        defer {
            let next = state.withLock { state -> CheckedContinuation<Void, Never>? in
                if !state.waiting.isEmpty { return state.waiting.removeFirst() }
                state.free += 1
                return nil
            }
            next?.resume()
        }
        return try await body()
    }
}

import Foundation
import Synchronization

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

/// Failures around a program, as opposed to its own.
public enum ProgramFailure: Error, CustomStringConvertible {
    case notFound(String)
    case deadline(String, seconds: Double, output: String)

    public var description: String {
        switch self {
        case .notFound(let path): "\(path) is not there; build it first"
        case .deadline(let name, let seconds, let output): "\(name) did not end within \(seconds) s: \(output)"
        }
    }
}

/// A running program. Its output goes to files and not to pipes, for three reasons: nothing is lost without a reader, a
/// descriptor that another child inherits blocks no reader, and a test can search the output so far.
public final class RunningProgram: Sendable {
    private let process: Process
    private let directory: FreshDirectory
    private let ended = Mutex<Ending>(.running([]))

    private enum Ending {
        case running([CheckedContinuation<Int32, Never>])
        case ended(Int32)
    }

    public let name: String
    public var processIdentifier: Int32 { process.processIdentifier }

    /// Starts `path` with `arguments`.
    ///
    /// - Parameters:
    ///   - environment: added to this process's own.
    ///   - input: standard input; empty by default.
    public init(
        _ path: String, _ arguments: [String], environment: [String: String] = [:], input: [UInt8] = [],
        workingDirectory: String? = nil
    ) throws {
        guard FileManager.default.isExecutableFile(atPath: path) else { throw ProgramFailure.notFound(path) }
        name = URL(filePath: path).lastPathComponent
        directory = try FreshDirectory()
        process = Process()
        process.executableURL = URL(filePath: path)
        process.arguments = arguments
        process.environment = ProcessInfo.processInfo.environment.merging(environment) { $1 }
        if let workingDirectory { process.currentDirectoryURL = URL(filePath: workingDirectory) }
        try directory.write(input, to: "in")
        try directory.write([], to: "out")
        try directory.write([], to: "err")
        let handles = [
            try FileHandle(forReadingFrom: URL(filePath: directory.path("in"))),
            try FileHandle(forWritingTo: URL(filePath: directory.path("out"))),
            try FileHandle(forWritingTo: URL(filePath: directory.path("err"))),
        ]
        // The child has its own; this process needs them no longer, and may run a thousand programs.
        defer { for handle in handles { try? handle.close() } }
        (process.standardInput, process.standardOutput, process.standardError) = (handles[0], handles[1], handles[2])
        process.terminationHandler = { [weak self] process in
            let status = process.terminationStatus
            self?.finish(process.terminationReason == .uncaughtSignal ? 128 + status : status)
        }
        try process.run()
        ExitCleanup.add(program: process.processIdentifier)
    }

    deinit { if process.isRunning { kill(process.processIdentifier, SIGKILL) } }

    private func finish(_ status: Int32) {
        ExitCleanup.remove(program: process.processIdentifier)
        let waiting = ended.withLock { ending -> [CheckedContinuation<Int32, Never>] in
            guard case .running(let waiting) = ending else { return [] }
            ending = .ended(status)
            return waiting
        }
        for continuation in waiting { continuation.resume(returning: status) }
    }

    private func reap() {
        var status: Int32 = 0
        guard unsafe waitpid(process.processIdentifier, &status, WNOHANG) == process.processIdentifier else { return }
        let byItself = status & 0x7f == 0
        finish(byItself ? status >> 8 & 0xff : 128 + (status & 0x7f))
    }

    /// The bytes on standard output so far.
    public var outputBytes: [UInt8] { contents("out") }
    /// The bytes on standard error so far.
    public var errorBytes: [UInt8] { contents("err") }
    public var error: String { String(decoding: errorBytes, as: UTF8.self) }

    public var isRunning: Bool {
        ended.withLock { if case .running = $0 { true } else { false } }
    }

    private func contents(_ name: String) -> [UInt8] {
        (try? Data(contentsOf: URL(filePath: directory.path(name)))).map(Array.init) ?? []
    }

    public func signal(_ number: Int32) { kill(process.processIdentifier, number) }

    /// Waits for the end; kills the program at the deadline and throws.
    public func result(within seconds: Double = 180) async throws -> ProgramResult {
        let expired = Mutex(false)
        let deadline = ContinuousClock.now + .seconds(seconds)
        let alarm = Task { [weak self] in
            var wasZombie = false
            while true {
                try await Task.sleep(for: .milliseconds(200))
                guard let self else { return }
                if ContinuousClock.now > deadline {
                    expired.withLock { $0 = true }
                    signal(SIGKILL)
                }
                // Process learns of the end by a descriptor that another child, such as a daemon, may have inherited:
                // then it learns nothing while that one lives.
                let isZombie = ProcessState.hasEnded(processIdentifier)
                if isZombie, wasZombie { reap() }
                wasZombie = isZombie
            }
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

/// Programs by name and by path.
public enum Program {
    /// Runs a program to its end.
    ///
    /// - Parameter waitsForTurn: true to take a place among the few that run at once; false to run now, because
    ///   something with a deadline depends on it.
    public static func run(
        _ path: String, _ arguments: [String], environment: [String: String] = [:], input: [UInt8] = [],
        waitsForTurn: Bool = true, within seconds: Double = 180
    ) async throws -> ProgramResult {
        func run() async throws -> ProgramResult {
            try await RunningProgram(path, arguments, environment: environment, input: input).result(within: seconds)
        }
        return waitsForTurn ? try await ProgramLimit.shared.run { try await run() } : try await run()
    }

    /// The path of a product of this package, in the directory of the running tests.
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

    /// The path of an installed program, by PATH.
    public static func installed(_ name: String) throws -> String {
        let path = ProcessInfo.processInfo.environment["PATH"] ?? "/usr/bin:/bin:/usr/sbin:/sbin"
        let candidates = path.split(separator: ":").map { "\($0)/\(name)" }
        guard let found = candidates.first(where: FileManager.default.isExecutableFile(atPath:)) else {
            throw ProgramFailure.notFound(name)
        }
        return found
    }
}

/// A limit of simultaneous short-lived programs. A table of tests would otherwise start hundreds on two cores, and each
/// would make the others time out.
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

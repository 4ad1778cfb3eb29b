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

/// Failures to run a program, as distinguished from failures of the program.
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

/// A running program. Its output goes to files instead of pipes. So it needs no reader, a descriptor that another child
/// inherits blocks no reader, and a test can search the output at any time.
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
    ///   - environment: variables added to the environment of this process.
    ///   - input: the bytes of standard input.
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
        // The child has copies of the descriptors. This process closes its own, because it may run a thousand programs.
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

    public func signal(_ number: Int32) { kill(process.processIdentifier, number) }

    /// Waits until the program exits. At the deadline, kills it and throws.
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
                // Process detects the exit by a descriptor. If another child, such as a daemon, has inherited that,
                // Process detects nothing until that child exits.
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

/// Finds programs and runs them.
public enum Program {
    /// Runs a program to its end.
    ///
    /// - Parameter waitsForTurn: true to wait until fewer than the maximum number of programs run; false to run at
    ///   once, because a deadline depends on it.
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

import DaemonAPI
import Foundation
import Glibc
import UnixSignals

/// A person or a service manager has ended the command with a signal.
struct Interrupted: Error {
    let signal: Int32

    /// Ends the process as the signal would have done by itself, so that a shell sees that it was one.
    func endProcess() -> Never {
        _ = Glibc.signal(signal, SIG_DFL)
        raise(signal)
        // Where the signal is blocked.
        exit(128 + signal)
    }
}

/// What is to be done about SIGINT, SIGTERM and SIGHUP while something runs for long.
enum Interruption {
    /// Without SIGHUP when nohup(1) has it ignored: whoever waits for a signal takes it off that.
    private static var signals: [UnixSignal] {
        ignoresHangup ? [.sigint, .sigterm] : [.sigint, .sigterm, .sighup]
    }

    /// From the mask of ignored signals, proc(5).
    private static var ignoresHangup: Bool {
        guard let status = try? String(contentsOfFile: "/proc/self/status", encoding: .utf8),
            let line = status.split(separator: "\n").first(where: { $0.hasPrefix("SigIgn:") }),
            let mask = line.split(separator: "\t").last.flatMap({ UInt64($0, radix: 16) })
        else { return false }
        return mask & (1 << (UInt64(SIGHUP) - 1)) != 0
    }

    /// Runs `work`; a signal cancels it, and is thrown as ``Interrupted`` once it has ended in whatever way but well.
    static func cancelling<Result: Sendable>(
        _ work: @escaping @Sendable () async throws -> Result
    ) async throws -> Result {
        let arrivals = await UnixSignalsSequence(trapping: signals)
        let task = Task { try await work() }
        let watch = Task { () -> Int32? in
            for await signal in arrivals {
                task.cancel()
                return signal.rawValue
            }
            return nil
        }
        do {
            let result = try await task.value
            watch.cancel()
            return result
        } catch {
            let isInterrupted = task.isCancelled
            if !isInterrupted { watch.cancel() }
            if let signal = await watch.value, isInterrupted { throw Interrupted(signal: signal) }
            throw error
        }
    }

    /// Runs `work`; a signal ends the process at once, and well.
    static func ending<Result: Sendable>(
        _ work: @escaping @Sendable () async throws -> Result
    ) async throws -> Result {
        let arrivals = await UnixSignalsSequence(trapping: signals)
        let watch = Task {
            // Also when the work waits for somebody to read what it writes.
            for await _ in arrivals { exit(ExitStatus.done.rawValue) }
        }
        defer { watch.cancel() }
        return try await work()
    }
}

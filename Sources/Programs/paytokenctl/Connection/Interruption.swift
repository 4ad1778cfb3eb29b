import DaemonAPI
import Foundation
import Glibc
import UnixSignals

/// The end of the command by a signal from a person or a service manager.
struct Interrupted: Error {
    let signal: Int32

    /// Ends the process as the signal itself would, so that a shell recognises the signal.
    func endProcess() -> Never {
        _ = Glibc.signal(signal, SIG_DFL)
        raise(signal)
        // Reached only if the signal is blocked.
        exit(128 + signal)
    }
}

/// The treatment of SIGINT, SIGTERM and SIGHUP during a long operation.
enum Interruption {
    /// The signals that are waited for. SIGHUP is omitted if this process ignores it, as nohup(1) arranges: waiting for
    /// the signal would end the protection.
    private static var signals: [UnixSignal] {
        ignoresHangup ? [.sigint, .sigterm] : [.sigint, .sigterm, .sighup]
    }

    /// True if this process ignores SIGHUP, according to the mask of ignored signals in /proc/self/status (proc(5)).
    private static var ignoresHangup: Bool {
        guard let status = try? String(contentsOfFile: "/proc/self/status", encoding: .utf8),
            let line = status.split(separator: "\n").first(where: { $0.hasPrefix("SigIgn:") }),
            let mask = line.split(separator: "\t").last.flatMap({ UInt64($0, radix: 16) })
        else { return false }
        return mask & (1 << (UInt64(SIGHUP) - 1)) != 0
    }

    /// Runs `work`. A signal cancels the work. If the work then ends with an error, ``Interrupted`` is thrown in place
    /// of that error.
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

    /// Runs `work`. A signal ends the process immediately and successfully.
    static func ending<Result: Sendable>(
        _ work: @escaping @Sendable () async throws -> Result
    ) async throws -> Result {
        let arrivals = await UnixSignalsSequence(trapping: signals)
        let watch = Task {
            // This also works while the work waits for a reader of its output.
            for await _ in arrivals { exit(ExitStatus.done.rawValue) }
        }
        defer { watch.cancel() }
        return try await work()
    }
}

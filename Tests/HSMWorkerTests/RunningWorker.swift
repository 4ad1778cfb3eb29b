import CLinux
import Foundation
import Synchronization

/// A worker's process, started as the daemon starts it. Not by Foundation's Process, which learns of a child's end from
/// a descriptor that the child inherits, and the worker closes what it inherits.
final class RunningWorker: Sendable {
    private enum State {
        case running([CheckedContinuation<Int32, Never>])
        case ended(Int32)
    }

    let identifier: Int32
    /// The daemon's end of the pair; the caller's to close.
    let socket: Int32
    private let state = Mutex(State.running([]))

    struct NotStarted: Error {
        let code: Int32
    }

    init(_ path: String, environment: [String: String]) throws {
        let executable = unsafe paytokend_open_executable(path)
        defer { close(executable) }
        var arguments: [UnsafeMutablePointer<CChar>?] = unsafe [strdup("paytokend-hsm"), nil]
        var variables = unsafe environment.map { unsafe strdup("\($0.key)=\($0.value)") }
        unsafe variables.append(nil)
        defer { unsafe (arguments + variables).forEach { unsafe free($0) } }
        var (identifier, socket): (pid_t, Int32) = (0, -1)
        let code = unsafe paytokend_spawn(executable, &arguments, &variables, &identifier, &socket)
        guard code == 0 else { throw NotStarted(code: code) }
        self.identifier = identifier
        self.socket = socket
        Thread { [self] in awaitEnd() }.start()
    }

    private func awaitEnd() {
        var status: Int32 = 0
        _ = unsafe paytokend_reap(identifier, &status)
        let signal = status & 0x7F
        let code = signal == 0 ? (status >> 8) & 0xFF : 128 + signal
        let waiting: [CheckedContinuation<Int32, Never>] = state.withLock { state in
            guard case .running(let waiting) = state else { return [] }
            state = .ended(code)
            return waiting
        }
        for continuation in waiting { continuation.resume(returning: code) }
    }

    /// The exit status, or 128 plus the signal that ended it.
    func status() async -> Int32 {
        await withCheckedContinuation { continuation in
            let known: Int32? = state.withLock { state in
                switch state {
                case .ended(let status): return status
                case .running(let waiting):
                    state = .running(waiting + [continuation])
                    return nil
                }
            }
            if let known { continuation.resume(returning: known) }
        }
    }
}

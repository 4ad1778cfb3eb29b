import Foundation

/// Stops a process, and returns when all of its threads stand still: kill(2) returns earlier, and until the signal has
/// reached it a thread goes on, which on a busy machine can take longer than what a test does next.
public func stop(process identifier: Int32) async throws {
    guard kill(identifier, SIGSTOP) == 0 else { throw WaitedInVain(description: "process \(identifier) has ended") }
    try await wait(for: "process \(identifier) to stop") {
        let threads = "/proc/\(identifier)/task"
        return try FileManager.default.contentsOfDirectory(atPath: threads).allSatisfy { thread in
            // proc(5): the state is behind the name, which may hold anything, in parentheses.
            guard let status = try? String(contentsOfFile: "\(threads)/\(thread)/stat", encoding: .utf8) else {
                return true
            }
            return status[(status.lastIndex(of: ")") ?? status.startIndex)...].dropFirst(2).first == "T"
        }
    }
}

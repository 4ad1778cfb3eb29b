import Foundation

/// Stops a process, and returns when all of its threads are stopped. kill(2) returns earlier: until the signal reaches
/// it a thread continues, on a busy machine possibly longer than the test's next step takes.
public func stop(process identifier: Int32) async throws {
    guard kill(identifier, SIGSTOP) == 0 else { throw WaitedInVain(description: "process \(identifier) has ended") }
    try await wait(for: "process \(identifier) to stop") {
        let threads = "/proc/\(identifier)/task"
        return try FileManager.default.contentsOfDirectory(atPath: threads).allSatisfy { thread in
            // proc(5): the state follows the name, which may contain anything, in parentheses.
            guard let status = try? String(contentsOfFile: "\(threads)/\(thread)/stat", encoding: .utf8) else {
                return true
            }
            return status[(status.lastIndex(of: ")") ?? status.startIndex)...].dropFirst(2).first == "T"
        }
    }
}

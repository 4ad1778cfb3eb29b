import Foundation

/// Stops a process, and returns when all its threads have stopped. kill(2) returns before that, and on a busy machine a
/// thread can still run during the test's next step.
public func stop(process identifier: Int32) async throws {
    guard kill(identifier, SIGSTOP) == 0 else { throw ConditionTimeout(description: "process \(identifier) has ended") }
    try await wait(for: "process \(identifier) to stop") {
        let threads = "/proc/\(identifier)/task"
        return try FileManager.default.contentsOfDirectory(atPath: threads).allSatisfy { thread in
            // By proc(5) the state follows the last parenthesis, because the name in parentheses may contain any
            // character.
            guard let status = try? String(contentsOfFile: "\(threads)/\(thread)/stat", encoding: .utf8) else {
                return true
            }
            return status[(status.lastIndex(of: ")") ?? status.startIndex)...].dropFirst(2).first == "T"
        }
    }
}

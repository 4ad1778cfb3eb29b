import Foundation

/// Requests sent on one connection without waiting for answers. Each has a body of 4 KB that is not JSON, so that few
/// requests have many bytes.
public struct PipelinedRequests: Sendable {
    private static let body = String(repeating: "x", count: 4000)
    private let path: String

    /// Makes requests for a path.
    ///
    /// - Parameter path: an endpoint that answers a body that is not JSON with 400.
    public init(to path: String) { self.path = path }

    /// Sends 4 MB, after which the program's memory is steady, and then measures while it sends 40 MB.
    ///
    /// - Returns: the growth of the program's resident memory during the 40 MB, in kilobytes.
    public func growth(
        of process: Int32, over connect: () async throws -> RawConnection
    ) async throws -> Int {
        try await send(1000, over: connect())
        let before = try Self.residentKilobytes(of: process)
        try await send(10_000, over: connect())
        return try Self.residentKilobytes(of: process) - before
    }

    /// Sends requests without waiting for answers, which the connection reads as they arrive.
    private func send(_ count: Int, over connection: RawConnection) async throws {
        let head = RawConnection.head(path, length: Self.body.count)
        let batch = String(repeating: head + Self.body, count: 100)
        for _ in 0..<count / 100 { try await connection.send(batch) }
        try await connection.send("GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        let answers = try await connection.everything().components(separatedBy: "HTTP/1.1 400").count - 1
        guard answers == count else {
            throw ConditionTimeout(description: "\(answers) of \(count) requests were answered 400")
        }
    }

    private static func residentKilobytes(of process: Int32) throws -> Int {
        let status = try String(contentsOfFile: "/proc/\(process)/status", encoding: .utf8)
        let line = status.split(separator: "\n").first { $0.hasPrefix("VmRSS:") } ?? ""
        guard let number = line.split(whereSeparator: { !$0.isNumber }).first.flatMap({ Int($0) }) else {
            throw ConditionTimeout(description: "process \(process) has no resident memory")
        }
        return number
    }
}

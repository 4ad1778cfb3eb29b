import Foundation

/// Requests sent on one connection without waiting for their answers. Their bodies of 4 KB, which are not JSON, make
/// few requests of many bytes.
public struct PipelinedRequests: Sendable {
    private static let body = String(repeating: "x", count: 4000)
    private let path: String

    /// - Parameter path: an endpoint that answers such a body with 400.
    public init(to path: String) { self.path = path }

    /// Sends 40 MB, after 4 MB that bring the program's memory to its steady size.
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

    /// Sends faster than requests are answered; the connection reads the answers as they arrive.
    private func send(_ count: Int, over connection: RawConnection) async throws {
        let head = RawConnection.head(path, length: Self.body.count)
        let batch = String(repeating: head + Self.body, count: 100)
        for _ in 0..<count / 100 { try await connection.send(batch) }
        try await connection.send("GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        let answers = try await connection.everything().components(separatedBy: "HTTP/1.1 400").count - 1
        guard answers == count else {
            throw WaitedInVain(description: "\(answers) of \(count) requests were answered 400")
        }
    }

    private static func residentKilobytes(of process: Int32) throws -> Int {
        let status = try String(contentsOfFile: "/proc/\(process)/status", encoding: .utf8)
        let line = status.split(separator: "\n").first { $0.hasPrefix("VmRSS:") } ?? ""
        guard let number = line.split(whereSeparator: { !$0.isNumber }).first.flatMap({ Int($0) }) else {
            throw WaitedInVain(description: "process \(process) has no resident memory")
        }
        return number
    }
}

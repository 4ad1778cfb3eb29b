import Foundation
public import StrictJSON

/// An HTTP answer as curl received it.
public struct CurlAnswer: Sendable, CustomStringConvertible {
    public let status: Int
    public let headers: [(name: String, value: String)]
    public let body: [UInt8]

    public var text: String { String(decoding: body, as: UTF8.self) }
    /// The value of the first header field with this name, whose case is ignored.
    public func header(_ name: String) -> String? {
        headers.first { $0.name.lowercased() == name.lowercased() }?.value
    }
    /// The parsed body; it must be JSON.
    public var json: JSONValue {
        get throws { try JSONValue(parsing: body) }
    }
    /// The body's member `name`; nil if the body is not an object or lacks it.
    public func member(_ name: String) -> JSONValue? {
        guard case .object(let object)? = try? json else { return nil }
        return object[name]
    }
    /// The body's member `name`; nil if it is not a string.
    public func string(_ name: String) -> String? {
        guard case .string(let text)? = member(name) else { return nil }
        return text
    }
    /// The `code` of a refusal.
    public var code: String? { string("code") }
    public var description: String { "\(status) \(text)" }

    /// The values of a metric in the body of `/metrics`: one for each of its lines that has all these labels.
    public func metric(_ name: String, _ labels: [String] = []) -> [Double] {
        text.split(separator: "\n").filter { line in
            (line.hasPrefix(name + "{") || line.hasPrefix(name + " ")) && labels.allSatisfy { line.contains($0) }
        }.compactMap { line in line.split(separator: " ").last.flatMap { Double($0) } }
    }
}

/// The user and group identifiers under which tests run programs. The system needs no account with these identifiers.
public struct PeerIdentity: Sendable {
    public var uid: UInt32
    public var gid: UInt32
    public var supplementaryGroups: [UInt32] = []
    /// The audit system's login uid (/proc/PID/loginuid); nil to keep the one of the test process.
    public var loginUID: UInt32?

    public init(uid: UInt32, gid: UInt32, supplementaryGroups: [UInt32] = [], loginUID: UInt32? = nil) {
        self.uid = uid
        self.gid = gid
        self.supplementaryGroups = supplementaryGroups
        self.loginUID = loginUID
    }

    /// True if the tests run as root and can therefore change identity.
    public static let available = geteuid() == 0

    /// The arguments of setpriv before the command to run.
    public var arguments: [String] {
        let groups = supplementaryGroups.map(String.init).joined(separator: ",")
        return ["--reuid", String(uid), "--regid", String(gid)]
            + (groups.isEmpty ? ["--clear-groups"] : ["--groups", groups])
    }

    /// Runs a program under this identity, which requires root.
    public func run(
        _ path: String, _ arguments: [String], environment: [String: String] = [:], input: [UInt8] = [],
        within seconds: Double = 120
    ) async throws -> ProgramResult {
        let line = [try Program.installed("setpriv")] + self.arguments + [path] + arguments
        let script = (loginUID.map { "echo \($0) > /proc/self/loginuid && " } ?? "") + "exec \"$@\""
        return try await Program.run(
            Program.installed("sh"), ["-c", script, "sh"] + line, environment: environment, input: input,
            within: seconds)
    }
}

/// The curl command, by default over a Unix socket.
public enum Curl {
    /// Sends one request.
    ///
    /// - Parameters:
    ///   - socket: the path of a Unix socket; nil to connect to the address of `origin`.
    ///   - body: the body, sent unchanged with POST; nil for GET.
    ///   - arguments: additional arguments for curl.
    ///   - waitsForTurn: see ``Program/run(_:_:environment:input:waitsForTurn:within:)``.
    ///   - identity: the identity under which curl runs, which the daemon sees as the peer. A change requires root.
    public static func request(
        _ path: String, socket: String?, origin: String = "http://localhost", method: String? = nil,
        body: [UInt8]? = nil,
        contentType: String? = "application/json", arguments: [String] = [], as identity: PeerIdentity? = nil,
        waitsForTurn: Bool = true, within seconds: Double = 120
    ) async throws -> CurlAnswer {
        let files = try FreshDirectory()
        if identity != nil { try files.open() }
        var line = [
            "--silent", "--show-error", "--max-time", String(Int(seconds)), "--dump-header", files.path("head"),
            "--output", files.path("body"), "--write-out", "%{http_code}",
        ]
        if let socket { line += ["--unix-socket", socket] }
        if let method { line += ["--request", method] }
        if let body {
            try files.write(body, to: "request", mode: 0o644)
            line += ["--data-binary", "@\(files.path("request"))", "--header", "Expect:"]
            line += ["--header", contentType.map { "Content-Type: \($0)" } ?? "Content-Type:"]
        }
        line += arguments + [origin + path]
        let curl = try Program.installed("curl")
        let result =
            if let identity {
                try await identity.run(curl, line, within: seconds + 10)
            } else {
                try await Program.run(curl, line, waitsForTurn: waitsForTurn, within: seconds + 10)
            }
        guard let status = Int(result.output), status > 0 else { throw CurlFailure(result: result) }
        let head = (try? String(contentsOfFile: files.path("head"), encoding: .utf8)) ?? ""
        let headers = head.split(whereSeparator: \.isNewline).dropFirst().compactMap { line in
            line.firstIndex(of: ":").map { colon in
                (
                    name: String(line[..<colon]),
                    value: line[line.index(after: colon)...].trimmingCharacters(in: .whitespaces)
                )
            }
        }
        let content = (try? Data(contentsOf: URL(filePath: files.path("body")))).map(Array.init) ?? []
        return CurlAnswer(status: status, headers: headers, body: content)
    }
}

extension Curl {
    /// Sends several bodies to one path simultaneously, each on a separate connection.
    ///
    /// - Returns: the answers, without their header fields, in the order of `bodies`.
    public static func simultaneously(
        _ path: String, socket: String, bodies: [[UInt8]], within seconds: Double = 120
    ) async throws -> [CurlAnswer] {
        let files = try FreshDirectory()
        var line = [
            "--silent", "--show-error", "--parallel", "--parallel-immediate", "--parallel-max", "\(bodies.count)",
        ]
        for (index, body) in bodies.enumerated() {
            try files.write(body, to: "request\(index)")
            if index > 0 { line.append("--next") }
            // curl reuses a connection for several transfers to one host name, so each transfer uses a different host
            // name.
            line += [
                "--silent", "--max-time", String(Int(seconds)), "--unix-socket", socket, "--output",
                files.path("body\(index)"), "--write-out", "\(index) %{http_code}\\n", "--header", "Expect:",
                "--header",
                "Content-Type: application/json", "--data-binary", "@\(files.path("request\(index)"))",
                "http://caller\(index).localhost\(path)",
            ]
        }
        let result = try await Program.run(Program.installed("curl"), line, within: seconds + 10)
        var statuses: [Int: Int] = [:]
        for written in result.output.split(separator: "\n") {
            let numbers = written.split(separator: " ").compactMap { Int($0) }
            if numbers.count == 2 { statuses[numbers[0]] = numbers[1] }
        }
        guard statuses.count == bodies.count else { throw CurlFailure(result: result) }
        return bodies.indices.map { index in
            let content = (try? Data(contentsOf: URL(filePath: files.path("body\(index)")))).map(Array.init) ?? []
            return CurlAnswer(status: statuses[index] ?? 0, headers: [], body: content)
        }
    }
}

/// A failure of curl to receive an HTTP answer.
public struct CurlFailure: Error, CustomStringConvertible {
    public let result: ProgramResult
    public var description: String { "curl: \(result)" }
}

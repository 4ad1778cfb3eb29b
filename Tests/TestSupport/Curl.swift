import Foundation
public import StrictJSON

/// An HTTP answer as curl saw it.
public struct CurlAnswer: Sendable, CustomStringConvertible {
    public let status: Int
    public let headers: [(name: String, value: String)]
    public let body: [UInt8]

    public var text: String { String(decoding: body, as: UTF8.self) }
    /// The value of the first header of that name, in any case.
    public func header(_ name: String) -> String? {
        headers.first { $0.name.lowercased() == name.lowercased() }?.value
    }
    /// The body as JSON.
    public var json: JSONValue {
        get throws { try JSONValue(parsing: body) }
    }
    /// The body as a JSON object, empty when it is none.
    public func member(_ name: String) -> JSONValue? {
        guard case .object(let object)? = try? json else { return nil }
        return object[name]
    }
    /// A string member of the body.
    public func string(_ name: String) -> String? {
        guard case .string(let text)? = member(name) else { return nil }
        return text
    }
    /// The `code` of a refusal.
    public var code: String? { string("code") }
    public var description: String { "\(status) \(text)" }
}

/// The real curl command over a Unix socket.
public enum Curl {
    /// One request.
    ///
    /// - Parameters:
    ///   - body: sent as it is, with POST; nil sends GET.
    ///   - arguments: more of curl's own.
    public static func request(
        _ path: String, socket: String, method: String? = nil, body: [UInt8]? = nil,
        contentType: String? = "application/json", arguments: [String] = [], within seconds: Double = 60
    ) async throws -> CurlAnswer {
        let files = try FreshDirectory()
        var line = [
            "--silent", "--show-error", "--max-time", String(Int(seconds)), "--unix-socket", socket, "--dump-header",
            files.path("head"), "--output", files.path("body"), "--write-out", "%{http_code}",
        ]
        if let method { line += ["--request", method] }
        if let body {
            try files.write(body, to: "request")
            line += ["--data-binary", "@\(files.path("request"))", "--header", "Expect:"]
            line += ["--header", contentType.map { "Content-Type: \($0)" } ?? "Content-Type:"]
        }
        let result = try await Program.run(
            Program.installed("curl"), line + arguments + ["http://localhost\(path)"], within: seconds + 10)
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

/// curl found no HTTP answer.
public struct CurlFailure: Error, CustomStringConvertible {
    public let result: ProgramResult
    public var description: String { "curl: \(result)" }
}

public import AuditChain
import StrictJSON

/// An HSM token's own count of its keys' uses, printed by a small command that reads a counter or log.
///
/// JSON lines, each an object with exactly these members, in any order; *Assessing* explains them:
///
///     {"format":"paytokend-token-uses","version":1,"kind":"log","since":"2025-11-01T00:00:00Z","until":"2026-11-01T00:00:00Z",
///      "node":"backend-1","token":"primary","serial":"495adced91b068a0"}
///     {"time":"2026-01-31T12:00:00Z","publicKeyHash":"…44 characters of Base64…","operation":"derive"}
///     {"end":1}
///
/// `node`, `token` and `serial` may be missing. With `"kind":"counter"` the lines in between are
/// `{"publicKeyHash":…,"uses":123}`: each key's uses from `since` (inclusive) to `until` (exclusive). The last line
/// contains the number of lines in between, so that truncated output is detected. A log takes eight bytes of memory for
/// each use, and a counter takes none.
public struct TokenUseLog: Sendable, Equatable {
    public enum Kind: String, Sendable {
        case log
        case counter
    }

    public struct File: Sendable, Equatable {
        public let name: String
        public let digest: AuditDigest

        public init(name: String, digest: AuditDigest) { (self.name, self.digest) = (name, digest) }
    }

    public let kind: Kind
    /// The node whose uses the log contains; nil if the log contains the uses of all nodes that use the HSM token.
    public let node: AuditNode?
    /// The HSM token's name in records; nil if the header has no name, so that the log covers records with any name.
    public let token: String?
    /// The serialNumber in the HSM token's CK_TOKEN_INFO; nil if the header has none.
    public let serial: String?
    /// The beginning of the time for which the log is complete, inclusive; `until` is the end, exclusive.
    public let since: AuditTime
    public let until: AuditTime
    /// The file from which the log was read, without its directory.
    public var file: File?
    /// The number of uses by key. If ``kind`` is `log`, `times` has their times, in order after ``finish()``.
    public private(set) var uses: [AuditDigest: Int] = [:]
    private(set) var times: [AuditDigest: [AuditTime]] = [:]
    /// The uses of each key by operation. Those beyond ``maximumOperations`` operations of a key are under `other`.
    private(set) var operations: [AuditDigest: [String: Operation]] = [:]
    private var lines = 0
    private var isEnded = false

    /// The uses of a key with one operation: their number, and the first and the last time.
    struct Operation: Sendable, Equatable {
        var count = 0
        var first: AuditTime
        var last: AuditTime
    }

    static let (maximumKeys, longestLine) = (100_000, 4_096)
    private static let maximumOperations = 16
    private static let maximumUses = 1 << 53

    /// - Parameter header: the first line, without its line feed.
    public init(header: [UInt8]) throws(TokenUseLogError) {
        let object = try Self.object(header, line: 1)
        func text(_ name: String, _ limit: Int) throws(TokenUseLogError) -> String? {
            guard let value = object[name] else { return nil }
            guard let text = value.stringValue, (1...limit).contains(text.utf8.count) else {
                throw .member(name, line: 1)
            }
            return text
        }
        func time(_ name: String) throws(TokenUseLogError) -> AuditTime {
            guard let time = object[name]?.stringValue.flatMap(AuditTime.init(rfc3339:)) else {
                throw .member(name, line: 1)
            }
            return time
        }
        guard object["format"]?.stringValue == "paytokend-token-uses", object["version"]?.numberValue?.int == 1 else {
            throw .format
        }
        guard let kind = object["kind"]?.stringValue.flatMap(Kind.init) else { throw .member("kind", line: 1) }
        self.kind = kind
        let name = try text("node", AuditNode.maximumLength)
        node = name.flatMap(AuditNode.init)
        guard (name == nil) == (node == nil) else { throw .member("node", line: 1) }
        (token, serial) = (try text("token", 255), try text("serial", 255))
        (since, until) = (try time("since"), try time("until"))
        guard since < until else { throw .member("until", line: 1) }
        try Self.requireOnly(
            ["format", "version", "kind", "node", "token", "serial", "since", "until"], object, line: 1)
    }

    /// Reads the next line after the header, without its line feed.
    public mutating func take(line: [UInt8]) throws(TokenUseLogError) {
        let number = lines + 2
        guard !isEnded else { throw .afterEnd(line: number + 1) }
        let object = try Self.object(line, line: number)
        if let end = object["end"] {
            try Self.requireOnly(["end"], object, line: number)
            guard end.numberValue?.int == lines else { throw .count(said: end.numberValue?.int, found: lines) }
            isEnded = true
            return
        }
        lines += 1
        guard let key = object["publicKeyHash"]?.stringValue.flatMap(AuditDigest.init(base64:)) else {
            throw .member("publicKeyHash", line: number)
        }
        guard uses[key] != nil || uses.count < Self.maximumKeys else { throw .tooManyKeys }
        switch kind {
        case .counter:
            guard let count = object["uses"]?.numberValue?.int, (0...Self.maximumUses).contains(count), uses[key] == nil
            else { throw .member("uses", line: number) }
            try Self.requireOnly(["publicKeyHash", "uses"], object, line: number)
            uses[key] = count
        case .log:
            guard let time = object["time"]?.stringValue.flatMap(AuditTime.init(rfc3339:)), time >= since, time < until
            else { throw .member("time", line: number) }
            guard let operation = object["operation"]?.stringValue, (1...64).contains(operation.utf8.count),
                operation.utf8.allSatisfy({ (0x20...0x7E).contains($0) })
            else { throw .member("operation", line: number) }
            try Self.requireOnly(["time", "publicKeyHash", "operation"], object, line: number)
            uses[key, default: 0] += 1
            times[key, default: []].append(time)
            count(operation, of: key, at: time)
        }
    }

    private mutating func count(_ operation: String, of key: AuditDigest, at time: AuditTime) {
        let known = operations[key] ?? [:]
        let name = known[operation] != nil || known.count < Self.maximumOperations ? operation : "other"
        var uses = known[name] ?? Operation(first: time, last: time)
        (uses.count, uses.first, uses.last) = (uses.count + 1, min(uses.first, time), max(uses.last, time))
        operations[key, default: [:]][name] = uses
    }

    /// - Throws: `unended` if the last line is missing, so that the output was truncated.
    public mutating func finish() throws(TokenUseLogError) {
        guard isEnded else { throw .unended }
        for key in times.keys { times[key]?.sort() }
    }

    /// Returns true if the log is of a record's HSM token and node.
    ///
    /// - Parameter names: the names of the record's HSM tokens. If a key was imported into several, their names are
    ///   separated by commas, which no name contains.
    func isOf(_ node: AuditNode, token names: String?) -> Bool {
        let hasToken = token.flatMap { token in names.map { $0.split(separator: ",").contains(token[...]) } } ?? true
        return hasToken && (self.node ?? node) == node
    }

    /// Returns true if the log covers the uses of a record of this time, nil if it does not, and false if that is uncertain:
    /// if a use that the record explains (``UseMatching``) may be before `since`, or at `until` or later.
    func covers(_ time: AuditTime) -> Bool? {
        let (time, since, until) = (time.milliseconds, since.milliseconds, until.milliseconds)
        guard time >= since - UseMatching.latest, time < until + UseMatching.earliest else { return nil }
        return time >= since + UseMatching.earliest && time < until - UseMatching.latest
    }

    /// The assumed maximum difference, in milliseconds, between the HSM token's clock and a host's.
    static let margin: Int64 = 10_000

    /// Returns true if both logs could contain the same use.
    public func overlaps(_ other: TokenUseLog) -> Bool {
        (node == nil || other.node == nil || node == other.node)
            && (token == nil || other.token == nil || token == other.token)
            && since < other.until && other.since < until
    }

    private static func object(_ line: [UInt8], line number: Int) throws(TokenUseLogError) -> JSONObject {
        guard line.count <= longestLine, let value = try? JSONValue(parsing: line, limits: JSONLimits(maximumDepth: 2)),
            let object = value.objectValue
        else { throw .notJSON(line: number) }
        return object
    }

    private static func requireOnly(
        _ names: Set<String>, _ object: JSONObject, line: Int
    ) throws(TokenUseLogError) {
        if let other = object.members.first(where: { !names.contains($0.name) }) {
            throw .unknown(AuditText(other.name).text, line: line)
        }
    }
}

/// The reason why a log of an HSM token's uses is refused.
public enum TokenUseLogError: Error, Sendable, Equatable, CustomStringConvertible {
    case format
    case notJSON(line: Int)
    case member(String, line: Int)
    case unknown(String, line: Int)
    case tooManyKeys
    case count(said: Int?, found: Int)
    case afterEnd(line: Int)
    case unended

    public var description: String {
        switch self {
        case .format: "its first line does not say \"format\":\"paytokend-token-uses\",\"version\":1"
        case .notJSON(let line): "line \(line) is no JSON object of at most \(TokenUseLog.longestLine) bytes"
        case .member(let name, let line): "line \(line): \(name) is missing, or is not what the format asks for"
        case .unknown(let name, let line): "line \(line): \(name) is no member of the format"
        case .tooManyKeys: "it names more than \(TokenUseLog.maximumKeys) keys"
        case .count(let said, let found):
            "its end says that \(said.map(String.init) ?? "no number of") lines stand before it, and there are \(found)"
        case .afterEnd(let line): "line \(line) comes after the end"
        case .unended: "its last line, {\"end\":…}, is missing: it was cut off"
        }
    }
}

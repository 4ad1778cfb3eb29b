import Encodings
import NIOCore
import NIOHTTP1

/// The framing that a request's head declares, or the reason why it cannot be trusted.
///
/// The decoder has already rejected contradictory heads (RFC 9112 §6.3). Heads that it accepts but two readers could
/// understand differently are rejected here.
struct MessageFraming {
    let head: RequestHead
    /// The framing of the answer. Its `closes` is true if the request asks to close the connection.
    let answer: AnswerFraming
    let expectsContinue: Bool

    enum Flaw: Error {
        /// The end of the message is in doubt: the answer is a bare 400, and the connection is closed.
        case ambiguousLength
        /// The request is refused with this message.
        case malformed(String)
    }

    init(_ head: HTTPRequestHead) throws(Flaw) {
        let encodings = head.headers["transfer-encoding"]
        let lengths = head.headers["content-length"]
        let isChunked = !encodings.isEmpty
        guard encodings.count <= 1, lengths.count <= 1, !isChunked || lengths.isEmpty,
            encodings.first.map({ $0.lowercased() == "chunked" && head.version == .http1_1 }) ?? true
        else { throw .ambiguousLength }
        let hosts = head.headers["host"]
        guard hosts.allSatisfy(RequestAuthority.isWellFormed),
            hosts.count == 1 || hosts.isEmpty && head.version == .http1_0
        else {
            throw .malformed(
                "A request must have one Host field, with a host and an optional port (RFC 9112 section 3.2).")
        }
        guard let target = RequestTarget(head.uri) else {
            throw .malformed("The request's target is too long or wrongly encoded.")
        }
        // A length beyond Int is also beyond every limit.
        let length = lengths.first.map { Int($0) ?? Int.max } ?? (isChunked ? nil : 0)
        let contentType = head.headers.first(name: "content-type").map(Self.mediaType)
        self.head = RequestHead(
            method: head.method.rawValue, path: target.path, query: target.query, contentType: contentType,
            contentLength: length, fields: head.headers)
        // After CONNECT or an upgrade the decoder reads no more. Neither is supported, so the connection ends.
        let leavesHTTP = head.method == .CONNECT || head.headers.contains(name: "upgrade")
        answer = AnswerFraming(
            omitsBody: head.method == .HEAD, isHTTP10: head.version == .http1_0,
            closes: !head.isKeepAlive || leavesHTTP)
        expectsContinue =
            head.version == .http1_1
            && head.headers["expect"].contains { $0.lowercased() == "100-continue" }
    }
}

extension MessageFraming {
    /// Returns the media type in lower case, without its parameters and the white space around it (RFC 9110 §8.3.1).
    private static func mediaType(_ value: String) -> String {
        if value == "application/json" { return value }
        let type = value.utf8.prefix { $0 != UInt8(ascii: ";") }
        let isSpace = { (byte: UInt8) in byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t") }
        let trimmed = type.drop(while: isSpace).reversed().drop(while: isSpace).reversed()
        return String(decoding: Array(trimmed), as: UTF8.self).lowercased()
    }
}

/// A request target (RFC 9112 §3.2), split and percent-decoded.
struct RequestTarget: Sendable, Equatable {
    let path: String
    let query: [String: String]

    static let maximumBytes = 4096
    private static let maximumQueryMembers = 32

    /// Accepts the origin form, the absolute form that proxies send, and the asterisk form. Returns nil if the target is too
    /// long, is not percent-encoded UTF-8, contains control characters, or has a query name twice.
    init?(_ text: String) {
        guard text.utf8.count <= Self.maximumBytes else { return nil }
        if text.utf8.first == UInt8(ascii: "/"), text.utf8.allSatisfy(Self.isPlain) {
            path = text
            query = [:]
            return
        }
        var target = text[...]
        if target == "*" {
            path = "*"
            query = [:]
            return
        }
        let scheme = target.prefix { $0 != ":" }.lowercased()
        if ["http", "https"].contains(scheme) {
            guard target.dropFirst(scheme.count).hasPrefix("://") else { return nil }
            target = target.dropFirst(scheme.count + "://".count)
            let authority = target.prefix { $0 != "/" && $0 != "?" }
            guard authority.first.map({ $0 != ":" }) == true, RequestAuthority.isWellFormed(String(authority)) else {
                return nil
            }
            target = target.dropFirst(authority.count)
        } else if !target.hasPrefix("/") {
            return nil
        }
        guard !target.contains("#") else { return nil }
        let parts = target.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        guard let path = Self.path(of: parts[0]) else { return nil }
        self.path = path.isEmpty ? "/" : path
        guard parts.count == 2, let query = Self.members(of: parts[1]) else {
            guard parts.count == 1 else { return nil }
            query = [:]
            return
        }
        self.query = query
    }

    /// Decodes each segment separately (RFC 3986 §2.4). An encoded slash does not separate segments, so it stays encoded, and
    /// so does a percent sign.
    private static func path(of text: Substring) -> String? {
        var segments: [String] = []
        for segment in text.split(separator: "/", omittingEmptySubsequences: false) {
            guard let decoded = PercentEncoding.decoded(segment) else { return nil }
            segments.append(decoded.replacing("%", with: "%25").replacing("/", with: "%2F"))
        }
        return segments.joined(separator: "/")
    }

    /// Returns true for a byte that is always literal in a path. A path of only such bytes need not be decoded.
    private static func isPlain(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "/"), UInt8(ascii: "-"), UInt8(ascii: "_"),
            UInt8(ascii: "."):
            true
        default: false
        }
    }

    private static func members(of text: Substring) -> [String: String]? {
        var members: [String: String] = [:]
        for member in text.split(separator: "&") {
            let parts = member.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard members.count < maximumQueryMembers, let name = PercentEncoding.decoded(parts[0], plusIsSpace: true),
                let value = parts.count == 2 ? PercentEncoding.decoded(parts[1], plusIsSpace: true) : "",
                members.updateValue(value, forKey: name) == nil
            else { return nil }
        }
        return members
    }
}

/// The host and the port that a request is for: the Host field's value and a part of an absolute target (RFC 9110 §7.2).
///
/// No answer depends on them. A malformed one is rejected because a proxy and this program could take it for different hosts.
enum RequestAuthority {
    /// Returns true for a host (RFC 3986 §3.2.2) with or without a port. The host may be empty; user information is refused
    /// (RFC 9110 §4.2.4).
    static func isWellFormed(_ text: String) -> Bool {
        var rest = text.utf8[...]
        if rest.first == UInt8(ascii: "[") {
            let address = rest.dropFirst().prefix { isInName($0) || $0 == UInt8(ascii: ":") }
            rest = rest.dropFirst(address.count + 1)
            guard !address.isEmpty, rest.popFirst() == UInt8(ascii: "]") else { return false }
        } else {
            let name = rest.prefix(while: isInName)
            rest = rest.dropFirst(name.count)
            guard !name.contains(UInt8(ascii: "%")) || PercentEncoding.decoded(Substring(name)) != nil else {
                return false
            }
        }
        guard let colon = rest.popFirst() else { return true }
        return colon == UInt8(ascii: ":") && rest.allSatisfy { UInt8(ascii: "0")...UInt8(ascii: "9") ~= $0 }
    }

    /// Returns true for an unreserved character, a subordinate delimiter, or the percent sign.
    private static func isInName(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"):
            true
        default: "-._~!$&'()*+,;=%".utf8.contains(byte)
        }
    }
}

extension HTTPServerRequestPart {
    /// The part without the white space after field values. The decoder keeps that space, which is not part of the
    /// values (RFC 9112 §5.1).
    var trimmed: HTTPServerRequestPart {
        let isSpace = { (byte: UInt8) in byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t") }
        guard case .head(var head) = self, head.headers.contains(where: { $0.value.utf8.last.map(isSpace) == true })
        else { return self }
        head.headers = HTTPHeaders(
            head.headers.map { name, value in
                (name, String(decoding: Array(value.utf8.reversed().drop(while: isSpace).reversed()), as: UTF8.self))
            })
        return .head(head)
    }
}

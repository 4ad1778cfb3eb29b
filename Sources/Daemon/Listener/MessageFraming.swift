import Foundation
import NIOCore
import NIOHTTP1

/// What a request's head says about the message around it, or why that cannot be trusted.
///
/// The decoder has refused already what contradicts itself (RFC 9112 §6.3); what it lets pass and two readers could
/// still understand differently is refused here.
struct MessageFraming {
    let head: RequestHead
    /// Of the answer; `closes` is what the request asks for.
    let answer: AnswerEncoder.Framing
    let expectsContinue: Bool

    enum Flaw: Error {
        /// The message's end is in doubt: bare 400 and close.
        case ambiguousLength
        /// The target cannot be decoded: malformed_request.
        case target
    }

    init(_ head: HTTPRequestHead, receivedAt: Date) throws(Flaw) {
        let encodings = head.headers["transfer-encoding"]
        let lengths = head.headers["content-length"]
        let isChunked = !encodings.isEmpty
        guard encodings.count <= 1, lengths.count <= 1, !isChunked || lengths.isEmpty,
            encodings.first.map({ $0.lowercased() == "chunked" && head.version == .http1_1 }) ?? true
        else { throw .ambiguousLength }
        guard let target = RequestTarget(head.uri) else { throw .target }
        // A length beyond Int is beyond every limit as well.
        let length = lengths.first.map { Int($0) ?? Int.max } ?? (isChunked ? nil : 0)
        let contentType = head.headers["content-type"].first.map { value in
            value.prefix { $0 != ";" }.trimmingCharacters(in: .whitespaces).lowercased()
        }
        self.head = RequestHead(
            method: head.method.rawValue, path: target.path, query: target.query, contentType: contentType,
            contentLength: length, receivedAt: receivedAt)
        // After CONNECT or an upgrade the decoder reads nothing more: neither is served here, so the connection ends.
        let leavesHTTP = head.method == .CONNECT || head.headers.contains(name: "upgrade")
        answer = AnswerEncoder.Framing(
            omitsBody: head.method == .HEAD, isHTTP10: head.version == .http1_0,
            closes: !head.isKeepAlive || leavesHTTP)
        expectsContinue =
            head.version == .http1_1
            && head.headers["expect"].contains { $0.lowercased() == "100-continue" }
    }
}

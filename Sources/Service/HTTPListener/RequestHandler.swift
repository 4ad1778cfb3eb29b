import Encodings
import Foundation
import Locks
import NIOCore
package import NIOHTTP1

/// Answers the requests of one connection, whose peer it knows. The listener has no notion of paths, roles or payments; it
/// passes on complete, bounded messages.
package protocol RequestHandler: Sendable {
    /// Called after the head, before the body. Returns the refusal, or the handler of the body. It runs on the event loop, so
    /// it must neither wait nor compute for long.
    func admit(_ head: RequestHead) -> Admission

    /// Returns the answer to a condition that the listener itself detects.
    func answer(to condition: HTTPCondition) -> HTTPAnswer
}

/// A request that the listener itself refuses, or a connection for which it has no room. Each program maps it to its own
/// code.
package struct HTTPCondition: Sendable, Equatable {
    /// The raw values are statuses of RFC 9110 §15.
    package enum Kind: Int, Sendable {
        case malformed = 400
        case timeout = 408
        case tooLarge = 413
        case tooManyConnections = 503
    }

    package let kind: Kind
    /// One sentence for a person, without any part of the request.
    package let message: String
}

/// A handler's decision on a request's head.
package enum Admission: Sendable {
    /// The answer is sent at once, with its whole body; the request's body is not awaited.
    case refuse(HTTPAnswer)
    /// The body is read, up to `bodyLimit` bytes (a larger one is ``HTTPCondition/Kind/tooLarge``), and passed to `respond`,
    /// which runs on the event loop if the socket says so (``ListeningSocket/answersOnEventLoop``). A request without a body passes an empty one.
    case accept(bodyLimit: Int, respond: @Sendable (_ body: [UInt8]) async -> HTTPAnswer)
}

/// A request without its body, decoded and bounded.
package struct RequestHead: Sendable {
    /// The method as sent, such as `GET` or `POST`; methods are case-sensitive.
    package let method: String
    /// The target's path, valid UTF-8, always starting with `/` (or the lone `*` of OPTIONS). It is percent-decoded
    /// except for `%2F` and `%25`, so that its slashes are those between segments. A segment taken from it must be
    /// decoded.
    package let path: String
    /// The query, percent-decoded; `+` means a space, and each name occurs once.
    package var query: [String: String] = [:]
    /// The media type without its parameters, in lower case: `application/json`.
    package var contentType: String?
    /// The declared length of the body in bytes; nil if chunked, 0 if there is none.
    package var contentLength: Int? = 0
    /// The request's connection; nil if the request did not arrive on one.
    package var origin: RequestOrigin?
    private let fields: HTTPHeaders

    package init(
        method: String, path: String, query: [String: String] = [:], contentType: String? = nil,
        contentLength: Int? = 0,
        fields: HTTPHeaders = HTTPHeaders()
    ) {
        self.method = method
        self.path = path
        self.query = query
        self.contentType = contentType
        self.contentLength = contentLength
        self.fields = fields
    }

    /// Returns every value of a header field, as sent. The case of its name does not matter.
    package func values(of field: String) -> [String] { fields[field] }
}

/// The connection on which a request arrived. While the request is answered, it gives turns on the event loop and shows
/// whether the peer has left.
package final class RequestOrigin: Sendable {
    private let share: @Sendable () -> TurnShare
    /// The turns of the connection's event loop; nil if requests are not answered on it.
    private let turns: LoopTurns?
    private let left = Atomic(false)

    init(share: @escaping @Sendable () -> TurnShare, turns: LoopTurns?) {
        self.share = share
        self.turns = turns
    }

    /// True once the connection is closed, so that no answer can reach the peer.
    ///
    /// False for a peer that has only closed its sending side.
    package var hasLeft: Bool { left.load(ordering: .relaxed) }

    func leave() { left.store(true, ordering: .relaxed) }

    /// Waits until it is this peer's turn to compute on its event loop, in rotation with other sources. Returns at once if
    /// the loop is free.
    ///
    /// - Parameter client: the client for which the peer works; the peer's turns rotate among these names (``FairQueue``).
    /// - Returns: the turn, which must be ended before the caller waits for anything else.
    package func turn(named client: String? = nil) async -> LoopTurn {
        guard let turns, turns.eventLoop.inEventLoop else { return LoopTurn(nil) }
        if !turns.takeNow() {
            await withCheckedContinuation { continuation in
                turns.take(of: share().named(client)) { continuation.resume() }
            }
        }
        return LoopTurn(turns)
    }
}

/// A source's turn on an event loop, until it is ended.
package final class LoopTurn: Sendable {
    private let turns: LoopTurns?
    private let hasEnded = Atomic(false)

    init(_ turns: LoopTurns?) {
        self.turns = turns
    }

    /// Ends the turn, so that the next source can have its own. A second call does nothing.
    package func end() {
        guard let turns, !hasEnded.exchange(true, ordering: .relaxed) else { return }
        if turns.eventLoop.inEventLoop { turns.end() } else { turns.eventLoop.execute { turns.end() } }
    }
}

/// An answer. The listener adds its length or framing, Date and Connection.
package struct HTTPAnswer: Sendable {
    package enum Body: Sendable {
        case bytes([UInt8])
        case stream(BodyStream)
    }

    package var status: Int
    /// Names and values come from this program, never from a request. Neither may contain CR or LF.
    package var headers: [Header]
    package var body: Body
    /// True if the connection is closed after this answer.
    package var closes: Bool

    package struct Header: Sendable, Equatable {
        package let name: String
        package let value: String

        package init(name: String, value: String) {
            self.name = name
            self.value = value
        }
    }

    package init(status: Int, headers: [Header] = [], body: [UInt8] = [], closes: Bool = false) {
        self.status = status
        self.headers = headers
        self.body = .bytes(body)
        self.closes = closes
    }

    package init(status: Int, headers: [Header] = [], stream: BodyStream) {
        self.status = status
        self.headers = headers
        body = .stream(stream)
        closes = false
    }

    /// Creates an `application/json` answer.
    package static func json(status: Int, _ body: [UInt8], headers: [Header] = [], closes: Bool = false) -> HTTPAnswer {
        HTTPAnswer(
            status: status, headers: [Header(name: "Content-Type", value: "application/json")] + headers, body: body,
            closes: closes)
    }

    /// Ends a stream that will not be sent, because the peer has left or requested only the head.
    package func abandon() {
        if case .stream(let stream) = body { stream.ended(.abandoned) }
    }
}

/// The properties of a request that determine the framing of its answer.
struct AnswerFraming: Sendable {
    /// True for HEAD: the answer has the length but no body.
    var omitsBody = false
    /// True for HTTP/1.0, which needs a header to keep the connection open.
    var isHTTP10 = false
    var closes = true
}

extension HTTPAnswer {
    /// Returns an answer's parts for NIOHTTP1's encoder. For a streamed answer, returns only the head.
    func parts(_ framing: AnswerFraming, allocator: ByteBufferAllocator) -> [HTTPServerResponsePart] {
        let head = HTTPServerResponsePart.head(head(framing))
        // An answer to HEAD has no end part, because the encoder would send it as the last chunk of the omitted body.
        guard case .bytes(let bytes) = body, !framing.omitsBody else { return [head] }
        return [head, .body(.byteBuffer(allocator.buffer(bytes: bytes))), .end(nil)]
    }

    private func head(_ framing: AnswerFraming) -> HTTPResponseHead {
        var fields = HTTPHeaders(headers.map { ($0.name, $0.value) })
        switch body {
        case .bytes(let bytes): fields.add(name: "Content-Length", value: String(bytes.count))
        case .stream(let stream):
            if let header = BodyTransfer(of: stream, isHTTP10: framing.isHTTP10).header {
                fields.add(name: header.name, value: header.value)
            }
        }
        fields.add(name: "Date", value: HTTPDate.now)
        if framing.closes {
            fields.add(name: "Connection", value: "close")
        } else if framing.isHTTP10 {
            fields.add(name: "Connection", value: "keep-alive")
        }
        return HTTPResponseHead(version: .http1_1, status: Self.status(status), headers: fields)
    }

    /// Uses the phrases of RFC 9110 §15.5.14 and §15.5.21, for which NIOHTTP1 has older ones.
    private static func status(_ code: Int) -> HTTPResponseStatus {
        switch code {
        case 413: .custom(code: 413, reasonPhrase: "Content Too Large")
        case 422: .custom(code: 422, reasonPhrase: "Unprocessable Content")
        default: HTTPResponseStatus(statusCode: code)
        }
    }
}

/// The Date header (RFC 9110 §5.6.7), formatted once a second.
enum HTTPDate {
    private static let cached = Mutex<(second: Int, text: String)>((Int.min, ""))

    static var now: String {
        let second = Int(Date().timeIntervalSince1970)
        return cached.withLock { cached in
            if cached.second != second { cached = (second, text(of: second)) }
            return cached.text
        }
    }

    /// `Sun, 06 Nov 1994 08:49:37 GMT`
    static func text(of second: Int) -> String {
        let (day, time) = max(second, 0).quotientAndRemainder(dividingBy: 86_400)
        let date = GregorianCalendar.date(daysSince1970: day)
        // 1970-01-01 was a Thursday.
        let weekday = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"][day % 7]
        let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
        let two = { (number: Int) in number < 10 ? "0\(number)" : "\(number)" }
        return "\(weekday), \(two(date.day)) \(months[date.month - 1]) \(date.year) "
            + "\(two(time / 3600)):\(two(time / 60 % 60)):\(two(time % 60)) GMT"
    }
}

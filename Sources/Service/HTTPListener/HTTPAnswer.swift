import Encodings
import Foundation
import NIOCore
import NIOHTTP1
import Synchronization

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
    /// True closes the connection after this answer.
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
    /// Returns the answer for NIOHTTP1's encoder; for a streamed one only the head.
    func parts(_ framing: AnswerFraming, allocator: ByteBufferAllocator) -> [HTTPServerResponsePart] {
        let head = HTTPServerResponsePart.head(head(framing))
        // An answer to HEAD has no end part either: the encoder would send it as the last chunk of the omitted body.
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

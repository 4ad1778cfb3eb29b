import Foundation
import NIOCore
import Synchronization

/// An answer. The listener adds its length or framing, Date and Connection.
struct HTTPAnswer: Sendable {
    enum Body: Sendable {
        case bytes([UInt8])
        case stream(BodyStream)
    }

    var status: Int
    /// Names and values come from this program, never from a request: neither may contain CR or LF.
    var headers: [Header]
    var body: Body
    /// Whether the connection ends with this answer.
    var closes: Bool

    struct Header: Sendable, Equatable {
        let name: String
        let value: String
    }

    init(status: Int, headers: [Header] = [], body: [UInt8] = [], closes: Bool = false) {
        self.status = status
        self.headers = headers
        self.body = .bytes(body)
        self.closes = closes
    }

    init(status: Int, headers: [Header] = [], stream: BodyStream) {
        self.status = status
        self.headers = headers
        body = .stream(stream)
        closes = false
    }

    /// An `application/json` answer.
    static func json(status: Int, _ body: [UInt8], headers: [Header] = [], closes: Bool = false) -> HTTPAnswer {
        HTTPAnswer(
            status: status, headers: [Header(name: "Content-Type", value: "application/json")] + headers, body: body,
            closes: closes)
    }

    /// It will not be sent: nobody is there any more, or only its head is wanted.
    func abandon() {
        if case .stream(let stream) = body { stream.ended(.abandoned) }
    }
}

/// Writes an answer as one message, so that it leaves in one write(2). Of a streamed one it writes the head.
struct AnswerEncoder: Sendable {
    /// What the request says about its answer.
    struct Framing: Sendable {
        /// HEAD: the length is told, the body left out.
        var omitsBody = false
        /// HTTP/1.0 must be told that the connection stays.
        var isHTTP10 = false
        var closes = true
    }

    static func encode(_ answer: HTTPAnswer, framing: Framing, allocator: ByteBufferAllocator) -> ByteBuffer {
        let body: [UInt8]
        let length: String?
        switch answer.body {
        case .bytes(let bytes): (body, length) = (bytes, "Content-Length: \(bytes.count)\r\n")
        case .stream(let stream):
            (body, length) = ([], BodyTransfer(of: stream, isHTTP10: framing.isHTTP10).header)
        }
        let head = head(answer, length: length, framing: framing)
        var buffer = allocator.buffer(capacity: head.utf8.count + body.count)
        buffer.writeString(head)
        if !framing.omitsBody { buffer.writeBytes(body) }
        return buffer
    }

    /// - Parameter length: the header that says where the body ends; nil where the connection's end does.
    private static func head(_ answer: HTTPAnswer, length: String?, framing: Framing) -> String {
        var head = "HTTP/1.1 \(answer.status) \(reasonPhrase(answer.status))\r\n"
        for header in answer.headers { head += "\(header.name): \(header.value)\r\n" }
        head += "\(length ?? "")Date: \(HTTPDate.now)\r\n"
        if framing.closes {
            head += "Connection: close\r\n"
        } else if framing.isHTTP10 {
            head += "Connection: keep-alive\r\n"
        }
        return head + "\r\n"
    }

    /// The statuses of the contract (RFC 9110 §15); others go without a phrase, which RFC 9112 §4 allows.
    private static func reasonPhrase(_ status: Int) -> String {
        switch status {
        case 200: "OK"
        case 202: "Accepted"
        case 400: "Bad Request"
        case 403: "Forbidden"
        case 404: "Not Found"
        case 405: "Method Not Allowed"
        case 408: "Request Timeout"
        case 409: "Conflict"
        case 413: "Content Too Large"
        case 415: "Unsupported Media Type"
        case 422: "Unprocessable Content"
        case 500: "Internal Server Error"
        case 503: "Service Unavailable"
        default: ""
        }
    }
}

/// The Date header (RFC 9110 §5.6.7), made once a second.
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
        var calendar = Calendar(identifier: .gregorian)
        calendar.timeZone = .gmt
        let parts = calendar.dateComponents(
            [.weekday, .day, .month, .year, .hour, .minute, .second],
            from: Date(timeIntervalSince1970: Double(second)))
        let days = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]
        let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
        let two = { (number: Int?) in (number ?? 0) < 10 ? "0\(number ?? 0)" : "\(number ?? 0)" }
        return "\(days[(parts.weekday ?? 1) - 1]), \(two(parts.day)) \(months[(parts.month ?? 1) - 1]) "
            + "\(parts.year ?? 1970) \(two(parts.hour)):\(two(parts.minute)):\(two(parts.second)) GMT"
    }
}

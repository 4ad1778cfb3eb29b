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

/// A whole answer. The listener adds Content-Length, Date and Connection.
struct HTTPAnswer: Sendable, Equatable {
    var status: Int
    /// Names and values come from this program, never from a request: neither may contain CR or LF.
    var headers: [Header]
    var body: [UInt8]
    /// Whether the connection ends with this answer.
    var closes: Bool

    struct Header: Sendable, Equatable {
        let name: String
        let value: String
    }

    init(status: Int, headers: [Header] = [], body: [UInt8] = [], closes: Bool = false) {
        self.status = status
        self.headers = headers
        self.body = body
        self.closes = closes
    }

    /// An `application/json` answer.
    static func json(status: Int, _ body: [UInt8], headers: [Header] = [], closes: Bool = false) -> HTTPAnswer {
        HTTPAnswer(
            status: status, headers: [Header(name: "Content-Type", value: "application/json")] + headers, body: body,
            closes: closes)
    }
}

import StrictJSON

/// An HTTP/1.1 answer (RFC 9112) as bytes, so that the simulator can send a part of it, or send it twice.
struct SimulatorAnswer: Sendable, Equatable {
    let status: Int
    let body: [UInt8]
    /// True if the connection closes after the answer.
    var closes = false
    /// True for an answer to HEAD, which has the Content-Length of the body but not the body.
    var omitsBody = false

    var bytes: [UInt8] {
        let connection = closes ? "Connection: close\r\n" : ""
        let head = """
            HTTP/1.1 \(status) \(Self.phrases[status] ?? "Unknown")\r
            Content-Type: application/json\r
            Content-Length: \(body.count)\r
            \(connection)\r

            """
        return Array(head.utf8) + (omitsBody ? [] : body)
    }

    private static let phrases = [
        200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed", 413: "Content Too Large",
        500: "Internal Server Error", 503: "Service Unavailable",
    ]

    /// Returns the answer that states a payment's status.
    /// - Parameter payment: the payment's name in the answer; nil for the name in `record`.
    static func status(of record: PaymentRecords.Record, payment: String? = nil) -> SimulatorAnswer {
        var writer = JSONWriter()
        writer.beginObject()
        writer.member("payment", payment ?? record.payment)
        writer.member("status", record.status.rawValue)
        writer.member("authorizationCode", record.authorizationCode)
        writer.member("reason", record.scenario.reason)
        writer.member("reference", record.reference)
        writer.endObject()
        return SimulatorAnswer(status: 200, body: writer.bytes)
    }

    /// Returns an answer that refuses a request with an error code.
    ///
    /// - Parameter message: an explanation. It may contain fixed text and members' names, but never the request's
    ///   content.
    static func problem(_ status: Int, _ code: String, _ message: String, closes: Bool = false) -> SimulatorAnswer {
        var writer = JSONWriter()
        writer.beginObject()
        writer.member("code", code)
        writer.member("message", message)
        writer.endObject()
        return SimulatorAnswer(status: status, body: writer.bytes, closes: closes)
    }

    static let healthy = SimulatorAnswer(status: 200, body: Array(#"{"status":"ok"}"#.utf8))
    static let methodNotAllowed = problem(
        405, "method_not_allowed", "POST /authorizations, GET /authorizations/{payment}, GET /healthz.", closes: true)
    static let notFound = problem(404, "not_found", "Nothing is known of it.")
    static let unavailable = problem(503, "unavailable", "The log cannot be written; nothing was done.")
    static let tooLarge = problem(413, "request_too_large", "A body has at most 65536 bytes.", closes: true)
    static let notHTTP = problem(
        400, "malformed_request", "This is not HTTP/1.1 as it is understood here.", closes: true)
}

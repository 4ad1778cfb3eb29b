package import NIOHTTP1

/// What answers the requests of one connection, whose peer it knows. The listener knows nothing of paths, roles or payments;
/// it hands over whole, bounded messages.
package protocol RequestHandler: Sendable {
    /// After the head, before the body: gives the refusal, or what will answer the body. Runs on the event loop, so it
    /// neither waits nor computes anything long.
    func admit(_ head: RequestHead) -> Admission

    /// The answer to what the listener itself does not have answered.
    func answer(to condition: HTTPCondition) -> HTTPAnswer
}

/// A request that the listener itself refuses, or a connection for which it has no room. Each program has its own code for
/// that.
package struct HTTPCondition: Sendable, Equatable {
    /// The raw values are statuses of RFC 9110 §15.
    package enum Kind: Int, Sendable {
        case malformed = 400
        case timeout = 408
        case tooLarge = 413
        case tooManyConnections = 503
    }

    package let kind: Kind
    /// One sentence for a person, with nothing of the request.
    package let message: String
}

/// What a handler says to a request's head.
package enum Admission: Sendable {
    /// Answered at once, with a whole body; the request's is not waited for.
    case refuse(HTTPAnswer)
    /// The body is read, up to `bodyLimit` bytes (more is ``HTTPCondition/Kind/tooLarge``), and given to `respond`, which runs off
    /// the event loop. A request without a body gives an empty one.
    case accept(bodyLimit: Int, respond: @Sendable (_ body: [UInt8]) async -> HTTPAnswer)
}

/// A request without its body, decoded and bounded.
package struct RequestHead: Sendable {
    /// As sent, upper case for the known ones: `GET`, `POST`.
    package let method: String
    /// Valid UTF-8, always starting with `/` (or the lone `*` of OPTIONS). Percent-decoded but for `%2F` and `%25`, so that its slashes
    /// are those between segments; a segment that is taken from it is to be decoded.
    package let path: String
    /// Percent-decoded; `+` is a space; each name once.
    package var query: [String: String] = [:]
    /// The media type without its parameters, in lower case: `application/json`.
    package var contentType: String?
    /// Declared length of the body in bytes; nil when chunked, 0 when there is none.
    package var contentLength: Int? = 0
    /// nil where the request came by no connection.
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

    /// Every value of a header field, as sent; its name in either case.
    package func values(of field: String) -> [String] { fields[field] }
}

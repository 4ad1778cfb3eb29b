import Foundation

/// A request without its body, decoded and bounded.
struct RequestHead: Sendable {
    /// As sent, upper case for the known ones: `GET`, `POST`.
    let method: String
    /// Percent-decoded and valid UTF-8, always starting with `/` (or the lone `*` of OPTIONS).
    let path: String
    /// Percent-decoded; `+` is a space; each name once.
    let query: [String: String]
    /// The media type without its parameters, in lower case: `application/json`.
    let contentType: String?
    /// Declared length of the body in bytes; nil when chunked, 0 when there is none.
    let contentLength: Int?
    /// When the head was complete.
    let receivedAt: Date

    init(
        method: String, path: String, query: [String: String] = [:], contentType: String? = nil,
        contentLength: Int? = 0, receivedAt: Date
    ) {
        self.method = method
        self.path = path
        self.query = query
        self.contentType = contentType
        self.contentLength = contentLength
        self.receivedAt = receivedAt
    }
}

import Refusals

/// Which of the daemon's two sockets a request came through.
enum SocketKind: String, CaseIterable, Sendable {
    case payments = "paytokend"
    case admin
}

/// What answers requests. The listener knows nothing of paths, roles or payments; it hands over whole, bounded messages.
protocol RequestHandler: Sendable {
    /// After the head, before the body: gives the refusal, or what will answer the body. Runs on the event loop, so it
    /// neither waits nor computes anything long.
    func admit(_ head: RequestHead, peer: PeerCredentials, socket: SocketKind) -> Admission

    /// The answer for what the listener itself refuses: request_timeout, request_too_large, malformed_request, overloaded.
    func answer(for refusal: Refusal, peer: PeerCredentials) -> HTTPAnswer
}

/// What a handler says to a request's head.
enum Admission: Sendable {
    /// Answered at once, with a whole body; the request's is not waited for.
    case refuse(HTTPAnswer)
    /// The body is read, up to `bodyLimit` bytes (more is request_too_large), and given to `respond`, which runs off
    /// the event loop. A request without a body gives an empty one.
    case accept(bodyLimit: Int, respond: @Sendable (_ body: [UInt8]) async -> HTTPAnswer)
}

/// A request without its body, decoded and bounded.
struct RequestHead: Sendable {
    /// As sent, upper case for the known ones: `GET`, `POST`.
    let method: String
    /// Percent-decoded and valid UTF-8, always starting with `/` (or the lone `*` of OPTIONS).
    let path: String
    /// Percent-decoded; `+` is a space; each name once.
    var query: [String: String] = [:]
    /// The media type without its parameters, in lower case: `application/json`.
    var contentType: String?
    /// Declared length of the body in bytes; nil when chunked, 0 when there is none.
    var contentLength: Int? = 0
}

package import NIOHTTP1
import Synchronization

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

/// The connection that a request came by, as the work for that request sees it.
package final class RequestOrigin: Sendable {
    private let share: @Sendable () -> TurnShare
    /// nil where requests are not answered on the connection's event loop.
    private let turns: LoopTurns?
    private let left = Atomic(false)

    init(share: @escaping @Sendable () -> TurnShare, turns: LoopTurns?) {
        self.share = share
        self.turns = turns
    }

    /// Returns true once the connection is closed: nothing can be answered any more.
    ///
    /// A peer that has only finished sending has not left.
    package var hasLeft: Bool { left.load(ordering: .relaxed) }

    func leave() { left.store(true, ordering: .relaxed) }

    /// Waits until this peer may have computation done on its event loop, in turn with other sources. Returns at once where the
    /// loop is free.
    ///
    /// - Parameter client: whom the peer works for; its turns go round these names (``FairQueue``).
    /// - Returns: the turn, which must be ended before anything else is waited for.
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

    /// Lets the next source have its turn. A second call does nothing.
    package func end() {
        guard let turns, !hasEnded.exchange(true, ordering: .relaxed) else { return }
        if turns.eventLoop.inEventLoop { turns.end() } else { turns.eventLoop.execute { turns.end() } }
    }
}

package import NIOHTTP1
import Synchronization

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
    /// which runs off the event loop. A request without a body passes an empty one.
    case accept(bodyLimit: Int, respond: @Sendable (_ body: [UInt8]) async -> HTTPAnswer)
}

/// A request without its body, decoded and bounded.
package struct RequestHead: Sendable {
    /// The method as sent; known ones in upper case: `GET`, `POST`.
    package let method: String
    /// Valid UTF-8, always starting with `/` (or the lone `*` of OPTIONS). Percent-decoded except for `%2F` and `%25`, so
    /// that its slashes are those between segments. A segment taken from it must be decoded.
    package let path: String
    /// Percent-decoded; `+` means a space; each name occurs once.
    package var query: [String: String] = [:]
    /// The media type without its parameters, in lower case: `application/json`.
    package var contentType: String?
    /// The declared length of the body in bytes; nil if chunked, 0 if there is none.
    package var contentLength: Int? = 0
    /// nil if the request did not arrive on a connection.
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

/// The connection on which a request arrived, for the work on that request.
package final class RequestOrigin: Sendable {
    private let share: @Sendable () -> TurnShare
    /// nil if requests are not answered on the connection's event loop.
    private let turns: LoopTurns?
    private let left = Atomic(false)

    init(share: @escaping @Sendable () -> TurnShare, turns: LoopTurns?) {
        self.share = share
        self.turns = turns
    }

    /// Returns true once the connection is closed and cannot be answered any more.
    ///
    /// A peer that has only finished sending has not left.
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

package import DaemonAPI
import Encodings
package import HTTPListener
package import Logging
package import Refusals

/// The part of a router that depends on the kind of socket: its peers, their rights, and the way in which requests are
/// answered.
package protocol RouterRules: Sendable {
    associatedtype Peer: Sendable
    associatedtype Sender: RequestSender
    associatedtype Access: Sendable
    associatedtype Request: Sendable
    associatedtype Refused: ServerRefusal
    typealias Row = Route<Access, Request, Refused>

    /// Returns true if the route is on the peer's socket.
    func offers(_ route: Row, to peer: Peer) -> Bool
    func sender(of head: RequestHead, from peer: Peer) -> Sender
    /// Identifies the sender, as the first check of a request. An untrusted sender does not learn which routes exist.
    ///
    /// - Parameters:
    ///   - here: the routes at the request's path.
    ///   - route: the route among them for the request's method; nil if there is none.
    func identify(
        _ sender: inout Sender, by head: RequestHead, from peer: Peer, here: [Row], route: Row?
    ) throws(Refused)
    /// Returns the end of the sentence that refuses an unknown path, such as ` on the admin socket`.
    func place(of peer: Peer) -> String
    /// Refuses a request that the sender may not make. This is the rules' last check before the body is read.
    func admit(_ sender: Sender, to route: Row, _ head: RequestHead) throws(Refused)
    /// Called after a request was refused for its head, or by the listener itself. `sender` is nil for a refusal by the
    /// listener, which does not know the sender.
    func refused(_ refusal: Refused, _ sender: Sender?, from peer: Peer)
    /// Answers a request that was read completely, and logs it.
    func respond(
        to head: RequestHead, body: [UInt8], arguments: [String], from peer: Peer, by route: Row,
        _ entry: RequestLog.Entry<Sender>,
        _ log: RequestLog
    ) async -> HTTPAnswer
}

extension RouterRules {
    package func offers(_ route: Row, to peer: Peer) -> Bool { true }
    package func refused(_ refusal: Refused, _ sender: Sender?, from peer: Peer) {}
}

/// Checks each request, and passes it to the route that answers it.
///
/// Guarantees, before a byte of the body is read and in this order: the sender is identified as far as the rules require, the
/// path exists and supports the method, the sender may use it, and the body has the route's form. Each request is logged and
/// counted once. A refusal becomes an answer in one place (``ServerRefusal/answer(as:)``).
package struct Router<Rules: RouterRules>: Sendable {
    package typealias Row = Route<Rules.Access, Rules.Request, Rules.Refused>

    package let routes: [Row]
    package let rules: Rules
    package let log: RequestLog
    /// The routes of each path without braces. These paths are matched first; only other paths are compared with the routes
    /// that have braces.
    private let atLiteralPath: [String: [Row]]
    private let withBraces: [Row]

    package init(routes: [Row], rules: Rules, log: RequestLog) {
        self.routes = routes
        self.rules = rules
        self.log = log
        atLiteralPath = Dictionary(grouping: routes.filter(\.isLiteral), by: \.path)
        withBraces = routes.filter { !$0.isLiteral }
    }

    package func admit(_ head: RequestHead, from peer: Rules.Peer) -> Admission {
        let here = (atLiteralPath[head.path] ?? withBraces.filter { $0.match(head.path) != nil })
            .filter { rules.offers($0, to: peer) }
        let route = here.first { $0.method == head.method }
        var entry = RequestLog.Entry(endpoint: route?.path ?? "other", sender: rules.sender(of: head, from: peer))
        do throws(Rules.Refused) {
            try rules.identify(&entry.sender, by: head, from: peer, here: here, route: route)
            guard !here.isEmpty else {
                throw Rules.Refused(
                    Refusal(.notFound, "There is nothing at this path\(rules.place(of: peer))."))
            }
            guard let route, let arguments = route.match(head.path) else {
                throw Rules.Refused(
                    Refusal(
                        .methodNotAllowed, "This path does not support this method.",
                        details: "it supports \(Self.methods(here))"
                    ))
            }
            try rules.admit(entry.sender, to: route, head)
            let types = route.form.mediaTypes
            if route.bodyLimit > 0, !types.contains(head.contentType ?? "") {
                throw Rules.Refused(
                    Refusal(
                        .unsupportedMediaType,
                        "The body must be \(route.form.name), with the header Content-Type: \(types.joined(separator: " or "))."
                    ))
            }
            return .accept(bodyLimit: route.bodyLimit) { [rules, log, entry] body in
                await rules.respond(
                    to: head, body: body, arguments: arguments, from: peer, by: route, entry, log)
            }
        } catch {
            log.finishBounded(entry, refusal: error)
            rules.refused(error, entry.sender, from: peer)
            var answer = error.answer(as: here.first?.form ?? .json)
            if answer.status == 405 {
                // RFC 9110 §15.5.6: a 405 lists the methods.
                answer.headers.append(HTTPAnswer.Header(name: "Allow", value: Self.methods(here)))
            }
            return .refuse(answer)
        }
    }

    /// Returns the answer to input that the listener itself refuses.
    package func answer(to condition: HTTPCondition, from peer: Rules.Peer) -> HTTPAnswer {
        let refusal = Rules.Refused(Refusal(condition))
        log.count(refusal, of: "listener")
        rules.refused(refusal, nil, from: peer)
        return refusal.answer(as: .json)
    }

    private static func methods(_ routes: [Row]) -> String {
        routes.map(\.method).sorted().joined(separator: ", ")
    }
}

/// One method on one path, with the right that a caller needs for it.
///
/// A class, because several functions receive the route of each request. Each of these calls would otherwise copy the
/// route.
package final class Route<Access: Sendable, Request: Sendable, Refused: ServerRefusal>: Sendable {
    package let method: String
    /// A path whose segments are literal, except `{…}`, which matches any one segment. It is also the label in metrics and
    /// logs, so that there is one label for each route.
    package let path: String
    private let segments: [Substring]
    /// True if the path has no `{…}`.
    let isLiteral: Bool
    /// The right that a caller needs, in the program's terms.
    package let access: Access
    package let form: DocumentForm
    /// The maximum size in bytes of the body, which must be in ``form``; 0 for a route without a body.
    package let bodyLimit: Int
    package let respond: @Sendable (Request) async throws(Refused) -> EndpointAnswer

    package init(
        _ method: String, _ path: String, access: Access, form: DocumentForm = .json, bodyLimit: Int = 0,
        respond: @escaping @Sendable (Request) async throws(Refused) -> EndpointAnswer
    ) {
        self.method = method
        self.path = path
        segments = path.split(separator: "/", omittingEmptySubsequences: false)
        isLiteral = !path.contains("{")
        self.access = access
        self.form = form
        self.bodyLimit = bodyLimit
        self.respond = respond
    }

    /// Returns the segments that matched `{…}`, decoded and in the path's order; nil if the path does not match.
    package func match(_ path: String) -> [String]? {
        if isLiteral { return path == self.path ? [] : nil }
        let found = path.split(separator: "/", omittingEmptySubsequences: false)
        guard segments.count == found.count else { return nil }
        var arguments: [String] = []
        for (wanted, segment) in zip(segments, found) {
            if wanted.hasPrefix("{") {
                guard !segment.isEmpty, let argument = PercentEncoding.decoded(segment) else { return nil }
                arguments.append(argument)
            } else if wanted != segment {
                return nil
            }
        }
        return arguments
    }
}

/// A route's answer, and its entry in the log and the metrics.
package struct EndpointAnswer: Sendable {
    package var http: HTTPAnswer
    /// The `outcome` label: `ok`, another word for a success, or a refusal's code.
    package var outcome: String
    /// Metadata for the log. It never contains any part of a body.
    package var metadata: Logger.Metadata

    package init(http: HTTPAnswer, outcome: String = "ok", metadata: Logger.Metadata = [:]) {
        self.http = http
        self.outcome = outcome
        self.metadata = metadata
    }
}

/// A refusal for the caller: paytokend's ``Refusal``, or another program's type with further codes.
package protocol ServerRefusal: Error, Sendable {
    /// The `code` member of the answer, and the `outcome` in metrics and logs. It is part of the public contract.
    var outcome: String { get }
    /// One sentence for a person.
    var message: String { get }
    var details: String? { get }
    /// True for a defect of this program, which is logged as an error.
    var isDefect: Bool { get }

    /// Creates a refusal with a code that all programs have.
    init(_ refusal: Refusal)

    /// Returns the answer for this refusal. No other code turns the program's refusals into answers.
    func answer(as form: DocumentForm) -> HTTPAnswer
}

/// The document format of a request's body and of the refusals that answer the request.
package enum DocumentForm: Sendable {
    case json
    case xml

    /// The media types of a body in this form.
    var mediaTypes: [String] {
        switch self {
        case .json: ["application/json"]
        case .xml: ["text/xml", "application/xml"]
        }
    }

    var name: String {
        switch self {
        case .json: "JSON"
        case .xml: "XML"
        }
    }
}

extension Refusal: ServerRefusal {
    package var outcome: String { code.rawValue }
    package var isDefect: Bool { code == .internalError }

    package init(_ refusal: Refusal) { self = refusal }

    /// Creates the refusal of a condition that the listener itself detects.
    package init(_ condition: HTTPCondition) {
        let code: RefusalCode =
            switch condition.kind {
            case .malformed: .malformedRequest
            case .timeout: .requestTimeout
            case .tooLarge: .requestTooLarge
            case .tooManyConnections: .overloaded
            }
        self.init(code, condition.message)
    }

    package func answer(as form: DocumentForm) -> HTTPAnswer { HTTPAnswer(refusal: self) }
}

extension HTTPAnswer {
    /// Creates the answer to a request that paytokend refuses.
    ///
    /// - Parameter audit: the refusal's audit record; nil if it was not recorded.
    package init(refusal: Refusal, audit: AuditReference? = nil) {
        let row = ErrorTable.row(for: refusal.code)
        self.init(
            refusing: RefusalAnswer(refusal, audit: audit).json, status: row.status,
            headers: [Header(name: "Content-Type", value: "application/json")],
            retryAfter: refusal.retryAfter ?? row.retryAfter)
    }

    /// Creates the answer to a refused request.
    ///
    /// - Parameter retryAfter: seconds for the Retry-After header.
    package init(refusing body: [UInt8], status: Int, headers: [Header], retryAfter: Int?) {
        let again = retryAfter.map { [Header(name: "Retry-After", value: String($0))] } ?? []
        // After 408 and 413 the rest of the request may still arrive, and would be read as the next request. The
        // connection of an unknown caller (401) is also closed.
        self.init(status: status, headers: headers + again, body: body, closes: [401, 408, 413].contains(status))
    }
}

package import HTTPListener
import Refusals

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
    /// The first check, which identifies the sender. An untrusted sender does not learn which routes exist.
    ///
    /// - Parameters:
    ///   - here: the routes of the path.
    ///   - route: the route of the method.
    func identify(
        _ sender: inout Sender, by head: RequestHead, from peer: Peer, here: [Row], route: Row?
    ) throws(Refused)
    /// The end of the sentence that says that there is nothing at a path.
    func place(of peer: Peer) -> String
    /// The last check before the body is read.
    func admit(_ sender: Sender, to route: Row, _ head: RequestHead) throws(Refused)
    /// Logs a request that was refused for its head, or by the listener, which knows only the sender's peer.
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

/// The path from a request's head to the route that answers it.
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

    /// The answer to input that the listener itself refuses.
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

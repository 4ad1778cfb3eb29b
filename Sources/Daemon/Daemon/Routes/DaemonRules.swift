import AccessControl
import DaemonAPI
import HTTPListener
import Refusals

/// From a request's head to the endpoint that answers it.
///
/// The listener gives each request to the router, the router to one row of the table (RouteTable.swift), whose method
/// in a file beside this one reads the body, has the daemon's parts do the work, and says what to answer. What is
/// guaranteed here: the peer's rule, the path, the method and the caller's role are checked in this order before a byte
/// of the body is read, and nothing past this file asks who may call what, but for the merchant: a rule's merchants are
/// checked where a payment token has said whose it is (`TokenDecryptor`, by ``Caller/allows(merchant:)``). Each request
/// is logged and counted once (RequestLog.swift), and a refusal becomes an answer in one place (Refusals.swift).
///
/// Start reading at RouteTable.swift.
struct Router: PeerRequestHandler {
    let endpoints: [Endpoint]
    /// The endpoints of each path that the table has without braces. Such a path goes before those with braces, which are searched
    /// for other paths alone.
    private let atLiteralPath: [String: [Endpoint]]
    let policies: CurrentPolicies
    let requestLog: RequestLog
    let recorder: UsageRecorder

    init(endpoints: [Endpoint], policies: CurrentPolicies, requestLog: RequestLog, recorder: UsageRecorder) {
        self.endpoints = endpoints
        atLiteralPath = Dictionary(grouping: endpoints.filter(\.isLiteral), by: \.path)
        self.policies = policies
        self.requestLog = requestLog
        self.recorder = recorder
    }

    func admit(_ head: RequestHead, peer: PeerCredentials, socket: SocketKind) -> Admission {
        let caller = policies.current.access.caller(for: peer)?
            .asking(for: ClientName(headers: head.values(of: ClientName.header)))
        let here = (atLiteralPath[head.path] ?? endpoints.filter { $0.match(head.path) != nil })
            .filter { $0.sockets.contains(socket) }
        let endpoint = here.first { $0.method == head.method }
        let entry = RequestLog.Entry(
            endpoint: endpoint?.path ?? "other", caller: caller, peer: peer, traceparent: head.values(of: "traceparent")
        )
        do throws(Refusal) {
            // An untrusted caller learns nothing of what there is.
            guard caller != nil || endpoint?.role == nil && endpoint != nil else {
                throw Refusal(
                    .forbidden, "No access rule matches this peer.",
                    details: "uid \(peer.uid), gid \(peer.gid); the configuration's section access says who is served")
            }
            guard !here.isEmpty else {
                throw Refusal(.notFound, "There is nothing at this path on the \(socket.rawValue) socket.")
            }
            guard let endpoint, let arguments = endpoint.match(head.path) else {
                throw Refusal(
                    .methodNotAllowed, "This path does not know this method.",
                    details: "it knows \(Self.methods(here))")
            }
            if let role = endpoint.role, caller?.has(role) != true {
                throw Refusal(
                    .forbidden, "The access rule that matches this peer does not give it what the request needs.",
                    details: "the role \(role.rawValue)")
            }
            if endpoint.bodyLimit > 0, head.contentType != "application/json" {
                throw Refusal(
                    .unsupportedMediaType, "The body must be JSON, with the header Content-Type: application/json.")
            }
            return .accept(bodyLimit: endpoint.bodyLimit) { body in
                await respond(
                    to: EndpointRequest(
                        caller: caller, peer: peer, pathArguments: arguments, query: head.query,
                        body: body, draft: AuditDraft(trace: entry.trace), origin: head.origin),
                    endpoint: endpoint, entry: entry)
            }
        } catch {
            requestLog.finishBounded(entry, refusal: error)
            recorder.tally.count(error.code, of: peer, as: caller)
            var answer = HTTPAnswer(refusal: error)
            if error.code == .methodNotAllowed {
                // RFC 9110 §15.5.6: a 405 names the methods.
                answer.headers.append(HTTPAnswer.Header(name: "Allow", value: Self.methods(here)))
            }
            return .refuse(answer)
        }
    }

    func unnamedAccounts(of peer: PeerCredentials) -> UnnamedAccounts? {
        policies.current.access.unnamedAccounts(of: peer)
    }

    func answer(for refusal: Refusal, peer: PeerCredentials) -> HTTPAnswer {
        requestLog.count(refusal, of: "listener")
        recorder.tally.count(refusal.code, of: peer, as: policies.current.access.caller(for: peer))
        return HTTPAnswer(refusal: refusal)
    }

    private func respond(to request: EndpointRequest, endpoint: Endpoint, entry: RequestLog.Entry) async -> HTTPAnswer {
        do throws(Refusal) {
            try endpoint.checkQuery(request.query)
            return logging(try await endpoint.respond(request), role: endpoint.role, entry: entry)
        } catch {
            guard let caller = request.caller, endpoint.role != nil,
                !recorder.counts(error.code, of: request.draft, by: caller)
            else {
                requestLog.finishBounded(entry, refusal: error)
                return HTTPAnswer(refusal: error)
            }
            requestLog.finish(entry, refusal: error)
            return HTTPAnswer(refusal: error, audit: await recorder.refused(request.draft, by: caller, error.code))
        }
    }

    private static func methods(_ endpoints: [Endpoint]) -> String {
        endpoints.map(\.method).sorted().joined(separator: ", ")
    }

    /// Logs and counts the answer: a streamed one when its stream has ended. An endless stream also asks before each
    /// piece whether its reader still has the role, so one that has lost it reads no further.
    private func logging(_ answer: EndpointAnswer, role: Role?, entry: RequestLog.Entry) -> HTTPAnswer {
        guard case .stream(var stream) = answer.http.body else {
            requestLog.finish(entry, answer: answer)
            return answer.http
        }
        var begun = entry
        begun.took = entry.started.duration(to: .now)
        let ended = stream.ended
        stream.ended = { [requestLog, begun] end in
            ended(end)
            requestLog.finish(begun, answer: answer, streamed: end)
        }
        if stream.isEndless, let role {
            let produce = stream.produce
            stream.produce = { [policies] writer in
                try await produce(
                    writer.permitted { policies.current.access.caller(for: entry.peer)?.has(role) == true })
            }
        }
        var http = answer.http
        http.body = .stream(stream)
        return http
    }
}

import DaemonAPI
import Foundation
import Logging
import Refusals

/// From a request's head to the endpoint that answers it. Peer, path, method and role are judged here, in this order,
/// before a byte of the body is read; nothing past this file asks who may call what.
struct Router: RequestHandler {
    let endpoints: [Endpoint]
    let policies: CurrentPolicies
    let journal: RequestJournal
    let recorder: UsageRecorder

    func admit(_ head: RequestHead, peer: PeerCredentials, socket: SocketKind) -> Admission {
        let caller = policies.current.access.caller(for: peer)
        let segments = head.path.split(separator: "/", omittingEmptySubsequences: false)
        let here = endpoints.filter { $0.sockets.contains(socket) && $0.match(segments) != nil }
        let endpoint = here.first { $0.method == head.method }
        let line = RequestLine(endpoint: endpoint?.path ?? "other", caller: caller, peer: peer, at: head.receivedAt)
        do throws(Refusal) {
            // A stranger learns nothing of what there is.
            guard caller != nil || endpoint?.role == nil && endpoint != nil else {
                throw Refusal(
                    .forbidden, "No access rule matches this peer.",
                    details: "uid \(peer.uid), gid \(peer.gid); the configuration's section access says who is served")
            }
            guard !here.isEmpty else {
                throw Refusal(.notFound, "There is nothing at this path on the \(socket.rawValue) socket.")
            }
            guard let endpoint, let arguments = endpoint.match(segments) else {
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
                        caller: caller, peer: peer, socket: socket, pathArguments: arguments, query: head.query,
                        body: body, draft: AuditDraft()),
                    endpoint: endpoint, line: line)
            }
        } catch {
            journal.finish(line, refusal: error)
            recorder.tally.count(error.code, of: peer, name: caller?.name)
            var answer = Self.answer(error)
            if error.code == .methodNotAllowed {
                // RFC 9110 §15.5.6: a 405 names the methods.
                answer.headers.append(HTTPAnswer.Header(name: "Allow", value: Self.methods(here)))
            }
            return .refuse(answer)
        }
    }

    func answer(for refusal: Refusal, peer: PeerCredentials, socket: SocketKind) -> HTTPAnswer {
        journal.count(refusal, of: "listener")
        recorder.tally.count(refusal.code, of: peer, name: policies.current.access.caller(for: peer)?.name)
        return Self.answer(refusal)
    }

    private func respond(to request: EndpointRequest, endpoint: Endpoint, line: RequestLine) async -> HTTPAnswer {
        do throws(Refusal) {
            try endpoint.checkQuery(request.query)
            return followed(try await endpoint.respond(request), role: endpoint.role, line: line)
        } catch {
            journal.finish(line, refusal: error)
            guard let caller = request.caller, endpoint.role != nil else { return Self.answer(error) }
            return Self.answer(error, audit: await recorder.refused(request.draft, by: caller, error.code))
        }
    }

    /// The one place where a refusal becomes an answer.
    static func answer(_ refusal: Refusal, audit: AuditReference? = nil) -> HTTPAnswer {
        let row = ErrorTable.row(for: refusal.code)
        return .json(
            status: row.status, RefusalAnswer(refusal, audit: audit).json,
            headers: (refusal.retryAfter ?? row.retryAfter).map {
                [HTTPAnswer.Header(name: "Retry-After", value: String($0))]
            } ?? [],
            closes: refusal.code == .requestTimeout || refusal.code == .requestTooLarge)
    }

    private static func methods(_ endpoints: [Endpoint]) -> String {
        endpoints.map(\.method).sorted().joined(separator: ", ")
    }
}

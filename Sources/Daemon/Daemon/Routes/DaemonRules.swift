import AccessControl
import DaemonAPI
import DaemonConfiguration
import HTTPListener
import Logging
import Refusals
import ServerProgram
import Telemetry
import UsageRecording

/// The daemon's rules for the router (`ServerProgram/Router.swift`), to which the listener passes each request.
///
/// The router finds the request's row in the table (RouteTable.swift). The method in that row, in a file of this folder,
/// parses the body, calls the daemon's parts and returns the answer. All permissions are checked in this file, except one:
/// `TokenDecryptor` checks the rule's merchants, since only the payment token names the merchant
/// (``Caller/allows(merchant:)``).
///
/// Start reading at RouteTable.swift.
struct DaemonRules: RouterRules {
    let policies: CurrentPolicies
    let recorder: UsageRecorder

    func offers(_ endpoint: Endpoint, to peer: DaemonPeer) -> Bool { endpoint.access.sockets.contains(peer.socket) }

    func sender(of head: RequestHead, from peer: DaemonPeer) -> EndpointSender {
        EndpointSender(
            peer: peer.credentials,
            caller: policies.current.access.caller(for: peer.credentials)?
                .asking(for: ClientName(headers: head.values(of: ClientName.header))),
            trace: CallersTrace(traceparent: head.values(of: "traceparent")))
    }

    func identify(
        _ sender: inout EndpointSender, by head: RequestHead, from peer: DaemonPeer, here: [Endpoint],
        route endpoint: Endpoint?
    ) throws(Refusal) {
        guard sender.caller != nil || endpoint.map({ $0.access.role == nil }) == true else {
            throw Refusal(
                .forbidden, "No access rule matches this peer.",
                details: "uid \(sender.peer.uid), gid \(sender.peer.gid); "
                    + "the configuration's section access lists the callers")
        }
    }

    func place(of peer: DaemonPeer) -> String { " on the \(peer.socket.rawValue) socket" }

    func admit(_ sender: EndpointSender, to endpoint: Endpoint, _ head: RequestHead) throws(Refusal) {
        if let role = endpoint.access.role, sender.caller?.has(role) != true {
            throw Refusal(
                .forbidden, "The access rule that matches this peer does not give it the role that the request needs.",
                details: "the role \(role.rawValue)")
        }
    }

    func refused(_ refusal: Refusal, _ sender: EndpointSender?, from peer: DaemonPeer) {
        let caller = sender.map(\.caller) ?? policies.current.access.caller(for: peer.credentials)
        recorder.tally.count(refusal.code, of: peer.credentials, as: caller)
    }

    func respond(
        to head: RequestHead, body: [UInt8], arguments: [String], from peer: DaemonPeer, by endpoint: Endpoint,
        _ entry: RequestLog.Entry<EndpointSender>, _ log: RequestLog
    ) async -> HTTPAnswer {
        let request = EndpointRequest(
            caller: entry.sender.caller, peer: peer.credentials, pathArguments: arguments, query: head.query,
            body: body, draft: AuditDraft(trace: entry.sender.trace), origin: head.origin)
        do throws(Refusal) {
            try endpoint.access.checkQuery(request.query)
            return logging(try await endpoint.respond(request), role: endpoint.access.role, entry, log)
        } catch {
            guard let caller = request.caller, endpoint.access.role != nil,
                !recorder.counts(error.code, of: request.draft, by: caller)
            else {
                log.finishBounded(entry, refusal: error)
                return HTTPAnswer(refusal: error)
            }
            log.finish(entry, refusal: error)
            return HTTPAnswer(refusal: error, audit: await recorder.refused(request.draft, by: caller, error.code))
        }
    }

    /// Logs and counts the answer. A streamed answer is logged and counted when its stream has ended. Before each piece
    /// of an endless stream, the reader's role is checked again. A reader that has lost the role receives nothing more.
    private func logging(
        _ answer: EndpointAnswer, role: Role?, _ entry: RequestLog.Entry<EndpointSender>, _ log: RequestLog
    ) -> HTTPAnswer {
        guard case .stream(var stream) = answer.http.body else {
            // Health checks, scrapes and the outbound program's questions arrive every few seconds, so they are logged
            // as routine.
            log.finish(
                entry, answer: answer,
                isRoutine: !entry.endpoint.hasPrefix("/v1/") || entry.endpoint == PortalRoutes.workPath)
            return answer.http
        }
        var begun = entry
        begun.took = entry.elapsed
        let ended = stream.ended
        stream.ended = { [begun] end in
            ended(end)
            log.finish(begun, answer: answer, streamed: end)
        }
        if stream.isEndless, let role {
            let produce = stream.produce
            stream.produce = { [policies] writer in
                try await produce(
                    writer.permitted { policies.current.access.caller(for: entry.sender.peer)?.has(role) == true })
            }
        }
        var http = answer.http
        http.body = .stream(stream)
        return http
    }
}

typealias DaemonRouter = Router<DaemonRules>

extension Router: PeerRequestHandler where Rules == DaemonRules {
    func unnamedAccounts(of peer: PeerCredentials) -> UnnamedAccounts? {
        rules.policies.current.access.unnamedAccounts(of: peer)
    }
}

/// The sender of a request, as the request log describes it.
struct EndpointSender: RequestSender {
    let peer: PeerCredentials
    let caller: Caller?
    /// The trace that the caller's `traceparent` header names (W3C Trace Context §3.2); nil without a valid header.
    let trace: CallersTrace?

    var sharedLines: ConnectionSource? { .user(peer.uid) }

    func describe(in metadata: inout Logger.Metadata, took: Duration) {
        metadata["peer.uid"] = .string(String(peer.uid))
        metadata["peer.pid"] = .string(String(peer.pid))
        if let trace {
            metadata["trace.id"] = .string(trace.traceIdentifier)
            metadata["parent.id"] = .string(trace.parentIdentifier)
        }
        if let caller { metadata["caller"] = .string(caller.name) }
    }
}

extension RequestLog {
    /// Logs a streamed answer after its stream has ended, with an outcome that depends on how it ended.
    fileprivate func finish(_ entry: Entry<EndpointSender>, answer: EndpointAnswer, streamed end: BodyStream.End) {
        var answer = answer
        switch end {
        case .whole: break
        case .abandoned, .broken(BodyWriter.Failure.connectionEnded), .broken(is CancellationError):
            answer.outcome = "interrupted"
        case .broken(let refusal as Refusal): return finish(entry, refusal: refusal)
        case .broken(BodyWriter.Failure.revoked):
            answer.outcome = RefusalCode.forbidden.rawValue
        case .broken: return finish(entry, refusal: Refusal.defect)
        }
        finish(entry, answer: answer)
    }
}

extension Refusal {
    /// The refusal for a request whose peer has closed the connection. The HSM has not received the request, and the
    /// daemon may not even have begun to process it.
    static let peerHasLeft = Refusal(
        .deadlineExceeded, "The caller closed its connection before the HSM was asked; nothing was released.")
}

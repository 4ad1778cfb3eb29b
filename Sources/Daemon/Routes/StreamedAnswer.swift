import Refusals

extension Router {
    /// A streamed answer is logged and counted when it has ended, and one without an end has its reader checked again as it
    /// goes on: one that has lost the role since reads no further.
    func followed(_ answer: EndpointAnswer, role: Role?, entry: RequestLog.Entry) -> HTTPAnswer {
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

extension RequestLog {
    fileprivate func finish(_ entry: RequestLog.Entry, answer: EndpointAnswer, streamed end: BodyStream.End) {
        var answer = answer
        switch end {
        case .whole: break
        case .abandoned, .broken(BodyWriter.Failure.connectionEnded), .broken(is CancellationError):
            answer.outcome = "interrupted"
        case .broken(let refusal as Refusal): return finish(entry, refusal: refusal)
        case .broken(BodyWriter.Failure.revoked):
            answer.outcome = RefusalCode.forbidden.rawValue
        case .broken: return finish(entry, refusal: .defect)
        }
        finish(entry, answer: answer)
    }
}

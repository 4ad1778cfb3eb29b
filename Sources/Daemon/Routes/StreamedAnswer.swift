import Refusals

extension Router {
    /// A streamed answer is logged and counted when it has ended, and one without an end is judged again as it goes
    /// on: who has lost the role since reads no further.
    func followed(_ answer: EndpointAnswer, role: Role?, line: RequestLine) -> HTTPAnswer {
        guard case .stream(var stream) = answer.http.body else {
            journal.finish(line, answer: answer)
            return answer.http
        }
        var begun = line
        begun.took = line.started.duration(to: .now)
        let ended = stream.ended
        stream.ended = { [journal, begun] end in
            ended(end)
            journal.finish(begun, answer: answer, streamed: end)
        }
        if stream.isEndless, let role {
            let produce = stream.produce
            stream.produce = { [policies] writer in
                try await produce(
                    writer.permitted { policies.current.access.caller(for: line.peer)?.has(role) == true })
            }
        }
        var http = answer.http
        http.body = .stream(stream)
        return http
    }
}

extension RequestJournal {
    fileprivate func finish(_ line: RequestLine, answer: EndpointAnswer, streamed end: BodyStream.End) {
        var answer = answer
        switch end {
        case .whole: break
        case .abandoned, .broken(BodyWriter.Failure.connectionEnded), .broken(is CancellationError):
            answer.outcome = "interrupted"
        case .broken(let refusal as Refusal): return finish(line, refusal: refusal)
        case .broken(BodyWriter.Failure.revoked):
            answer.outcome = RefusalCode.forbidden.rawValue
        case .broken: return finish(line, refusal: .defect)
        }
        finish(line, answer: answer)
    }
}

import AccessControl
import HTTPListener
import Logging
import Refusals
import Telemetry

/// One log line and one count for each request: fixed words, identifiers and times, nothing of a body.
struct RequestLog: Sendable {
    let instruments: Instruments
    let logger: Logger
    private let boundedLines = BoundedLines<CheapRefusal>()

    /// The refusals that share a log line.
    private struct CheapRefusal: Hashable {
        let uid: UInt32
        let code: RefusalCode
    }

    init(instruments: Instruments, logger: Logger) {
        self.instruments = instruments
        self.logger = logger
    }

    /// What is known of a request before it is answered.
    struct Entry: Sendable {
        let endpoint: String
        let caller: Caller?
        let peer: PeerCredentials
        /// What the caller's header says.
        let trace: CallersTrace?
        let started = ContinuousClock.now
        /// Set where what follows is not the daemon's own time: a streamed answer takes as long as its reader.
        var took: Duration?

        /// - Parameter traceparent: values of the header of that name (W3C Trace Context §3.2).
        init(endpoint: String, caller: Caller?, peer: PeerCredentials, traceparent: [String] = []) {
            trace = traceparent.isEmpty ? nil : CallersTrace(traceparent: traceparent)
            self.endpoint = endpoint
            self.caller = caller
            self.peer = peer
        }
    }

    func finish(_ entry: Entry, answer: EndpointAnswer) {
        count(outcome: answer.outcome, of: entry)
        // Health checks and scrapes come every few seconds and say nothing new.
        let level: Logger.Level = entry.endpoint.hasPrefix("/v1/") ? .info : .debug
        guard level >= logger.logLevel else { return }
        var metadata = metadata(entry, outcome: answer.outcome)
        for (name, value) in answer.metadata { metadata[name] = value }
        logger.log(level: level, "answered", metadata: metadata)
    }

    /// For a request that is refused for its head, or recorded in summary: this costs its sender next to nothing, so a uid has one line
    /// for each code in ten seconds. The next one says how many were left out.
    func finishBounded(_ entry: Entry, refusal: Refusal) {
        guard let line = boundedLines.next(from: CheapRefusal(uid: entry.peer.uid, code: refusal.code)) else {
            return count(outcome: refusal.code.rawValue, of: entry)
        }
        finish(entry, refusal: refusal, line: line)
    }

    func finish(_ entry: Entry, refusal: Refusal) { finish(entry, refusal: refusal, line: .own(leftOut: 0)) }

    private func finish(_ entry: Entry, refusal: Refusal, line: BoundedLines<CheapRefusal>.Line) {
        count(outcome: refusal.code.rawValue, of: entry)
        var metadata = metadata(entry, outcome: refusal.code.rawValue)
        metadata.add(line)
        metadata["refusal.message"] = "\(refusal.message)"
        if let details = refusal.details { metadata["refusal.details"] = "\(details)" }
        logger.log(level: refusal.code == .internalError ? .error : .info, "refused", metadata: metadata)
    }

    /// For a streamed answer, when its stream has ended.
    func finish(_ entry: Entry, answer: EndpointAnswer, streamed end: BodyStream.End) {
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

    /// For what never became a request with a peer and a path.
    func count(_ refusal: Refusal, of endpoint: String) {
        instruments.requests.increment([endpoint, refusal.code.rawValue])
    }

    private func count(outcome: String, of entry: Entry) {
        instruments.requests.increment([entry.endpoint, outcome])
        instruments.requestSeconds.observe(entry.took ?? entry.started.duration(to: .now))
    }

    private func metadata(_ entry: Entry, outcome: String) -> Logger.Metadata {
        // Strings as they are: an interpolation would copy each.
        var metadata = Logger.Metadata(minimumCapacity: 10)
        metadata["request.endpoint"] = .string(entry.endpoint)
        metadata["request.outcome"] = .string(outcome)
        metadata["peer.uid"] = .string(String(entry.peer.uid))
        metadata["peer.pid"] = .string(String(entry.peer.pid))
        if let trace = entry.trace {
            metadata["trace.id"] = .string(trace.traceIdentifier)
            metadata["parent.id"] = .string(trace.parentIdentifier)
        }
        if let caller = entry.caller { metadata["caller"] = .string(caller.name) }
        return metadata
    }
}

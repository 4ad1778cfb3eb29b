import Foundation
import Logging
import Refusals

/// What is known of a request before it is answered.
struct RequestLine: Sendable {
    let endpoint: String
    let caller: Caller?
    let peer: PeerCredentials
    let at: Date
    let started = ContinuousClock.now
    /// Set where what follows is not the daemon's own time: a streamed answer takes as long as its reader.
    var took: Duration?

    init(endpoint: String, caller: Caller?, peer: PeerCredentials, at: Date) {
        self.endpoint = endpoint
        self.caller = caller
        self.peer = peer
        self.at = at
    }
}

/// One log line and one count for each request: fixed words, identifiers and times, nothing of a body.
struct RequestJournal: Sendable {
    let instruments: Instruments
    let logger: Logger

    func finish(_ line: RequestLine, answer: EndpointAnswer) {
        count(outcome: answer.outcome, of: line)
        // Health checks and scrapes come every few seconds and say nothing new.
        let level: Logger.Level = line.endpoint.hasPrefix("/v1/") ? .info : .debug
        logger.log(
            level: level, "answered",
            metadata: metadata(line, outcome: answer.outcome).merging(answer.metadata) { first, _ in first })
    }

    func finish(_ line: RequestLine, refusal: Refusal) {
        count(outcome: refusal.code.rawValue, of: line)
        var metadata = metadata(line, outcome: refusal.code.rawValue)
        metadata["refusal.message"] = "\(refusal.message)"
        if let details = refusal.details { metadata["refusal.details"] = "\(details)" }
        logger.log(level: refusal.code == .internalError ? .error : .info, "refused", metadata: metadata)
    }

    /// For what never became a request with a peer and a path.
    func count(_ refusal: Refusal, of endpoint: String) {
        instruments.requests.increment(endpoint, refusal.code.rawValue)
    }

    private func count(outcome: String, of line: RequestLine) {
        instruments.requests.increment(line.endpoint, outcome)
        instruments.requestSeconds.observe(line.took ?? line.started.duration(to: .now))
    }

    private func metadata(_ line: RequestLine, outcome: String) -> Logger.Metadata {
        var metadata: Logger.Metadata = [
            "request.endpoint": "\(line.endpoint)", "request.outcome": "\(outcome)", "peer.uid": "\(line.peer.uid)",
            "peer.pid": "\(line.peer.pid)",
        ]
        if let caller = line.caller { metadata["caller"] = "\(caller.name)" }
        return metadata
    }
}

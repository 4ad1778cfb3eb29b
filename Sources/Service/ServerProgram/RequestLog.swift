package import HTTPListener
package import Logging
package import Telemetry

/// The sender of a request, as far as it is known.
package protocol RequestSender: Sendable {
    /// The source whose refused requests share log lines. One line covers all requests from this source that are
    /// refused for their heads with the same code. Nil if each refused request has its own line.
    var sharedLines: ConnectionSource? { get }
    /// Adds identifiers and times for the log. From the request itself it adds only the trace in the headers, and no
    /// part of a body or a query.
    ///
    /// - Parameter took: the time from the request's head to its answer.
    func describe(in metadata: inout Logger.Metadata, took: Duration)
}

/// Counts every request, and logs each on its own line, except for refusals that share a line.
package struct RequestLog: Sendable {
    /// The facts about a request that are known before it is answered.
    package struct Entry<Sender: RequestSender>: Sendable {
        package let endpoint: String
        package var sender: Sender
        let started = ContinuousClock.now
        /// The time that the program itself took. It is set for a streamed answer, whose total time depends on how fast
        /// the client reads.
        package var took: Duration?

        package init(endpoint: String, sender: Sender) {
            self.endpoint = endpoint
            self.sender = sender
        }

        package var elapsed: Duration { took ?? started.duration(to: .now) }
    }

    /// The source and the code of the refusals that share a log line.
    private struct CheapRefusal: Hashable {
        let source: ConnectionSource
        let code: String
    }

    private let requests: Counter<2>
    private let seconds: Histogram<0>
    private let logger: Logger
    private let boundedLines = BoundedLines<CheapRefusal>()

    package init(requests: Counter<2>, seconds: Histogram<0>, logger: Logger) {
        self.requests = requests
        self.seconds = seconds
        self.logger = logger
    }

    /// Counts an answered request, and logs it.
    ///
    /// - Parameter isRoutine: true for health checks and scrapes, which come every few seconds and are logged at debug
    ///   level.
    package func finish(_ entry: Entry<some RequestSender>, answer: EndpointAnswer, isRoutine: Bool = false) {
        let took = count(entry, answer.outcome)
        let level: Logger.Level = isRoutine ? .debug : .info
        guard level >= logger.logLevel else { return }
        var metadata = metadata(entry, answer.outcome, took)
        for (name, value) in answer.metadata { metadata[name] = value }
        logger.log(level: level, "answered", metadata: metadata)
    }

    /// Logs a request that is refused for its head, or one whose audit records are combined. Such requests cost their sender
    /// almost nothing, so each source gets one line per code in ten seconds. The next line gives the number of lines omitted.
    package func finishBounded(_ entry: Entry<some RequestSender>, refusal: some ServerRefusal) {
        guard let source = entry.sender.sharedLines else { return finish(entry, refusal: refusal) }
        guard let line = boundedLines.next(from: CheapRefusal(source: source, code: refusal.outcome)) else {
            _ = count(entry, refusal.outcome)
            return
        }
        finish(entry, refusal: refusal) { $0.add(line) }
    }

    package func finish(
        _ entry: Entry<some RequestSender>, refusal: some ServerRefusal,
        adding: (inout Logger.Metadata) -> Void = { _ in }
    ) {
        let took = count(entry, refusal.outcome)
        var metadata = metadata(entry, refusal.outcome, took)
        adding(&metadata)
        metadata["refusal.message"] = "\(refusal.message)"
        if let details = refusal.details { metadata["refusal.details"] = "\(details)" }
        logger.log(level: refusal.isDefect ? .error : .info, "refused", metadata: metadata)
    }

    /// Counts a refusal of input that never became a request with a path.
    package func count(_ refusal: some ServerRefusal, of endpoint: String) {
        requests.increment([endpoint, refusal.outcome])
    }

    private func count(_ entry: Entry<some RequestSender>, _ outcome: String) -> Duration {
        let took = entry.elapsed
        requests.increment([entry.endpoint, outcome])
        seconds.observe(took)
        return took
    }

    private func metadata(
        _ entry: Entry<some RequestSender>, _ outcome: String, _ took: Duration
    ) -> Logger.Metadata {
        // The strings are stored directly: an interpolation would copy each.
        var metadata = Logger.Metadata(minimumCapacity: 10)
        metadata["request.endpoint"] = .string(entry.endpoint)
        metadata["request.outcome"] = .string(outcome)
        entry.sender.describe(in: &metadata, took: took)
        return metadata
    }
}

import AccessControl
import HTTPListener
import Logging
import Telemetry

/// One log line and one count for each request: fixed words, identifiers and times, nothing of a body, a query or a header but
/// the trace. What unknown senders are refused, and peers of the admin socket for their request's head, is logged once in a while for
/// each address or account and code (``BoundedLines``).
struct GatewayRequestLog: Sendable {
    let instruments: GatewayInstruments
    let logger: Logger
    /// By what connections are counted by, so that a host with a network of addresses is one.
    private let headLines = BoundedLines<RefusedHead>()
    let handshakeLines = BoundedLines<ConnectionSource>()

    /// The refusals that share a log line.
    private struct RefusedHead: Hashable {
        let source: ConnectionSource
        let code: GatewayCode
    }

    init(instruments: GatewayInstruments, logger: Logger) {
        self.instruments = instruments
        self.logger = logger
    }

    /// What is known of a request before it is answered.
    struct Entry: Sendable {
        let endpoint: String
        /// The peer's IP address, or `unix`.
        let address: String
        /// By what the connection is counted until its client is known.
        let source: ConnectionSource
        let trace: TraceContext
        /// Of the admin socket.
        let peer: PeerCredentials?
        /// The client's name, once it is known.
        var client: String?
        let started = ContinuousClock.now

        init(
            endpoint: String, address: String, source: ConnectionSource, trace: TraceContext, client: String? = nil,
            peer: PeerCredentials? = nil
        ) {
            self.endpoint = endpoint
            self.address = address
            self.source = source
            self.trace = trace
            self.client = client
            self.peer = peer
        }
    }

    /// - Parameter isRoutine: health checks and scrapes, which come every few seconds and say nothing new.
    func finish(_ entry: Entry, answer: GatewayAnswer, isRoutine: Bool = false) {
        let took = finish(entry, outcome: answer.outcome)
        var metadata = metadata(entry, outcome: answer.outcome, took: took)
        for (name, value) in answer.metadata { metadata[name] = value }
        logger.log(level: isRoutine ? .debug : .info, "answered", metadata: metadata)
    }

    /// For a request that is refused for its head. This costs a peer of the admin socket, or an unknown sender, nothing; clients have
    /// their rate.
    func finishHead(_ entry: Entry, refusal: GatewayRefusal) {
        guard entry.peer != nil || refusal.code == .unauthorized else { return finish(entry, refusal: refusal) }
        let line = headLines.next(from: RefusedHead(source: entry.source, code: refusal.code))
        let took = finish(entry, outcome: refusal.code.rawValue)
        if let line { log(entry, refusal, took) { $0.add(line) } }
    }

    func finish(_ entry: Entry, refusal: GatewayRefusal) {
        log(entry, refusal, finish(entry, outcome: refusal.code.rawValue))
    }

    private func log(
        _ entry: Entry, _ refusal: GatewayRefusal, _ took: Duration, adding: (inout Logger.Metadata) -> Void = { _ in }
    ) {
        var metadata = metadata(entry, outcome: refusal.code.rawValue, took: took)
        adding(&metadata)
        metadata["refusal.message"] = "\(refusal.message)"
        if let details = refusal.details { metadata["refusal.details"] = "\(details)" }
        logger.log(
            level: refusal.code == .daemon(.internalError) ? .error : .info, "refused", metadata: metadata)
    }

    /// Logs a TLS handshake that failed, with BoringSSL's names of its errors.
    func failedHandshake(of peer: NetworkPeer, error: any Error) {
        guard let line = handshakeLines.next(from: peer.source) else { return }
        var metadata: Logger.Metadata = [
            "peer.address": "\(peer.address)", "refusal.details": "\(Self.reason(error))",
        ]
        metadata.add(line)
        logger.info("TLS handshake failed", metadata: metadata)
    }

    /// The names in `error:100000b8:SSL routines:OPENSSL_internal:NO_SHARED_CIPHER at FILE`; another error as it describes itself.
    private static func reason(_ error: any Error) -> String {
        let text = String(describing: error)
        let names = text.split(separator: "OPENSSL_internal:", omittingEmptySubsequences: false).dropFirst()
            .map { $0.prefix { $0 == "_" || $0.isLetter || $0.isNumber } }
        return names.isEmpty ? String(text.prefix(200)) : names.joined(separator: ", ")
    }

    /// For what never became a request with a path.
    func count(_ outcome: String, of endpoint: String) {
        instruments.requests.increment([endpoint, outcome])
    }

    private func finish(_ entry: Entry, outcome: String) -> Duration {
        let took = entry.started.duration(to: .now)
        instruments.requests.increment([entry.endpoint, outcome])
        instruments.requestSeconds.observe(took)
        return took
    }

    private func metadata(_ entry: Entry, outcome: String, took: Duration) -> Logger.Metadata {
        var metadata = Logger.Metadata(minimumCapacity: 10)
        metadata["request.endpoint"] = .string(entry.endpoint)
        metadata["request.outcome"] = .string(outcome)
        metadata["request.milliseconds"] = .string(String(Int((took.inSeconds * 1000).rounded())))
        metadata["peer.address"] = .string(entry.address)
        metadata["trace.id"] = .string(entry.trace.traceIdentifier)
        metadata["span.id"] = .string(entry.trace.spanIdentifier)
        if let parent = entry.trace.parentIdentifier { metadata["parent.id"] = .string(parent) }
        if let peer = entry.peer {
            metadata["peer.uid"] = .string(String(peer.uid))
            if let login = peer.loginUID.number { metadata["peer.login_uid"] = .string(String(login)) }
        }
        if let client = entry.client { metadata["client"] = .string(client) }
        return metadata
    }
}

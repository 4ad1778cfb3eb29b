import AccessControl
import HTTPListener
import Logging
import ServerProgram
import Telemetry

/// The sender of a request: a merchant's backend, or a peer of the admin socket.
struct GatewaySender: RequestSender {
    /// The peer's IP address, `unix` or `admin`.
    let address: String
    /// The source for which the connection is counted until its client is known: an account, an IPv4 address or an IPv6
    /// network of 64 bits.
    let source: ConnectionSource
    let trace: TraceContext
    /// The account of a peer of the admin socket; nil for a merchant's backend. ``rule`` is the rule that matches the
    /// account.
    var peer: PeerCredentials?
    var rule: AdminAccess.Rule?
    /// The client, once it is known.
    var client: GatewayClient?

    /// The source whose refused requests share log lines; nil for a known client. Unknown senders and peers of the
    /// admin socket can send refused requests at no cost, and could flood the log. Known clients are limited by their
    /// rate.
    var sharedLines: ConnectionSource? { client == nil ? source : nil }

    func describe(in metadata: inout Logger.Metadata, took: Duration) {
        metadata["request.milliseconds"] = .string(String(Int((took.inSeconds * 1000).rounded())))
        metadata["peer.address"] = .string(address)
        metadata["trace.id"] = .string(trace.traceIdentifier)
        metadata["span.id"] = .string(trace.spanIdentifier)
        if let parent = trace.parentIdentifier { metadata["parent.id"] = .string(parent) }
        if let peer {
            metadata["peer.uid"] = .string(String(peer.uid))
            if let login = peer.loginUID.number { metadata["peer.login_uid"] = .string(String(login)) }
        }
        if let client { metadata["client"] = .string(client.name) }
    }
}

/// Counts TLS handshakes, and logs failed ones with BoringSSL's names of the errors.
struct HandshakeLog: Sendable {
    let instruments: GatewayInstruments
    let logger: Logger
    private let lines = BoundedLines<ConnectionSource>()

    func ended(_ outcome: String) { instruments.handshakes.increment([outcome]) }

    func failed(of peer: NetworkPeer, error: any Error) {
        guard let line = lines.next(from: peer.source) else { return }
        var metadata: Logger.Metadata = [
            "peer.address": "\(peer.address)", "refusal.details": "\(Self.reason(error))",
        ]
        metadata.add(line)
        logger.info("TLS handshake failed", metadata: metadata)
    }

    /// Returns BoringSSL's names of the errors, such as `NO_SHARED_CIPHER` for an error whose description is
    /// `error:100000b8:SSL routines:OPENSSL_internal:NO_SHARED_CIPHER at FILE`. Returns the description's beginning if
    /// it contains no such name.
    private static func reason(_ error: any Error) -> String {
        let text = String(describing: error)
        let names = text.split(separator: "OPENSSL_internal:", omittingEmptySubsequences: false).dropFirst()
            .map { $0.prefix { $0 == "_" || $0.isLetter || $0.isNumber } }
        return names.isEmpty ? String(text.prefix(200)) : names.joined(separator: ", ")
    }
}

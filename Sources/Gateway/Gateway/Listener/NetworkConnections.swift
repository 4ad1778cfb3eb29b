import Foundation
import HTTPListener
import NIOCore
import NIOSSL
import NIOTLS

/// The connections of merchants' backends, over TLS if it is configured. Each connection counts against the limit of
/// its address until its client is known. A connection from an IPv6 address counts against the limits of its networks
/// of 64, 56 and 48 bits. Each wider network may have twice as many connections as the narrower one.
struct NetworkConnections: ConnectionService {
    let router: MerchantRouter
    /// The TLS settings; nil for HTTP without TLS.
    let tls: TLSTermination?
    let connectionLimits: ConnectionLimits
    let limits: LimitSettings
    let handshakeRates: HandshakeRates
    let instruments: GatewayInstruments
    let handshakes: HandshakeLog

    /// The source under which all unknown clients together get one client's share of the processing. Their addresses
    /// take turns within that share.
    private static let unknownClients = ConnectionSource.network("unknown")

    func accept(_ connection: CInt, from arriving: ArrivingPeer) throws -> AcceptedConnection {
        let peer = try NetworkPeer(arriving)
        let settings = tls?.current
        if settings != nil, !handshakeRates.take(peer.sources) {
            instruments.refusedConnections.increment()
            throw ChannelError.eof
        }
        let timeout = TimeAmount(limits.authenticationTimeout)
        return AcceptedConnection(
            source: peer.source,
            within: peer.wider.enumerated().map { index, network in
                ConnectionBound(network, most: limits.maxConnectionsPerAddress << (index + 1))
            },
            share: {
                peer.client.map { TurnShare(of: .client($0)) }
                    ?? TurnShare(of: Self.unknownClients, named: peer.address)
            }, isCostly: settings != nil,
            addTransport: { pipeline in
                let handshake = settings?.handler(for: peer)
                if let handshake { try pipeline.addHandler(handshake) }
                try pipeline.addHandler(
                    UnknownClientTimeout(
                        peer: peer, tls: handshake, resumed: { resumed($0, with: settings) }, timeout: timeout,
                        log: handshakes))
            },
            handler: { channel in
                NetworkRequests(
                    peer: peer, router: router, connection: channel, connectionLimits: connectionLimits,
                    handshakeRates: settings == nil ? nil : handshakeRates, perClient: limits.maxConnectionsPerClient)
            })
    }

    /// Returns the certificate of a client that resumed a TLS session. The certificate comes from the session's ticket.
    ///
    /// The certificate does not identify a client if it has expired, or if the gateway no longer remembers that it
    /// verified the chain. Each resumed session gives the client a new ticket, so the client could resume sessions for
    /// months without being identified. Therefore all sessions end in this case, and the client's next connection makes
    /// a full handshake.
    private func resumed(_ certificate: [UInt8], with settings: TLSTermination.Settings?) -> PresentedCertificate? {
        guard let settings, let presented = settings.resumed(certificate) else { return nil }
        if router.rules.clients.current.client(for: .absent, certificate: presented, at: Date()) == nil {
            tls?.endSessions(of: settings)
        }
        return presented
    }

    func connectionsChanged(by difference: Int) { instruments.connections.add(Double(difference)) }
    func connectionRefused() { instruments.refusedConnections.increment() }
}

/// Handles one connection's requests.
struct NetworkRequests: RequestHandler {
    let peer: NetworkPeer
    let router: MerchantRouter
    let connection: any Channel
    let connectionLimits: ConnectionLimits
    /// The limits of handshake rates; nil if the connection does not use TLS.
    let handshakeRates: HandshakeRates?
    let perClient: Int

    func admit(_ head: RequestHead) -> Admission { router.admit(head, from: self) }
    func answer(to condition: HTTPCondition) -> HTTPAnswer { router.answer(to: condition, from: self) }

    /// Counts the connection for the client, and no longer for the peer's address. Otherwise many backends with one
    /// address would together reach the address's limit.
    ///
    /// - Returns: false if the client has too many connections.
    func takesPlace(_ client: GatewayClient) -> Bool {
        guard peer.client != client.name else { return true }
        guard connectionLimits.recount(connection, as: .client(client.name), atMost: perClient) else { return false }
        if peer.client == nil { handshakeRates?.giveBack(peer.sources) }
        peer.belongs(to: client.name)
        return true
    }
}

/// Ends a connection whose client is not identified in time. The TLS handshake and the head of the first request share
/// one time-out. Peers that send nothing, or send slowly, therefore occupy a connection only briefly. This handler also
/// counts handshakes.
///
/// All methods run on the channel's event loop.
final class UnknownClientTimeout: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private let peer: NetworkPeer
    private let tls: NIOSSLServerHandler?
    /// Parses the certificate (DER) of a resumed session.
    private let resumed: ([UInt8]) -> PresentedCertificate?
    private let timeout: TimeAmount
    private let log: HandshakeLog
    private var timer: Scheduled<Void>?
    private var isShakingHands: Bool

    init(
        peer: NetworkPeer, tls: NIOSSLServerHandler?, resumed: @escaping ([UInt8]) -> PresentedCertificate?,
        timeout: TimeAmount, log: HandshakeLog
    ) {
        self.peer = peer
        self.tls = tls
        self.resumed = resumed
        self.timeout = timeout
        self.log = log
        isShakingHands = tls != nil
    }

    func channelActive(context: ChannelHandlerContext) {
        timer = context.eventLoop.assumeIsolated().scheduleTask(in: timeout) { self.timerFired(context) }
        context.fireChannelActive()
    }

    func channelInactive(context: ChannelHandlerContext) {
        timer?.cancel()
        endHandshake("ended")
        context.fireChannelInactive()
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case TLSUserEvent.handshakeCompleted = event {
            endHandshake("ok")
            if peer.certificate == nil, let leaf = try? tls?.peerCertificate?.toDERBytes() {
                peer.present(resumed(leaf))
            }
        }
        context.fireUserInboundEventTriggered(event)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        if isShakingHands {
            log.failed(of: peer, error: error)
            endHandshake("failed")
            // The peer does not use TLS, offers too old a version, or has no common cipher. No response is possible.
            context.close(promise: nil)
        } else {
            if error is BoringSSLError { sendAlert(context) }
            context.fireErrorCaught(error)
        }
    }

    /// Sends the alert that BoringSSL has written for an invalid record. swift-nio-ssl sends such an alert only at the
    /// end of a read, but closes the connection before that. This method therefore signals the end of a read.
    private func sendAlert(_ context: ChannelHandlerContext) {
        guard let tls, let place = try? context.pipeline.syncOperations.context(handler: tls) else { return }
        tls.channelReadComplete(context: place)
    }

    private func timerFired(_ context: ChannelHandlerContext) {
        guard peer.client == nil else { return }
        endHandshake("timeout")
        context.close(promise: nil)
    }

    private func endHandshake(_ outcome: String) {
        guard isShakingHands else { return }
        isShakingHands = false
        log.ended(outcome)
    }
}

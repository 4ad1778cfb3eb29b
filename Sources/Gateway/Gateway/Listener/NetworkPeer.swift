import HTTPListener
import Locks
import NIOCore

/// The other end of one connection, as far as known.
final class NetworkPeer: Sendable {
    private struct State {
        var certificate: PresentedCertificate?
        var client: String?
    }

    /// The address for the log: an IP address without a port, or `unix`.
    let address: String
    /// ``source`` and the wider sources, narrowest first.
    let sources: [ConnectionSource]
    /// The source for which the connection is counted until its client is known: an account, an IPv4 address or an IPv6
    /// network of 64 bits.
    var source: ConnectionSource { sources[0] }
    /// The IPv6 networks of 56 and of 48 bits that contain ``source``; empty for other sources. One party can have a
    /// network of either size (RFC 6177 §2), so a limit for ``source`` alone would not limit that party.
    var wider: ArraySlice<ConnectionSource> { sources.dropFirst() }
    private let state = Mutex(State())

    /// Creates the peer of a connection that was just accepted.
    ///
    /// - Throws: NIO's error for bytes that are not an IP address.
    init(_ arriving: ArrivingPeer) throws {
        sources = arriving.sources
        address =
            switch arriving {
            case .user: "unix"
            case .address(let packed):
                try SocketAddress(packedIPAddress: ByteBuffer(bytes: packed), port: 0).ipAddress ?? ""
            }
    }

    /// The certificate whose key the client proved to possess in the TLS handshake; nil if it presented no readable
    /// certificate.
    var certificate: PresentedCertificate? { state.withLock { $0.certificate } }

    func present(_ certificate: PresentedCertificate?) {
        state.withLock { $0.certificate = certificate }
    }

    /// The client that sent this connection's last request; nil before the first request from a known client.
    var client: String? { state.withLock { $0.client } }

    func belongs(to client: String) {
        state.withLock { $0.client = client }
    }
}

import HTTPListener
import NIOCore
import Synchronization

/// Who is at the other end of one connection, as far as that is known.
final class NetworkPeer: Sendable {
    private struct State {
        var certificate: PresentedCertificate?
        var client: String?
    }

    /// For the log: an IP address without a port, or `unix`.
    let address: String
    /// ``source`` and the wider ones, the narrowest first.
    let sources: [ConnectionSource]
    /// The source that the connection is counted by until its client is known: an account, an IPv4 address or an IPv6 network of
    /// 64 bits.
    var source: ConnectionSource { sources[0] }
    /// The larger IPv6 networks that it is from, of 56 and of 48 bits: one party can have either (RFC 6177 §2).
    var wider: ArraySlice<ConnectionSource> { sources.dropFirst() }
    private let state = Mutex(State())

    /// - Throws: NIO's error for bytes that are no IP address.
    init(_ arriving: ArrivingPeer) throws {
        sources = arriving.sources
        address =
            switch arriving {
            case .user: "unix"
            case .address(let packed):
                try SocketAddress(packedIPAddress: ByteBuffer(bytes: packed), port: 0).ipAddress ?? ""
            }
    }

    /// What the client proved in the TLS handshake.
    var certificate: PresentedCertificate? { state.withLock { $0.certificate } }

    func present(_ certificate: PresentedCertificate?) {
        state.withLock { $0.certificate = certificate }
    }

    /// The client whom this connection's last request was from; nil before the first that was.
    var client: String? { state.withLock { $0.client } }

    func belongs(to client: String) {
        state.withLock { $0.client = client }
    }
}

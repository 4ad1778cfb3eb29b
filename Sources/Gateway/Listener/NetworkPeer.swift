import Encodings
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
    /// What the connection is counted by until its client is known: an account, an IPv4 address or an IPv6 network of 64 bits.
    let source: ConnectionSource
    /// The larger IPv6 networks that it is from, of 56 and of 48 bits: one party can have either (RFC 6177 §2).
    let wider: [ConnectionSource]
    /// `source` and the wider ones, the narrowest first.
    var sources: [ConnectionSource] { [source] + wider }
    private let state = Mutex(State())

    /// - Parameter packed: the address in network byte order (4 or 16 bytes).
    init(ip: String, packed: [UInt8]) {
        address = ip
        let networks = Self.networks(packed)
        source = networks[0]
        wider = Array(networks.dropFirst())
    }

    /// A process of this host, behind a Unix socket.
    init(uid: UInt32) {
        address = "unix"
        source = .user(uid)
        wider = []
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

    /// An IPv6 host has a network of 64 bits and can use any address in it (RFC 4291 §2.5.4), so those count as one; but not
    /// IPv4 addresses that are written as IPv6's (§2.5.5.2).
    ///
    /// - Returns: the narrowest first.
    private static func networks(_ packed: [UInt8]) -> [ConnectionSource] {
        let isMapped = packed.count == 16 && packed[..<10].allSatisfy { $0 == 0 } && packed[10...11] == [0xFF, 0xFF]
        let lengths = packed.count == 16 && !isMapped ? [8, 7, 6] : [packed.count]
        return lengths.map { .network(Hexadecimal.encode(Array(packed.prefix($0)))) }
    }
}

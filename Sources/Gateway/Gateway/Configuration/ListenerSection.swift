import ConfigurationFile
import Foundation
import HTTPListener
import HostSystem

/// `listener`: the address to which merchants' backends connect.
struct GatewayListenerSettings: Sendable, Equatable {
    enum Address: Sendable, Equatable {
        /// An IPv4 or IPv6 address and a port. With port 0, the system chooses a port, which is logged.
        case network(ip: String, port: Int)
        case unix(path: String, mode: UInt32, group: Account?)
    }

    var address: Address
    /// The TLS files; nil for no TLS, which is possible only with a loopback address or a Unix socket.
    var tls: TLSFiles?
    /// The size of the largest body, in bytes.
    var maxRequestBytes: Int
}

extension GatewayListenerSettings {
    static let keys = ["address", "tls", "max_request_bytes", "mode", "group"]

    /// Reads the section; returns nil if it has reported a problem.
    init?(_ section: ConfigurationSection) {
        let tls = section.node("tls") == nil ? nil : TLSFiles(section.section("tls", keys: TLSFiles.keys))
        if section.isEmpty("tls") {
            section.problem("tls", "has no value; give certificate and private_key, or leave it out")
        }
        maxRequestBytes = section.integer("max_request_bytes", in: 1_024...16_777_216, default: 131_072)
        let text = section.text("address") ?? "127.0.0.1:8443"
        guard let address = Self.address(text, section) else {
            section.problem(
                "address",
                "must be an IP address and a port, as in 127.0.0.1:8443 or \"[::1]:8443\", or unix:PATH")
            return nil
        }
        self.address = address
        self.tls = tls
        switch address {
        case .network(let ip, _):
            for name in ["mode", "group"] where section.node(name) != nil {
                section.problem(name, "is for unix:PATH only; leave it out")
            }
            guard section.node("tls") == nil else { break }
            guard Self.isLoopback(ip) else {
                section.problem(
                    "address",
                    "needs listener.tls: without TLS the gateway listens only on a loopback address or unix:PATH")
                return
            }
            section.warning(
                .noTLS, "address",
                "every program that can read this host's traffic can read requests and bearer keys; add tls")
        case .unix:
            if section.node("tls") != nil {
                section.problem("tls", "has no effect on a Unix socket; leave it out, or give an address")
            }
        }
    }

    private static func address(_ text: String, _ section: ConfigurationSection) -> Address? {
        if text.hasPrefix("unix:") {
            let path = section.reader.absolute(String(text.dropFirst("unix:".count)))
            guard text.utf8.count > "unix:".utf8.count else { return nil }
            if path.utf8.count > 107 {
                section.problem("address", "is too long for a Unix socket; a path has at most 107 bytes")
            }
            section.examineSocket("address", at: path)
            return .unix(path: path, mode: section.mode("mode", default: 0o660), group: section.group("group"))
        }
        return NetworkAddress(text).map { .network(ip: $0.ip, port: $0.port) }
    }

    static func isLoopback(_ ip: String) -> Bool { NetworkAddress(ip: ip, port: 0)?.isLoopback == true }
}

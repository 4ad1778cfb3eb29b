import ConfigurationFile
import Foundation
import HostSystem
import NIOCore

/// `listener`: where merchants' backends connect.
struct GatewayListenerSettings: Sendable, Equatable {
    enum Address: Sendable, Equatable {
        /// An IPv4 or IPv6 address and a port; port 0 is one that the system chooses, and the log says.
        case network(ip: String, port: Int)
        case unix(path: String, mode: UInt32, group: Account?)
    }

    var address: Address
    /// nil: without TLS, for a loopback address and a Unix socket only.
    var tls: TLSFiles?
    /// Of one body.
    var maxRequestBytes: Int
}

extension GatewayListenerSettings {
    static let keys = ["address", "tls", "max_request_bytes", "mode", "group"]

    /// nil after a reported problem.
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
                    "address", "needs listener.tls: without TLS only a loopback address or unix:PATH is listened on")
                return
            }
            section.warning(
                .noTLS, "address", "requests and bearer keys are readable for whoever can listen on this host; add tls")
        case .unix:
            if section.node("tls") != nil {
                section.problem("tls", "is of no use on a Unix socket; leave it out, or give an address")
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
            return .unix(path: path, mode: section.mode("mode", default: 0o660), group: section.group("group"))
        }
        return NetworkAddress(text).map { .network(ip: $0.ip, port: $0.port) }
    }

    static func isLoopback(_ ip: String) -> Bool { NetworkAddress(ip: ip, port: 0)?.isLoopback == true }
}

/// An IP address and a port; never a name, which somebody else could change.
struct NetworkAddress: Sendable, Equatable {
    let ip: String
    let port: Int
    let isIPv6: Bool

    /// `192.0.2.1:443`, `[2001:db8::1]:443`
    init?(_ text: String) {
        guard let colon = text.lastIndex(of: ":") else { return nil }
        var host = text[..<colon]
        let digits = text[text.index(after: colon)...]
        let isBracketed = host.hasPrefix("[") && host.hasSuffix("]")
        if isBracketed { host = host.dropFirst().dropLast() }
        guard let port = Int(digits), digits == String(port), isBracketed == host.contains(":") else { return nil }
        self.init(ip: String(host), port: port)
    }

    init?(ip: String, port: Int) {
        guard (0...65_535).contains(port), let address = try? SocketAddress(ipAddress: ip, port: port) else {
            return nil
        }
        self.ip = ip
        self.port = port
        isIPv6 = address.protocol == .inet6
    }

    /// 127.0.0.0/8 (RFC 1122 §3.2.1.3) or ::1 (RFC 4291 §2.5.3).
    var isLoopback: Bool { isIPv6 ? ip == "::1" : ip.hasPrefix("127.") }

    /// In network byte order: 4 bytes, or 16; nil for what is no address in text (RFC 4291 §2.2).
    static func packed(_ ip: String) -> [UInt8]? {
        guard ip.contains(":") else { return packedIPv4(ip[...]) }
        let halves = ip.split(separator: "%", maxSplits: 1)[0].components(separatedBy: "::")
        let groups = halves.map { half in half.split(separator: ":").map(packedGroup) }
        guard halves.count <= 2, groups.allSatisfy({ !$0.contains(nil) }) else { return nil }
        let parts = groups.map { $0.flatMap { $0 ?? [] } }
        let missing = 16 - parts.reduce(0) { $0 + $1.count }
        guard halves.count == 2 ? missing >= 2 : missing == 0 else { return nil }
        return parts[0] + [UInt8](repeating: 0, count: missing) + (parts.count == 2 ? parts[1] : [])
    }

    private static func packedGroup(_ text: Substring) -> [UInt8]? {
        if text.contains(".") { return packedIPv4(text) }
        guard text.utf8.count <= 4 else { return nil }
        return UInt16(text, radix: 16).map { [UInt8($0 >> 8), UInt8($0 & 0xFF)] }
    }

    private static func packedIPv4(_ text: Substring) -> [UInt8]? {
        let bytes = text.split(separator: ".", omittingEmptySubsequences: false).compactMap { UInt8($0) }
        return bytes.count == 4 ? bytes : nil
    }

    var text: String { isIPv6 ? "[\(ip)]:\(port)" : "\(ip):\(port)" }
}

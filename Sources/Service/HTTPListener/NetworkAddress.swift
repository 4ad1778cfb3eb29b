import Glibc
import HostSystem
import NIOCore

// Unsafe: Pointers are used only within the closures, and the calls receive the sizes of what they point to.

/// An IP address and a port. Names are not allowed, since another party could change their addresses.
package struct NetworkAddress: Sendable, Equatable {
    package let ip: String
    package let port: Int
    package let isIPv6: Bool

    /// Parses a text such as `192.0.2.1:443` or `[2001:db8::1]:443`.
    package init?(_ text: String) {
        guard let colon = text.lastIndex(of: ":") else { return nil }
        var host = text[..<colon]
        let digits = text[text.index(after: colon)...]
        let isBracketed = host.hasPrefix("[") && host.hasSuffix("]")
        if isBracketed { host = host.dropFirst().dropLast() }
        guard let port = Int(digits), digits == String(port), isBracketed == host.contains(":") else { return nil }
        self.init(ip: String(host), port: port)
    }

    package init?(ip: String, port: Int) {
        guard (0...65_535).contains(port), let address = try? SocketAddress(ipAddress: ip, port: port) else {
            return nil
        }
        self.ip = ip
        self.port = port
        isIPv6 = address.protocol == .inet6
    }

    /// True for an address in 127.0.0.0/8 (RFC 1122 §3.2.1.3), and for ::1 (RFC 4291 §2.5.3).
    package var isLoopback: Bool { isIPv6 ? ip == "::1" : ip.hasPrefix("127.") }

    /// Returns the address in network byte order, 4 or 16 bytes; nil if the text is no address (RFC 4291 §2.2).
    package static func packed(_ ip: String) -> [UInt8]? {
        switch try? SocketAddress(ipAddress: ip, port: 0) {
        case .v4(let address): unsafe withUnsafeBytes(of: address.address.sin_addr) { unsafe Array($0) }
        case .v6(let address): unsafe withUnsafeBytes(of: address.address.sin6_addr) { unsafe Array($0) }
        default: nil
        }
    }

    package var text: String { isIPv6 ? "[\(ip)]:\(port)" : "\(ip):\(port)" }
}

extension NetworkAddress {
    /// Binds and listens.
    ///
    /// - Parameter name: the socket's name, for messages.
    /// - Returns: the listening descriptor, close-on-exec, and the address. For port 0 it contains the port that the system
    ///   chose.
    static func listen(
        at address: SocketAddress, named name: String
    ) throws(ListenerError) -> (descriptor: CInt, served: NetworkAddress) {
        let type = CInt(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
        let descriptor = socket(address.protocol == .inet6 ? AF_INET6 : AF_INET, type, 0)
        guard descriptor >= 0 else { throw failure("socket", name) }
        do throws(ListenerError) {
            var reuses: CInt = 1
            guard
                unsafe setsockopt(
                    descriptor, SOL_SOCKET, SO_REUSEADDR, &reuses, socklen_t(MemoryLayout<CInt>.size)) == 0
            else { throw failure("setsockopt(SO_REUSEADDR)", name) }
            let bound = unsafe address.withSockAddr { unsafe bind(descriptor, $0, socklen_t($1)) }
            guard bound == 0 else { throw errno == EADDRINUSE ? .alreadyServed(path: name) : failure("bind", name) }
            guard Glibc.listen(descriptor, SocketFile.backlog) == 0 else {
                throw errno == EADDRINUSE ? .alreadyServed(path: name) : failure("listen", name)
            }
            let place = InheritedSocket.place(of: descriptor)
            guard let served = NetworkAddress(ip: place.address, port: place.port) else {
                throw failure("getsockname", name)
            }
            return (descriptor, served)
        } catch {
            close(descriptor)
            throw error
        }
    }

    private static func failure(_ call: String, _ name: String) -> ListenerError {
        .unusable("cannot accept connections on the \(name) socket: \(SystemError(call: call, errno: errno))")
    }
}

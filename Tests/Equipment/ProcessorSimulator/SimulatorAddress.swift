package import NIOCore

/// The address on which the simulator listens. It must be local, because the simulator receives card data in the clear.
package enum SimulatorAddress: Sendable, Equatable {
    case unix(path: String)
    /// An address in 127.0.0.0/8, or ::1.
    case loopback(SocketAddress)

    /// Parses `unix:PATH`, or a loopback address with a port, such as `127.0.0.1:9000` or `[::1]:9000`; nil for other
    /// text. Port 0 means any free port. Host names are not resolved.
    package init?(_ text: String) {
        if text.hasPrefix("unix:") {
            let path = String(text.dropFirst("unix:".count))
            guard !path.isEmpty else { return nil }
            self = .unix(path: path)
            return
        }
        guard let colon = text.lastIndex(of: ":"), let port = UInt16(text[text.index(after: colon)...]),
            text[text.index(after: colon)...].utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) })
        else { return nil }
        let host = text[..<colon]
        let isBracketed = host.hasPrefix("[") && host.hasSuffix("]")
        let address = try? SocketAddress(
            ipAddress: isBracketed ? String(host.dropFirst().dropLast()) : String(host), port: Int(port))
        switch address {
        case .v4? where host.hasPrefix("127."): break
        case .v6? where isBracketed && address?.ipAddress == "::1": break
        default: return nil
        }
        guard let address else { return nil }
        self = .loopback(address)
    }
}

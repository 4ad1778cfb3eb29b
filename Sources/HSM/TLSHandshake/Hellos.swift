/// The numbers of the extensions that this parser reads (IANA, "TLS ExtensionType Values").
private enum HelloExtension {
    /// The extension that names the server (RFC 6066 §3).
    static let serverName: UInt16 = 0
    /// The extension that, in a ServerHello, selects TLS 1.3 (RFC 8446 §4.2.1).
    static let supportedVersions: UInt16 = 43
    /// The extension that marks a renegotiation (RFC 5746 §3.2).
    static let renegotiationInfo: UInt16 = 0xFF01
}

private let tls12 = 0x0303

/// The client's first message (RFC 5246 §7.4.1.2).
enum ClientHello {
    static func serverName(in message: HandshakeFields) throws(TLSInputError) -> String {
        var message = message
        guard try message.number(bytes: 2) == tls12 else { throw .otherVersion }
        _ = try message.opaque(bytes: 32)
        _ = try message.vector(lengthBytes: 1, 0...32)
        _ = try message.numbers16()
        // Compression methods, which always include the null method.
        guard try message.vector(lengthBytes: 1, 1...255).contains(0) else { throw message.malformed }
        // A ClientHello without extensions names no server.
        guard !message.isAtEnd else { throw .noServerName }
        let extensions = try message.extensions()
        guard let content = extensions[HelloExtension.serverName] else { throw .noServerName }
        return try serverName(of: content)
    }

    /// Returns the name in a `ServerNameList` (RFC 6066 §3), which must contain one `host_name`. No other type of name
    /// is defined.
    private static func serverName(
        of content: ArraySlice<UInt8>
    ) throws(TLSInputError) -> String {
        var content = HandshakeFields(content, of: .clientHello)
        var list = try content.fields(lengthBytes: 2, 1...0xFFFF)
        try content.end()
        guard try list.number(bytes: 1) == 0 else { throw .unsuitableServerName }
        let name = try list.vector(lengthBytes: 2, 1...0xFFFF)
        guard list.isAtEnd, isDNSName(name) else { throw .unsuitableServerName }
        return String(decoding: name, as: UTF8.self)
    }

    /// Returns true if the name is a lower-case DNS name (RFC 1123 §2.1): at most 253 bytes, without a final dot.
    /// Labels have 1 to 63 lower-case letters, digits and inner hyphens. The last label must contain a letter, which
    /// excludes IPv4 addresses.
    static func isDNSName(_ name: ArraySlice<UInt8>) -> Bool {
        guard name.count <= 253 else { return false }
        let labels = name.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        let hyphen = UInt8(ascii: "-")
        let letters = UInt8(ascii: "a")...UInt8(ascii: "z")
        let digits = UInt8(ascii: "0")...UInt8(ascii: "9")
        return labels.allSatisfy { label in
            (1...63).contains(label.count) && label.first != hyphen && label.last != hyphen
                && label.allSatisfy { letters.contains($0) || digits.contains($0) || $0 == hyphen }
        } && labels.last.map { $0.contains(where: letters.contains) } == true
    }
}

/// The server's first message (RFC 5246 §7.4.1.3).
enum ServerHello {
    /// Throws unless the server chose TLS 1.2 and this is a connection's first handshake.
    static func check(_ message: HandshakeFields) throws(TLSInputError) {
        var message = message
        guard try message.number(bytes: 2) == tls12 else { throw .otherVersion }
        _ = try message.opaque(bytes: 32)
        _ = try message.vector(lengthBytes: 1, 0...32)
        // Cipher suites 0x13.. belong to TLS 1.3 (RFC 8446 §B.4).
        guard try message.number(bytes: 2) >> 8 != 0x13 else { throw .otherVersion }
        guard try message.number(bytes: 1) == 0 else { throw message.malformed }
        guard !message.isAtEnd else { return }
        guard try message.extensions()[HelloExtension.supportedVersions] == nil else { throw .otherVersion }
    }
}

extension HandshakeFields {
    /// Reads the extensions at the end of a hello message (RFC 5246 §7.4.1.4). Throws if one occurs twice.
    fileprivate mutating func extensions() throws(TLSInputError) -> [UInt16: ArraySlice<UInt8>] {
        var list = try fields(lengthBytes: 2, 0...0xFFFF)
        try end()
        var found: [UInt16: ArraySlice<UInt8>] = [:]
        while !list.isAtEnd {
            let type = UInt16(try list.number(bytes: 2))
            let content = try list.vector(lengthBytes: 2, 0...0xFFFF)
            guard found.updateValue(content, forKey: type) == nil else { throw malformed }
        }
        // In a first handshake `renegotiated_connection` is empty (RFC 5746 §3.4, §3.6).
        if let info = found[HelloExtension.renegotiationInfo], !info.elementsEqual([0]) { throw .renegotiation }
        return found
    }
}

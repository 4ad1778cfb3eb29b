/// The extensions that are parsed here (IANA, "TLS ExtensionType Values").
private enum HelloExtension {
    /// RFC 6066 §3.
    static let serverName: UInt16 = 0
    /// RFC 8446 §4.2.1: in a ServerHello it says that TLS 1.3 was chosen.
    static let supportedVersions: UInt16 = 43
    /// RFC 5746 §3.2.
    static let renegotiationInfo: UInt16 = 0xFF01
}

private let tls12 = 0x0303

/// ClientHello (RFC 5246 §7.4.1.2).
enum ClientHello {
    static func serverName(in message: HandshakeFields) throws(TLSInputError) -> String {
        var message = message
        guard try message.number(bytes: 2) == tls12 else { throw .otherVersion }
        _ = try message.opaque(bytes: 32)
        _ = try message.vector(lengthBytes: 1, 0...32)
        _ = try message.numbers16()
        // Compression methods; the null method is always among them.
        guard try message.vector(lengthBytes: 1, 1...255).contains(0) else { throw message.malformed }
        // A hello without extensions has no server name either.
        guard !message.isAtEnd else { throw .noServerName }
        let extensions = try message.extensions()
        guard let content = extensions[HelloExtension.serverName] else { throw .noServerName }
        return try serverName(of: content)
    }

    /// `ServerNameList` (RFC 6066 §3) with one `host_name`, the only type there is.
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

    /// Labels of 1 to 63 lower-case letters, digits and inner hyphens, 253 bytes in all, no dot at the end (RFC 1123 §2.1).
    /// The last label has a letter, so that no IPv4 address passes for a name.
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

/// ServerHello (RFC 5246 §7.4.1.3).
enum ServerHello {
    /// Checks that the server chose TLS 1.2, in a first handshake.
    static func check(_ message: HandshakeFields) throws(TLSInputError) {
        var message = message
        guard try message.number(bytes: 2) == tls12 else { throw .otherVersion }
        _ = try message.opaque(bytes: 32)
        _ = try message.vector(lengthBytes: 1, 0...32)
        // 0x13..: the cipher suites of TLS 1.3 (RFC 8446 §B.4).
        guard try message.number(bytes: 2) >> 8 != 0x13 else { throw .otherVersion }
        guard try message.number(bytes: 1) == 0 else { throw message.malformed }
        guard !message.isAtEnd else { return }
        guard try message.extensions()[HelloExtension.supportedVersions] == nil else { throw .otherVersion }
    }
}

extension HandshakeFields {
    /// The extensions that end a hello (RFC 5246 §7.4.1.4), none of them twice.
    fileprivate mutating func extensions() throws(TLSInputError) -> [UInt16: ArraySlice<UInt8>] {
        var list = try fields(lengthBytes: 2, 0...0xFFFF)
        try end()
        var found: [UInt16: ArraySlice<UInt8>] = [:]
        while !list.isAtEnd {
            let type = UInt16(try list.number(bytes: 2))
            let content = try list.vector(lengthBytes: 2, 0...0xFFFF)
            guard found.updateValue(content, forKey: type) == nil else { throw malformed }
        }
        // A first handshake continues no other one: an empty `renegotiated_connection` (RFC 5746 §3.4, §3.6).
        if let info = found[HelloExtension.renegotiationInfo], !info.elementsEqual([0]) { throw .renegotiation }
        return found
    }
}

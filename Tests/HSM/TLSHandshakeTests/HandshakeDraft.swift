/// A list of handshake messages that tests change and encode (RFC 5246 §7.4).
struct HandshakeDraft {
    struct Message {
        var type: UInt8
        var body: [UInt8]
    }

    var messages: [Message]

    init(_ bytes: [UInt8]) {
        messages = []
        var rest = bytes[...]
        while rest.count >= 4 {
            let length = rest.dropFirst().prefix(3).reduce(0) { $0 << 8 | Int($1) }
            messages.append(Message(type: rest.first ?? 0, body: Array(rest.dropFirst(4).prefix(length))))
            rest = rest.dropFirst(4 + length)
        }
    }

    /// Makes a small valid handshake. The certificate is an empty SEQUENCE, because the parser does not read its
    /// content.
    init(serverName: String = "apple-pay-gateway.apple.com") {
        messages = [
            Message(type: 1, body: Self.clientHello(extensions: [Self.serverNames([serverName])])),
            Message(type: 2, body: Self.serverHello()),
            Message(type: 11, body: Self.certificates([[0x30, 0]])),
            Message(type: 12, body: [3, 0, 23, 1, 4]),
            Message(type: 13, body: [1, 1] + Self.vector16([4, 1, 8, 4]) + Self.vector16([])),
            Message(type: 14, body: []),
            Message(type: 11, body: Self.certificates([[0x30, 1, 7]])),
            Message(type: 16, body: [1, 4]),
        ]
    }

    var bytes: [UInt8] {
        messages.flatMap { [$0.type] + Self.vector24($0.body) }
    }

    /// Returns a changed copy of the draft.
    func changed(_ change: (inout Self) -> Void) -> Self {
        var draft = self
        change(&draft)
        return draft
    }

    static func vector16(_ content: [UInt8]) -> [UInt8] {
        [UInt8(content.count >> 8), UInt8(content.count & 0xFF)] + content
    }

    static func vector24(_ content: [UInt8]) -> [UInt8] { [UInt8(content.count >> 16)] + vector16Low(content) }

    private static func vector16Low(_ content: [UInt8]) -> [UInt8] {
        [UInt8(content.count >> 8 & 0xFF), UInt8(content.count & 0xFF)] + content
    }

    static func certificates(_ certificates: [[UInt8]]) -> [UInt8] { vector24(certificates.flatMap(vector24)) }

    static func clientHello(
        version: [UInt8] = [3, 3], suites: [UInt8] = [0xC0, 0x2B], compression: [UInt8] = [0], extensions: [[UInt8]]
    ) -> [UInt8] {
        version + [UInt8](repeating: 1, count: 32) + [0] + vector16(suites) + [UInt8(compression.count)] + compression
            + vector16(extensions.flatMap { $0 })
    }

    static func serverHello(
        version: [UInt8] = [3, 3], suite: [UInt8] = [0xC0, 0x2B], compression: UInt8 = 0, extensions: [[UInt8]] = []
    ) -> [UInt8] {
        version + [UInt8](repeating: 2, count: 32) + [0] + suite + [compression]
            + vector16(extensions.flatMap { $0 })
    }

    static func extensionOf(_ type: UInt16, _ content: [UInt8]) -> [UInt8] {
        [UInt8(type >> 8), UInt8(type & 0xFF)] + vector16(content)
    }

    /// Returns a server_name extension (RFC 6066 §3).
    static func serverNames(_ names: [String], nameType: UInt8 = 0) -> [UInt8] {
        extensionOf(0, vector16(names.flatMap { [nameType] + vector16(Array($0.utf8)) }))
    }
}

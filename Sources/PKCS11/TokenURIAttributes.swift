/// One component of a PKCS#11 URI, split into its attributes and percent-decoded (RFC 7512 §2.3).
struct TokenURIAttributes {
    enum Part {
        case path
        case query
    }

    private var values: [String: [UInt8]] = [:]

    init(_ component: Substring, separator: Character, part: Part) throws(TokenURIError) {
        guard !component.isEmpty else { return }
        for attribute in component.split(separator: separator, omittingEmptySubsequences: false) {
            let pair = attribute.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard pair.count == 2, Self.isName(pair[0]) else { throw .malformed }
            let name = String(pair[0])
            try Self.checkIsAllowed(name, part)
            guard values[name] == nil else { throw .duplicate(name) }
            values[name] = try Self.decode(pair[1], name, part)
        }
    }

    func value(_ name: String, longest: Int) throws(TokenURIError) -> String? {
        guard let bytes = values[name] else { return nil }
        guard (1...longest).contains(bytes.count) else { throw .wrongLength(name, longest: longest) }
        guard let text = String(validating: bytes, as: UTF8.self), !bytes.contains(0) else { throw .notText(name) }
        return text
    }

    private static func checkIsAllowed(_ name: String, _ part: Part) throws(TokenURIError) {
        switch (part, name) {
        case (.path, "token"), (.path, "serial"), (.path, "manufacturer"), (.path, "model"), (.query, "pin-source"):
            return
        case (.query, "pin-value"):
            throw .pinValue
        case (.path, "slot-id"), (.path, "slot-description"), (.path, "slot-manufacturer"):
            throw .slot(name)
        case (.path, "object"), (.path, "type"), (.path, "id"), (.path, "library-manufacturer"),
            (.path, "library-description"), (.path, "library-version"), (.query, "module-name"),
            (.query, "module-path"):
            throw .notAToken(name)
        default:
            throw .unknown(name)
        }
    }

    /// pk11-v-attr-nm and the names that the RFC itself defines: letters, digits, "-" and "_".
    private static func isName(_ name: Substring) -> Bool {
        !name.isEmpty && name.utf8.count <= 64
            && name.utf8.allSatisfy { isAlphanumeric($0) || $0 == UInt8(ascii: "-") || $0 == UInt8(ascii: "_") }
    }

    private static func isAlphanumeric(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"):
            true
        default: false
        }
    }

    /// What may stand unencoded: RFC 3986's unreserved characters, and pk11-res-avail with what each component adds.
    private static let unreservedMarks = Array("-._~:[]@!$'()*+,=".utf8)

    private static func decode(_ text: Substring, _ name: String, _ part: Part) throws(TokenURIError) -> [UInt8] {
        let marks = unreservedMarks + Array((part == .path ? "&" : "/?|").utf8)
        var decoded: [UInt8] = []
        var bytes = text.utf8.makeIterator()
        while let byte = bytes.next() {
            if byte == UInt8(ascii: "%") {
                guard let high = bytes.next().flatMap(hexDigit), let low = bytes.next().flatMap(hexDigit) else {
                    throw .percentEncoding(name)
                }
                decoded.append(high << 4 | low)
            } else {
                guard isAlphanumeric(byte) || marks.contains(byte) else { throw .mustBeEncoded(name) }
                decoded.append(byte)
            }
        }
        return decoded
    }

    private static func hexDigit(_ byte: UInt8) -> UInt8? {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
        default: nil
        }
    }
}

internal import Encodings

/// Which token is meant: a PKCS#11 URI (RFC 7512) that names a token by what it carries, never by a slot.
///
///     pkcs11:token=paytokend;serial=1a2b3c4d5e6f7081?pin-source=file:/etc/paytokend/pin
///
/// Of the RFC's attributes it takes `token`, `serial`, `manufacturer` and `model` in the path, and `pin-source` in the
/// query. Everything else is refused, with the reason in ``TokenURIError``.
public struct TokenURI: Sendable, Hashable {
    /// CK_TOKEN_INFO's label, 1 to 32 bytes of UTF-8.
    public let label: String?
    /// CK_TOKEN_INFO's serialNumber, 1 to 16 bytes.
    public let serialNumber: String?
    /// CK_TOKEN_INFO's manufacturerID, 1 to 32 bytes.
    public let manufacturer: String?
    /// CK_TOKEN_INFO's model, 1 to 16 bytes.
    public let model: String?
    /// The absolute path of a file with the PIN, from `pin-source=/path` or `pin-source=file:/path`.
    public let pinFile: String?

    /// The longest URI read, in bytes.
    public static let longest = 1024

    /// Parses `text` strictly. At least one of label and serial number must be named.
    public init(_ text: String) throws(TokenURIError) {
        var rest = Substring(text)
        guard text.utf8.count <= Self.longest else { throw .tooLong }
        guard let colon = rest.firstIndex(of: ":"), rest[..<colon].lowercased() == "pkcs11" else {
            throw .notPKCS11
        }
        rest = rest[rest.index(after: colon)...]
        let parts = rest.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        let path = try TokenURIAttributes(parts[0], separator: ";", part: .path)
        let query = try TokenURIAttributes(parts.count > 1 ? parts[1] : "", separator: "&", part: .query)
        label = try path.value("token", longest: 32)
        serialNumber = try path.value("serial", longest: 16)
        manufacturer = try path.value("manufacturer", longest: 32)
        model = try path.value("model", longest: 16)
        guard label != nil || serialNumber != nil else { throw .namesNoToken }
        pinFile = try query.value("pin-source", longest: Self.longest).map(Self.pinFile(fromSource:))
    }

    /// RFC 7512 §2.4 lets a program decide which sources it reads: a file here, and never a command ("|…").
    private static func pinFile(fromSource source: String) throws(TokenURIError) -> String {
        var path = Substring(source)
        if path.hasPrefix("file:") { path = path.dropFirst(5) }
        // file:///path is file:/path with an empty host (RFC 8089 §2).
        if path.hasPrefix("///") { path = path.dropFirst(2) }
        guard path.hasPrefix("/"), !path.hasPrefix("//") else { throw .pinSourceNotAFile }
        return String(path)
    }

    /// Whether `token` is the one meant: everything that is named agrees.
    public func matches(_ token: TokenInfo) -> Bool {
        (label ?? token.label) == token.label && (serialNumber ?? token.serialNumber) == token.serialNumber
            && (manufacturer ?? token.manufacturer) == token.manufacturer && (model ?? token.model) == token.model
    }
}

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
                guard let high = bytes.next().flatMap(Hexadecimal.value),
                    let low = bytes.next().flatMap(Hexadecimal.value)
                else {
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
}

/// Why a text is not taken as a token's URI. Carries attributes' names, never their values.
public enum TokenURIError: Error, Sendable, Hashable, CustomStringConvertible {
    case tooLong
    /// The scheme is not `pkcs11:`.
    case notPKCS11
    /// An attribute is not `name=value`.
    case malformed
    case duplicate(String)
    case unknown(String)
    /// An attribute of RFC 7512 that names an object, a library or a module.
    case notAToken(String)
    /// A slot: its number and description are the library's whim.
    case slot(String)
    case pinValue
    /// `pin-source` is neither an absolute path nor a `file:` URI.
    case pinSourceNotAFile
    /// A "%" without two hexadecimal digits.
    case percentEncoding(String)
    /// A character that the RFC allows percent-encoded only.
    case mustBeEncoded(String)
    case notText(String)
    case wrongLength(String, longest: Int)
    /// Neither label nor serial number.
    case namesNoToken

    public var description: String {
        switch self {
        case .tooLong:
            "the token's URI is longer than \(TokenURI.longest) bytes"
        case .notPKCS11:
            "the token's URI must begin with \"pkcs11:\" (RFC 7512), as in \"pkcs11:token=paytokend\""
        case .malformed:
            "the token's URI must be made of name=value, separated by \";\" and after a \"?\" by \"&\" (RFC 7512)"
        case .duplicate(let name):
            "the token's URI has \"\(name)\" twice"
        case .unknown(let name):
            "the token's URI has the unknown attribute \"\(name)\": token, serial, manufacturer, model and pin-source "
                + "are known"
        case .notAToken(let name):
            "the token's URI has \"\(name)\", which does not name a token: take it away"
        case .slot(let name):
            "the token's URI has \"\(name)\", but slots change from start to start: name the token by its label "
                + "(token=) and serial number (serial=)"
        case .pinValue:
            "the token's URI has \"pin-value\": a PIN does not belong into a configuration, put it into a file and "
                + "name that (pin_file, or pin-source=file:/…)"
        case .pinSourceNotAFile:
            "pin-source in the token's URI must be the absolute path of a file, as in pin-source=file:/etc/paytokend/pin"
        case .percentEncoding(let name):
            "\"\(name)\" in the token's URI has a \"%\" that two hexadecimal digits do not follow"
        case .mustBeEncoded(let name):
            "\"\(name)\" in the token's URI has a character that must be percent-encoded, such as a space as %20"
        case .notText(let name):
            "\"\(name)\" in the token's URI is not UTF-8 text"
        case .wrongLength(let name, let longest):
            "\"\(name)\" in the token's URI must have 1 to \(longest) bytes"
        case .namesNoToken:
            "the token's URI must name the token by its label (token=) or its serial number (serial=)"
        }
    }
}

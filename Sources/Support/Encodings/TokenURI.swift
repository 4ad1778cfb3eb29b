/// A URI (RFC 7512) that identifies a PKCS#11 token by its attributes, never by a slot.
///
///     pkcs11:token=paytokend;serial=1a2b3c4d5e6f7081?pin-source=file:/etc/paytokend/pin
///
/// The RFC's attributes `token`, `serial`, `manufacturer` and `model` are allowed in the path, and `pin-source` in
/// the query. All others are refused, with the reason in ``TokenURIError``. The daemon parses its configuration with
/// this type, and the worker the URI from the daemon, so that both accept exactly the URIs that `--check` accepts.
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
    /// The URI without its query: it identifies the same PKCS#11 token, but names no file.
    public let withoutQuery: String

    /// The longest URI accepted, in bytes.
    public static let longest = 1024

    /// Parses `text` strictly. It must have a label or a serial number, or both.
    public init(_ text: String) throws(TokenURIError) {
        guard text.utf8.count <= Self.longest else { throw .tooLong }
        // The lower-case form of U+212A, the Kelvin sign, is k.
        guard let colon = text.firstIndex(of: ":"), text[..<colon].allSatisfy(\.isASCII),
            text[..<colon].lowercased() == "pkcs11"
        else { throw .notPKCS11 }
        let parts = text[text.index(after: colon)...]
            .split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        let path = try Component(parts[0], separator: ";", part: .path)
        let query = try Component(parts.count > 1 ? parts[1] : "", separator: "&", part: .query)
        label = try path.value("token", longest: 32)
        serialNumber = try path.value("serial", longest: 16)
        manufacturer = try path.value("manufacturer", longest: 32)
        model = try path.value("model", longest: 16)
        guard label != nil || serialNumber != nil else { throw .namesNoToken }
        pinFile = try query.value("pin-source", longest: Self.longest).map(Self.pinFile(fromSource:))
        withoutQuery = "pkcs11:" + parts[0]
    }

    /// Returns the path of the PIN file. RFC 7512 §2.4 lets a program choose which sources it supports. This program
    /// supports only a file, never a command ("|…").
    private static func pinFile(fromSource source: String) throws(TokenURIError) -> String {
        var path = Substring(source)
        if path.hasPrefix("file:") { path = path.dropFirst(5) }
        // file:///path is file:/path with an empty host (RFC 8089 §2).
        if path.hasPrefix("///") { path = path.dropFirst(2) }
        guard path.hasPrefix("/"), !path.hasPrefix("//") else { throw .pinSourceNotAFile }
        return String(path)
    }

    /// The path or the query, split into its attributes (§2.3).
    private struct Component {
        enum Part {
            case path
            case query
        }

        /// The decoded values by name.
        private var values: [String: String] = [:]

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
            guard let text = values[name] else { return nil }
            guard (1...longest).contains(text.utf8.count) else { throw .wrongLength(name, longest: longest) }
            return text
        }

        private static func checkIsAllowed(_ name: String, _ part: Part) throws(TokenURIError) {
            switch (part, name) {
            case (.path, "token"), (.path, "serial"), (.path, "manufacturer"), (.path, "model"), (.query, "pin-source"):
                return
            case (_, "pin-value"):
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

        /// Returns true for pk11-v-attr-nm and for the names that the RFC defines: letters, digits, "-" and "_".
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

        /// The characters that may occur without encoding: RFC 3986's unreserved characters, and RFC 7512's
        /// pk11-res-avail with the characters that it adds for each component.
        private static let marks = Array("-._~:[]@!$'()*+,=".utf8)

        private static func decode(_ text: Substring, _ name: String, _ part: Part) throws(TokenURIError) -> String {
            let marks = marks + Array((part == .path ? "&" : "/?|").utf8)
            var rest = Array(text.utf8)[...]
            while let byte = rest.popFirst() {
                if byte == UInt8(ascii: "%") {
                    let digits = [rest.popFirst(), rest.popFirst()].compactMap { $0.flatMap(Hexadecimal.value) }
                    guard digits.count == 2 else { throw .percentEncoding(name) }
                } else {
                    guard isAlphanumeric(byte) || marks.contains(byte) else { throw .mustBeEncoded(name) }
                }
            }
            guard let decoded = PercentEncoding.decoded(text) else { throw .notText(name) }
            return decoded
        }
    }
}

/// A text that is not accepted as an HSM token's URI. It contains attribute names, never their values.
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
    /// A slot, which is not accepted because libraries number and describe slots arbitrarily, and differently at each
    /// start.
    case slot(String)
    case pinValue
    /// `pin-source` is neither an absolute path nor a `file:` URI.
    case pinSourceNotAFile
    /// An attribute contains a "%" without two hexadecimal digits.
    case percentEncoding(String)
    /// An attribute contains a character that the RFC allows only percent-encoded.
    case mustBeEncoded(String)
    /// An attribute's value is not UTF-8, or contains a control character.
    case notText(String)
    case wrongLength(String, longest: Int)
    /// The URI has neither a label nor a serial number.
    case namesNoToken

    /// The fault in the URI: the end of a sentence that begins with the URI.
    public var description: String {
        switch self {
        case .tooLong:
            "is longer than \(TokenURI.longest) bytes"
        case .notPKCS11:
            "must be a PKCS#11 URI (RFC 7512), as in \"pkcs11:token=paytokend\""
        case .malformed:
            "has an attribute that is not name=value; \";\" separates attributes, and after a \"?\" it is \"&\""
        case .duplicate(let name):
            "has the attribute \"\(name)\" twice"
        case .unknown(let name), .notAToken(let name):
            "has an attribute other than token, serial, manufacturer, model and pin-source (\"\(name)\"); leave it out"
        case .slot(let name):
            "names a slot (\"\(name)\"), and slot numbers change; name the HSM token by its label (token) or serial"
        case .pinValue:
            "holds the PIN itself (pin-value); put it into a file and name that in pin_file"
        case .pinSourceNotAFile:
            "has a pin-source that is not an absolute path, as in pin-source=file:/etc/paytokend/pin"
        case .percentEncoding(let name):
            "has a \"%\" in \"\(name)\" that two hexadecimal digits do not follow"
        case .mustBeEncoded(let name):
            "has a character in \"\(name)\" that must be percent-encoded, such as a space as %20"
        case .notText(let name):
            "has a value of \"\(name)\" that is not UTF-8 text"
        case .wrongLength(let name, let longest):
            "has a value of \"\(name)\" that is not 1 to \(longest) bytes long"
        case .namesNoToken:
            "names no HSM token; give its label (token) or serial"
        }
    }
}

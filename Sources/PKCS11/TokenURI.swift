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

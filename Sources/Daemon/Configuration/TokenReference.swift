import Encodings

/// The part of a PKCS#11 URI (RFC 7512) that the daemon itself checks; the worker, which knows PKCS#11, reads it whole.
struct TokenReference: Equatable {
    /// The URI without its query, as the worker gets it.
    let uri: String
    /// The absolute path in `pin-source`.
    let pinSource: String?

    enum Flaw: String, Error {
        case notPKCS11 = "must be a PKCS#11 URI (RFC 7512), as in \"pkcs11:token=paytokend\""
        case malformed = "has an attribute that is not name=value, not percent-encoded UTF-8 or there twice"
        case pinValue = "holds the PIN itself (pin-value); put it into a file and name that in pin_file"
        case slot = "names a slot, and slot numbers change; name the token by its label (token) or serial"
        case unknownAttribute =
            "has an attribute other than token, serial, manufacturer, model and pin-source; leave it out"
        case namesNoToken = "names no token; give its label (token) or serial"
        case pinSource = "has a pin-source that is no absolute path, as in pin-source=file:/etc/paytokend/pin"
    }

    init(_ text: String) throws(Flaw) {
        guard text.utf8.count <= 1024, text.lowercased().hasPrefix("pkcs11:") else { throw .notPKCS11 }
        let parts = text.dropFirst("pkcs11:".count)
            .split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        let path = try Self.attributes(parts[0], separator: ";")
        let query = parts.count == 2 ? try Self.attributes(parts[1], separator: "&") : [:]
        guard query["pin-value"] == nil, path["pin-value"] == nil else { throw .pinValue }
        guard !path.keys.contains(where: { $0.hasPrefix("slot-") }) else { throw .slot }
        guard path.keys.allSatisfy(["token", "serial", "manufacturer", "model"].contains),
            query.keys.allSatisfy({ $0 == "pin-source" })
        else { throw .unknownAttribute }
        guard path["token"] != nil || path["serial"] != nil else { throw .namesNoToken }
        uri = "pkcs11:" + parts[0]
        pinSource = try query["pin-source"].map(Self.filePath)
    }

    private static func attributes(_ text: Substring, separator: Character) throws(Flaw) -> [String: String] {
        var attributes: [String: String] = [:]
        for attribute in text.split(separator: separator) {
            let parts = attribute.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard parts.count == 2, !parts[0].isEmpty, let value = PercentEncoding.decoded(parts[1]),
                !value.isEmpty, attributes.updateValue(value, forKey: String(parts[0])) == nil
            else { throw .malformed }
        }
        return attributes
    }

    /// `file:/path`, `file:///path` or the path alone; never a command (RFC 7512 §2.4 leaves that to the program).
    private static func filePath(_ source: String) throws(Flaw) -> String {
        var path = source.hasPrefix("file:") ? source.dropFirst(5) : source[...]
        if path.hasPrefix("///") { path = path.dropFirst(2) }
        guard path.hasPrefix("/"), !path.hasPrefix("//") else { throw .pinSource }
        return String(path)
    }
}

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

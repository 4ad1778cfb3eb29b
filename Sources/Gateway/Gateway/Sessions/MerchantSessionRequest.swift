import DaemonAPI
import Encodings
import Refusals

/// The body of `POST /merchant-sessions`. Its members have the order of the body that Apple receives.
///
/// It deliberately has no URL: the configured environment's host issues the session, and neither a web page nor a
/// client can choose another host.
///
/// Source: Apple, "Requesting an Apple Pay payment session".
struct MerchantSessionRequest: StrictRequest {
    /// The merchant identifier as in its identity certificate: 1 to 255 letters, digits, dots, hyphens and underscores.
    var merchantIdentifier: String
    /// The shop's name on the payment sheet: 1 to 64 characters (Unicode scalars).
    var displayName: String
    /// `web`, `messaging` or `in_app`.
    var initiative: String
    /// A domain name for `web`, an `https` URL for `messaging`, a team identifier for `in_app`.
    var initiativeContext: String

    enum CodingKeys: CodingKey, CaseIterable {
        case merchantIdentifier, displayName, initiative, initiativeContext
    }

    /// Checks the form of every member.
    ///
    /// - Throws: `malformed_request`, which names the member without repeating any of its content.
    func validate() throws(Refusal) {
        guard Self.isMerchantIdentifier(merchantIdentifier) else {
            throw Self.refusal(
                "merchantIdentifier", "is not 1 to 255 letters, digits, dots, hyphens and underscores")
        }
        guard DisplayName.isSuitable(displayName) else {
            throw Self.refusal(
                "displayName",
                "is not 1 to \(DisplayName.maximumCharacters) characters, without control characters, and without a blank "
                    + "at either end")
        }
        _ = try context()
    }

    /// Returns the session's purpose.
    ///
    /// - Throws: `malformed_request`.
    func context() throws(Refusal) -> MerchantSessionContext {
        switch initiative {
        case "web":
            guard let domain = DomainName(initiativeContext) else {
                throw Self.refusal(
                    "initiativeContext",
                    "is not a domain name: for web it is one, such as shop.example, without scheme, port, path or dot at "
                        + "its end, and in its ASCII form (xn--…)")
            }
            return .web(domain)
        case "messaging":
            guard let host = MessagingURL.host(of: initiativeContext) else {
                throw Self.refusal(
                    "initiativeContext",
                    "is not a URL that begins with https:// and a domain name, without user, port and fragment")
            }
            return .messaging(host)
        case "in_app":
            guard Self.isTeamIdentifier(initiativeContext) else {
                throw Self.refusal(
                    "initiativeContext",
                    "is not a team identifier: for in_app it is one, of 10 upper-case letters and digits")
            }
            return .inApp
        default: throw Self.refusal("initiative", "is none of web, messaging and in_app")
        }
    }

    private static func refusal(_ member: String, _ fault: String) -> Refusal {
        Refusal(.malformedRequest, "\(member) \(fault).", details: member)
    }

    static func isMerchantIdentifier(_ text: String) -> Bool {
        (1...255).contains(text.utf8.count)
            && text.utf8.allSatisfy { byte in
                DomainName.isLetterOrDigit(byte) || byte == UInt8(ascii: ".") || byte == UInt8(ascii: "-")
                    || byte == UInt8(ascii: "_")
            }
    }

    private static func isTeamIdentifier(_ text: String) -> Bool {
        text.utf8.count == 10
            && text.utf8.allSatisfy { byte in
                (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(byte)
                    || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
            }
    }
}

/// The purpose of a session, which includes the domain that the client must be permitted to use.
enum MerchantSessionContext: Sendable, Equatable {
    case web(DomainName)
    /// A conversation in Apple Messages for Business, with the host of its URL.
    case messaging(DomainName)
    /// An app has no domain.
    case inApp

    var domain: DomainName? {
        switch self {
        case .web(let domain), .messaging(let domain): domain
        case .inApp: nil
        }
    }
}

/// A fully qualified domain name in ASCII: at least two labels of letters, digits and inner hyphens (RFC 1123 §2.1),
/// 253 bytes at most. An internationalised name must be in its A-label form (RFC 5890 §2.3.2.1).
struct DomainName: Sendable, Hashable {
    /// The name in lower case, since case is not significant.
    let name: String

    /// Returns nil if the text is not such a name, but for example an IP address, a name with a trailing dot, or a part
    /// of a URL.
    init?(_ text: some StringProtocol) {
        let bytes = Array(text.utf8)
        let labels = bytes.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        let hyphen = UInt8(ascii: "-")
        guard bytes.count <= 253, labels.count >= 2 else { return nil }
        for label in labels {
            guard (1...63).contains(label.count), label.first != hyphen, label.last != hyphen,
                label.allSatisfy({ Self.isLetterOrDigit($0) || $0 == hyphen })
            else { return nil }
        }
        // The last label must not begin with a digit. Otherwise 10.0.0.1 would be a name, and so would forms that some
        // parsers read as an address (0x7f.1, 127.1).
        guard let last = labels.last, let first = last.first, !(UInt8(ascii: "0")...UInt8(ascii: "9")).contains(first)
        else { return nil }
        name = text.lowercased()
    }

    static func isLetterOrDigit(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"):
            true
        default: false
        }
    }
}

/// A URL of Apple Messages for Business. It is sent to Apple unchanged and never fetched.
enum MessagingURL {
    static func host(of text: String) -> DomainName? {
        let scheme = "https://"
        guard text.utf8.count <= 1024, text.hasPrefix(scheme) else { return nil }
        let rest = text.dropFirst(scheme.count)
        // Visible ASCII, except for a fragment and for characters that RFC 3986 never allows.
        let excluded = Array(#""<>\^`{|}#"#.utf8) + [UInt8(ascii: "#")]
        guard rest.utf8.allSatisfy({ (0x21...0x7E).contains($0) && !excluded.contains($0) }) else { return nil }
        return DomainName(rest.prefix { $0 != "/" && $0 != "?" })
    }
}

/// The shop's name on the payment sheet.
enum DisplayName {
    static let maximumCharacters = 64

    static func isSuitable(_ text: String) -> Bool {
        let scalars = text.unicodeScalars
        guard (1...maximumCharacters).contains(scalars.count), scalars.allSatisfy(isShown),
            let first = scalars.first, let last = scalars.last
        else { return false }
        return !first.properties.isWhitespace && !last.properties.isWhitespace
    }

    /// Returns false for control characters, line ends, noncharacters, and characters that change the direction of text
    /// (UAX #9).
    private static func isShown(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.properties.generalCategory {
        case .control, .lineSeparator, .paragraphSeparator, .surrogate: false
        default:
            !scalar.properties.isNoncharacterCodePoint && !scalar.properties.isBidiControl
        }
    }
}

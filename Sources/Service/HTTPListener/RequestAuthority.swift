import Encodings
import NIOHTTP1

/// The host and the port that a request is for: the Host field's value and a part of an absolute target (RFC 9110 §7.2).
///
/// No answer depends on them. A malformed one is refused since a proxy and this program could take it for different hosts.
enum RequestAuthority {
    /// Returns true for a host (RFC 3986 §3.2.2) with or without a port. The host may be empty; user information is refused
    /// (RFC 9110 §4.2.4).
    static func isWellFormed(_ text: String) -> Bool {
        var rest = text.utf8[...]
        if rest.first == UInt8(ascii: "[") {
            let address = rest.dropFirst().prefix { isInName($0) || $0 == UInt8(ascii: ":") }
            rest = rest.dropFirst(address.count + 1)
            guard !address.isEmpty, rest.popFirst() == UInt8(ascii: "]") else { return false }
        } else {
            let name = rest.prefix(while: isInName)
            rest = rest.dropFirst(name.count)
            guard !name.contains(UInt8(ascii: "%")) || PercentEncoding.decoded(Substring(name)) != nil else {
                return false
            }
        }
        guard let colon = rest.popFirst() else { return true }
        return colon == UInt8(ascii: ":") && rest.allSatisfy { UInt8(ascii: "0")...UInt8(ascii: "9") ~= $0 }
    }

    /// An unreserved character, a subordinate delimiter, or the percent sign.
    private static func isInName(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"):
            true
        default: "-._~!$&'()*+,;=%".utf8.contains(byte)
        }
    }
}

extension HTTPServerRequestPart {
    /// A head without the white space after its fields' values, which is no part of them (RFC 9112 §5.1) and which the decoder
    /// keeps.
    var trimmed: HTTPServerRequestPart {
        let isSpace = { (byte: UInt8) in byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t") }
        guard case .head(var head) = self, head.headers.contains(where: { $0.value.utf8.last.map(isSpace) == true })
        else { return self }
        head.headers = HTTPHeaders(
            head.headers.map { name, value in
                (name, String(decoding: Array(value.utf8.reversed().drop(while: isSpace).reversed()), as: UTF8.self))
            })
        return .head(head)
    }
}

import Foundation

/// A request's query, RFC 3986 §3.4.
enum QueryText {
    /// `?name=value&…`, or nothing when there is none.
    static func of(_ members: [(name: String, value: String)]) -> String {
        let text = members.map { "\($0.name)=\(encoded($0.value))" }.joined(separator: "&")
        return text.isEmpty ? "" : "?" + text
    }

    /// Percent-encoded but for RFC 3986's unreserved characters.
    static func encoded(_ text: String) -> String {
        let unreserved = CharacterSet(
            charactersIn: "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
        return text.addingPercentEncoding(withAllowedCharacters: unreserved) ?? ""
    }
}

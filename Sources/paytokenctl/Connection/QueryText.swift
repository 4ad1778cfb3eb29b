import Encodings

/// A request's query, RFC 3986 §3.4.
enum QueryText {
    /// `?name=value&…`, or nothing when there is none.
    static func of(_ members: [(name: String, value: String)]) -> String {
        let text = members.map { "\($0.name)=\(PercentEncoding.encoded($0.value))" }.joined(separator: "&")
        return text.isEmpty ? "" : "?" + text
    }
}

import Encodings
import Foundation

/// The header field Repr-Digest, RFC 9530 §3: a dictionary of algorithms and byte sequences (RFC 9651 §3.2).
enum ReprDigest {
    /// The 32 bytes of `sha-256=:…:`; nil when it is not there, or is not one.
    static func sha256(_ field: String) -> [UInt8]? {
        let members = field.split(separator: ",").map { $0.trimmingCharacters(in: .whitespaces) }
        guard let member = members.last(where: { $0.hasPrefix("sha-256=:") }), member.hasSuffix(":"),
            let digest = Base64.decode(String(member.dropFirst("sha-256=:".count).dropLast())), digest.count == 32
        else { return nil }
        return digest
    }
}

import Crypto
import DaemonAPI
import Encodings
import Foundation

/// A secret that a merchant's backend sends with each request: `Authorization: Bearer KEY` (RFC 6750 §2.1).
///
/// A key has a prefix, followed by 32 random bytes in base64url without padding (RFC 4648 §5). Scanners of repositories
/// and logs can recognise a key by the prefix. The configuration contains only the key's SHA-256, because a key of 256
/// random bits needs no salt and no slow hash.
struct BearerKey: Sendable {
    static let prefix = "ptgw_"
    static let randomBytes = 32
    /// The maximum length in bytes of a header value that is read as a key.
    static let maximumBytes = 256

    let text: String

    init() {
        var generator = SystemRandomNumberGenerator()
        let bytes = (0..<Self.randomBytes).map { _ in UInt8.random(in: .min ... .max, using: &generator) }
        let encoded = Base64.encode(bytes).replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
        text = Self.prefix + encoded
    }

    /// The key's SHA-256 (32 bytes), which the configuration contains as `key_sha256`.
    var sha256: [UInt8] { Self.sha256(of: text) }

    static func sha256(of text: String) -> [UInt8] { Array(SHA256.hash(data: Data(text.utf8))) }
}

/// The content of a request's `Authorization` header.
enum Authorization: Equatable {
    case absent
    /// The key's SHA-256 (32 bytes).
    case bearer(sha256: [UInt8])
    /// A different scheme, no key, or more than one key.
    case unusable

    /// Reads the key from a request's headers.
    ///
    /// - Parameter values: the values of all `Authorization` headers.
    init(_ values: [String]) {
        guard let value = values.first else {
            self = .absent
            return
        }
        let parts = value.split(separator: " ", maxSplits: 1)
        guard values.count == 1, value.utf8.count <= BearerKey.maximumBytes, parts.count == 2,
            parts[0].lowercased() == "bearer", !parts[1].isEmpty,
            parts[1].utf8.allSatisfy({ (0x21...0x7E).contains($0) })
        else {
            self = .unusable
            return
        }
        self = .bearer(sha256: BearerKey.sha256(of: String(parts[1])))
    }
}

/// The output of `paytoken-gateway new-key`. No other command shows the key.
public struct NewBearerKey: Encodable, Sendable {
    /// The key for the client's backend. The gateway stores only its hash.
    public let key: String
    /// The hash for the client's `key_sha256`, 64 lower-case hexadecimal digits.
    public let keySHA256: String

    private enum CodingKeys: String, CodingKey {
        case key
        case keySHA256 = "key_sha256"
    }

    public init() {
        let made = BearerKey()
        key = made.text
        keySHA256 = Hexadecimal.encode(made.sha256)
    }

    /// The key and its hash as one JSON object on one line, without a newline.
    public var json: String {
        (try? JSONCoding.encode(self)).map { String(decoding: $0, as: UTF8.self) } ?? ""
    }
}

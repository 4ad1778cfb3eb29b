import Crypto
import Foundation

/// The claims of a valid token: signed with the team's key by ES256, for this API, and within its time.
struct PortalToken {
    let scope: [String]?
    let lifetime: Int

    /// Returns nil for a token that the API refuses.
    init?(_ text: String, signedBy key: PortalSimulator.Key, now: Int) {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
        guard parts.count == 3, let header = Self.object(parts[0]), let claims = Self.object(parts[1]),
            let signature = Self.bytes(parts[2]), signature.count == 64,
            let parsed = try? P256.Signing.ECDSASignature(rawRepresentation: signature),
            key.publicKey.isValidSignature(parsed, for: Data("\(parts[0]).\(parts[1])".utf8)),
            header["alg"] as? String == "ES256", header["kid"] as? String == key.keyId,
            header["typ"] as? String == "JWT", claims["iss"] as? String == key.issuer,
            claims["aud"] as? String == "appstoreconnect-v1", let begin = claims["iat"] as? Int,
            let end = claims["exp"] as? Int, begin <= now, now < end, end - begin <= 20 * 60
        else { return nil }
        scope = claims["scope"] as? [String]
        lifetime = end - begin
    }

    private static func object(_ text: String) -> [String: Any]? {
        bytes(text).flatMap { try? JSONSerialization.jsonObject(with: $0) as? [String: Any] }
    }

    private static func bytes(_ text: String) -> Data? {
        let base64 = text.replacingOccurrences(of: "-", with: "+").replacingOccurrences(of: "_", with: "/")
        return Data(base64Encoded: base64 + String(repeating: "=", count: (4 - base64.count % 4) % 4))
    }
}

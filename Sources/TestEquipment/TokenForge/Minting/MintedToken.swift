public import Foundation

/// A finished token: its parts, and the JSON that a device would hand over.
public struct MintedToken: Sendable {
    public let version: String
    /// The encrypted bytes, as they must come out again.
    public let plaintext: [UInt8]
    /// transactionId in lower-case hexadecimal, 64 characters.
    public let transactionIdentifier: String
    /// publicKeyHash, 32 bytes.
    public let publicKeyHash: [UInt8]
    public let signingTime: Date
    /// What the signature covers: (ephemeralPublicKey | wrappedKey) ‖ data ‖ transactionId ‖ applicationData.
    public let signedContent: [UInt8]
    /// The CMS message.
    public let signature: [UInt8]
    /// The two certificates that a genuine message carries, leaf and intermediate, in DER.
    public let certificates: [[UInt8]]
    /// The `paymentData` dictionary.
    public let paymentData: [UInt8]
    /// The whole PKPaymentToken: paymentData, paymentMethod, transactionIdentifier.
    public let paymentToken: [UInt8]

    /// A body for `POST /v1/decrypt`.
    ///
    /// - Parameters:
    ///   - expected: the `expected` member as JSON text.
    ///   - reference: the caller's reference.
    ///   - whole: whether `token` is the PKPaymentToken or only its paymentData.
    public func decryptBody(expected: String? = nil, reference: String? = nil, whole: Bool = true) -> [UInt8] {
        var body = Array("{\"token\":".utf8) + (whole ? paymentToken : paymentData)
        if let expected { body += Array(",\"expected\":\(expected)".utf8) }
        if let reference { body += Array(",\"reference\":\(JSONText.string(reference))".utf8) }
        return body + [UInt8(ascii: "}")]
    }

    /// A body for `POST /v1/verify`; `at` in RFC 3339.
    public func verifyBody(at time: String? = nil) -> [UInt8] {
        var body = Array("{\"token\":".utf8) + paymentToken
        if let time { body += Array(",\"at\":\(JSONText.string(time))".utf8) }
        return body + [UInt8(ascii: "}")]
    }
}

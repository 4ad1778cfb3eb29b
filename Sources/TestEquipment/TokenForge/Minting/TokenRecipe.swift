public import Foundation

/// What a token is to be made of.
public struct TokenRecipe: Sendable {
    /// The version as it stands in the token; `RSA…` makes an RSA_v1 token, anything else an EC_v1 one.
    public var version: String
    /// To whom it is encrypted.
    public var merchant: Merchant
    /// The bytes that are encrypted.
    public var payload: [UInt8]
    /// The request's applicationData before hashing; nil leaves the header out.
    public var applicationData: [UInt8]?
    /// signingTime; the encoding has whole seconds.
    public var signingTime: Date
    /// transactionId, 32 bytes.
    public var transactionIdentifier: [UInt8]
    public var wire: WireForm
    public var deviations: Set<Deviation>
    /// EC_v1: makes the ECDH shared secret begin with a zero byte.
    public var leadingZeroSharedSecret = false

    /// A token that nothing is wrong with, in the version that fits the merchant's key, signed at `signingTime`.
    public init(
        merchant: Merchant, payload: [UInt8] = PayloadRecipe().json, applicationData: [UInt8]? = nil,
        signingTime: Date = Date(), wire: WireForm = .since2023, deviations: Set<Deviation> = []
    ) {
        version = merchant.isEllipticCurve ? "EC_v1" : "RSA_v1"
        self.merchant = merchant
        self.payload = payload
        self.applicationData = applicationData
        self.signingTime = Date(timeIntervalSince1970: signingTime.timeIntervalSince1970.rounded(.down))
        transactionIdentifier = (0..<32).map { _ in UInt8.random(in: .min ... .max) }
        self.wire = wire
        self.deviations = deviations
    }

    var isRSA: Bool { version.hasPrefix("RSA") }
    func has(_ deviation: Deviation) -> Bool { deviations.contains(deviation) }
}

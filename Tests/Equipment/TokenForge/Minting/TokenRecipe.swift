public import Foundation

/// What a payment token is to be made of.
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

    /// A payment token with nothing wrong, in the version that fits the merchant's key, signed at `signingTime`.
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

/// How a genuine signature is written: the forms that Apple's tokens had over the years, all of them to be accepted.
public struct WireForm: Sendable, Equatable {
    /// BER with indefinite lengths at five levels, as every real token; or DER throughout.
    public var indefiniteLengths = true
    /// SHA-256's AlgorithmIdentifier carries NULL (until 2021) or no parameters (from 2023).
    public var digestParametersNull = true
    /// The signed attribute cmsAlgorithmProtection (RFC 6211), there since about 2019.
    public var algorithmProtection = true
    /// RSA_v1 only: the signature algorithm is called rsaEncryption instead of sha256WithRSAEncryption.
    public var rsaEncryptionAlgorithm = false
    /// The issuer's certificate stands before the signer's.
    public var issuerFirst = false
    /// Base64 and hexadecimal in the JSON: base64 without its padding.
    public var unpaddedBase64 = false
    /// transactionId, applicationData and transactionIdentifier in upper-case hexadecimal.
    public var upperCaseHex = false

    public init() {}

    /// As signed from 2014 on.
    public static var since2014: WireForm {
        var form = WireForm()
        form.algorithmProtection = false
        form.rsaEncryptionAlgorithm = true
        return form
    }

    /// As signed about 2019 to 2021.
    public static var since2019: WireForm { WireForm() }

    /// As signed from 2023 on.
    public static var since2023: WireForm {
        var form = WireForm()
        form.digestParametersNull = false
        return form
    }

    /// The same message in DER.
    public static var distinguished: WireForm {
        var form = WireForm()
        form.indefiniteLengths = false
        return form
    }
}

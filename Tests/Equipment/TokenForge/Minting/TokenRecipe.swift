public import Foundation

/// The content of a payment token.
public struct TokenRecipe: Sendable {
    /// The version in the payment token; `RSA…` makes an RSA_v1 payment token, anything else an EC_v1 one.
    public var version: String
    /// The recipient.
    public var merchant: Merchant
    /// The bytes that are encrypted.
    public var payload: [UInt8]
    /// The request's applicationData before hashing; nil omits the header field.
    public var applicationData: [UInt8]?
    /// signingTime; the encoding has whole seconds.
    public var signingTime: Date
    /// transactionId, 32 bytes.
    public var transactionIdentifier: [UInt8]
    public var wire: WireForm
    public var deviations: Set<Deviation>
    /// EC_v1: makes the ECDH shared secret begin with a zero byte.
    public var leadingZeroSharedSecret = false

    /// A payment token without deviations, in the version for the merchant's key, signed at `signingTime`.
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

/// The encoding of a genuine signature: the forms of Apple's payment tokens over the years, all to be accepted.
public struct WireForm: Sendable, Equatable {
    /// True for BER with indefinite lengths at five levels, as in every real payment token; false for DER throughout.
    public var indefiniteLengths = true
    /// True if SHA-256's AlgorithmIdentifier carries NULL (until 2021), false without parameters (from 2023).
    public var digestParametersNull = true
    /// True for the signed attribute cmsAlgorithmProtection (RFC 6211), present since about 2019.
    public var algorithmProtection = true
    /// RSA_v1 only: names the signature algorithm rsaEncryption instead of sha256WithRSAEncryption.
    public var rsaEncryptionAlgorithm = false
    /// Places the issuer's certificate before the signer's.
    public var issuerFirst = false
    /// Writes the JSON's base64 without padding.
    public var unpaddedBase64 = false
    /// Writes transactionId, applicationData and transactionIdentifier in upper-case hexadecimal.
    public var upperCaseHex = false

    public init() {}

    /// The form of signatures from 2014 on.
    public static var since2014: WireForm {
        var form = WireForm()
        form.algorithmProtection = false
        form.rsaEncryptionAlgorithm = true
        return form
    }

    /// The form of signatures of about 2019 to 2021.
    public static var since2019: WireForm { WireForm() }

    /// The form of signatures from 2023 on.
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

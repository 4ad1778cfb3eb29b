public import Foundation

/// The instructions for minting a payment token.
public struct TokenRecipe: Sendable {
    /// The version that the payment token states. If it begins with `RSA`, the payment token is made as RSA_v1,
    /// otherwise as EC_v1.
    public var version: String
    /// The recipient.
    public var merchant: Merchant
    /// The bytes to encrypt.
    public var payload: [UInt8]
    /// The payment request's applicationData, which is hashed for the header; nil to omit the header's member.
    public var applicationData: [UInt8]?
    /// The signingTime, which is encoded in whole seconds.
    public var signingTime: Date
    /// The transactionId, 32 bytes.
    public var transactionIdentifier: [UInt8]
    public var wire: WireForm
    public var deviations: Set<Deviation>
    /// True to make the ECDH shared secret of EC_v1 begin with a zero byte.
    public var leadingZeroSharedSecret = false

    /// Makes a recipe without deviations, in the version that fits the merchant's key.
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

/// The encoding of a genuine payment token. Apple's encoding has changed over the years, and verifiers must accept
/// every form.
public struct WireForm: Sendable, Equatable {
    /// True for BER with indefinite lengths at five levels, as in every real payment token; false for DER.
    public var indefiniteLengths = true
    /// True if SHA-256's AlgorithmIdentifier has NULL (until 2021); false if it has no parameters (from 2023).
    public var digestParametersNull = true
    /// True to add the signed attribute cmsAlgorithmProtection (RFC 6211), present since about 2019.
    public var algorithmProtection = true
    /// True to identify the signature algorithm of RSA_v1 as rsaEncryption instead of sha256WithRSAEncryption.
    public var rsaEncryptionAlgorithm = false
    /// True to place the issuer's certificate before the signer's.
    public var issuerFirst = false
    /// True to write the JSON's base64 without padding.
    public var unpaddedBase64 = false
    /// True to write transactionId, applicationData and transactionIdentifier in upper-case hexadecimal.
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

    /// The form of a message that is DER throughout.
    public static var distinguished: WireForm {
        var form = WireForm()
        form.indefiniteLengths = false
        return form
    }
}

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

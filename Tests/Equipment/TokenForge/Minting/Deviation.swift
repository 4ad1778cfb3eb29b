/// A fault or an unusual form of a payment token. The cases are the attacks and mistakes that a verifier must
/// distinguish.
///
/// Everything else in the payment token is valid, so that exactly one check fails. Raw values are the names for
/// `token-forge mint --deviation`.
public enum Deviation: String, CaseIterable, Sendable, Hashable {
    // Deviations of the CMS message.
    case notCMS = "not-cms"
    case truncatedSignature = "truncated-signature"
    case trailingBytes = "trailing-bytes"
    case encapsulatedContent = "encapsulated-content"
    case noCertificates = "no-certificates"
    case onlyLeafCertificate = "only-leaf-certificate"
    case duplicateCertificate = "duplicate-certificate"
    case rootCertificateIncluded = "root-certificate-included"
    case thirdCertificateSigns = "third-certificate-signs"
    case noSigner = "no-signer"
    case twoSigners = "two-signers"
    case signerNotAmongCertificates = "signer-not-among-certificates"
    case signerByKeyIdentifier = "signer-by-key-identifier"
    case digestSHA1 = "digest-sha1"
    case revocationLists = "revocation-lists"

    // Deviations of signed attributes and signature.
    case noSignedAttributes = "no-signed-attributes"
    case missingContentType = "missing-content-type"
    case missingSigningTime = "missing-signing-time"
    case missingMessageDigest = "missing-message-digest"
    case duplicateContentType = "duplicate-content-type"
    case duplicateSigningTime = "duplicate-signing-time"
    case duplicateMessageDigest = "duplicate-message-digest"
    case twoMessageDigestValues = "two-message-digest-values"
    case wrongContentType = "wrong-content-type"
    case wrongMessageDigest = "wrong-message-digest"
    case algorithmProtectionMismatch = "algorithm-protection-mismatch"
    case generalizedSigningTime = "generalized-signing-time"
    case flippedSignature = "flipped-signature"
    case signatureByOtherKey = "signature-by-other-key"

    // Changes to the signed content after the signature.
    case otherContent = "other-content"
    case dataChanged = "data-changed"
    case keyMaterialChanged = "key-material-changed"
    case transactionIdentifierChanged = "transaction-id-changed"
    case applicationDataAdded = "application-data-added"
    case applicationDataRemoved = "application-data-removed"
    case applicationDataChanged = "application-data-changed"

    // Deviations of the certificate chain.
    case otherRoot = "other-root"
    case leafIssuedByRoot = "leaf-issued-by-root"
    case leafWithForgedIssuerSignature = "leaf-with-forged-issuer-signature"
    case leafExpired = "leaf-expired"
    case leafNotYetValid = "leaf-not-yet-valid"
    case leafWithoutDigitalSignature = "leaf-without-digital-signature"
    case leafIsCA = "leaf-is-ca"
    case leafWithUnknownCriticalExtension = "leaf-with-unknown-critical-extension"
    case intermediateExpired = "intermediate-expired"
    case intermediateNotCA = "intermediate-not-ca"
    case intermediateWithoutKeyCertSign = "intermediate-without-key-cert-sign"

    // Deviations of the markers.
    case leafMarkerMissing = "leaf-marker-missing"
    case intermediateMarkerMissing = "intermediate-marker-missing"
    case markersSwapped = "markers-swapped"
    case leafMarkerOnIntermediate = "leaf-marker-on-intermediate"

    // Deviations of the key and the plaintext.
    case unknownPublicKeyHash = "unknown-public-key-hash"
    case pointOffCurve = "point-off-curve"
    case pointCompressed = "point-compressed"
    case pointAtInfinity = "point-at-infinity"
    case otherMerchantIdentifier = "other-merchant-identifier"
    case badTag = "bad-tag"
    case dataShorterThanTag = "data-shorter-than-tag"
    case wrappedKeyWithLabel = "wrapped-key-with-label"
    case wrappedKeyWithSHA1 = "wrapped-key-with-sha1"
    case wrappedKeyWithMaskSHA1 = "wrapped-key-with-mask-sha1"
    case wrappedKeyWithFirstOctet = "wrapped-key-with-first-octet"
    case wrappedKeyWithPKCS1 = "wrapped-key-with-pkcs1"
    case wrappedKeyForOtherKey = "wrapped-key-for-other-key"
    case wrappedKeyOf32Bytes = "wrapped-key-of-32-bytes"
    case wrappedKeyTruncated = "wrapped-key-truncated"
    case plaintextNotJSON = "plaintext-not-json"
    case plaintextNotUTF8 = "plaintext-not-utf8"
    case plaintextArray = "plaintext-array"
    case plaintextDuplicateMember = "plaintext-duplicate-member"
    case plaintextTwoValues = "plaintext-two-values"
    case plaintextEmpty = "plaintext-empty"

    // Deviations of the JSON.
    case unsupportedVersion = "unsupported-version"
    case outerTransactionIdentifierDiffers = "outer-transaction-identifier-differs"
    case bothKeyMaterials = "both-key-materials"
    case noKeyMaterial = "no-key-material"
    case signatureNotBase64 = "signature-not-base64"
    case publicKeyHashTooShort = "public-key-hash-too-short"
    case transactionIdentifierNotHex = "transaction-id-not-hex"
    case applicationDataBase64 = "application-data-base64"
    case headerMissing = "header-missing"
    case duplicateHeaderMember = "duplicate-header-member"
    case unknownMembers = "unknown-members"
}

extension Deviation {
    /// The deviation's description in one line.
    public var summary: String {
        switch self {
        case .notCMS: "the signature is not CMS at all"
        case .truncatedSignature: "the CMS message ends early"
        case .trailingBytes: "bytes follow the CMS message"
        case .encapsulatedContent: "the CMS message carries its own content, and signs that"
        case .noCertificates: "no certificate in the message"
        case .onlyLeafCertificate: "the intermediate is left out"
        case .duplicateCertificate: "the signer's certificate twice"
        case .rootCertificateIncluded: "the root beside the other two"
        case .thirdCertificateSigns: "a self-made third certificate signs, beside the genuine two"
        case .noSigner: "signerInfos is empty"
        case .twoSigners: "a second SignerInfo, as good as the first"
        case .signerNotAmongCertificates: "the signer identifier names a serial number that no certificate has"
        case .signerByKeyIdentifier: "the signer is identified by subjectKeyIdentifier"
        case .digestSHA1: "SHA-1 digest and signature"
        case .revocationLists: "a crls field"
        case .noSignedAttributes: "the signature is over the content itself"
        case .missingContentType: "no contentType attribute"
        case .missingSigningTime: "no signingTime attribute"
        case .missingMessageDigest: "no messageDigest attribute"
        case .duplicateContentType: "contentType twice"
        case .duplicateSigningTime: "signingTime twice, the second an hour later"
        case .duplicateMessageDigest: "messageDigest twice, right and wrong"
        case .twoMessageDigestValues: "one messageDigest attribute with two values"
        case .wrongContentType: "contentType is signedData instead of data"
        case .wrongMessageDigest: "messageDigest is that of another content, signed"
        case .algorithmProtectionMismatch: "cmsAlgorithmProtection names SHA-1"
        case .generalizedSigningTime: "signingTime as GeneralizedTime before 2050"
        case .flippedSignature: "one bit of the signature value is different"
        case .signatureByOtherKey: "signed with another key than the leaf's"
        case .otherContent: "the genuine signature of another token"
        case .dataChanged: "data changed after signing"
        case .keyMaterialChanged: "another ephemeral key or wrapped key put in after signing"
        case .transactionIdentifierChanged: "transactionId changed after signing, inside and outside"
        case .applicationDataAdded: "an applicationData header added after signing"
        case .applicationDataRemoved: "the applicationData header removed after signing"
        case .applicationDataChanged: "the applicationData header changed after signing"
        case .otherRoot: "the whole chain under another root with the same names"
        case .leafIssuedByRoot: "the root issued the leaf; no intermediate"
        case .leafWithForgedIssuerSignature: "the leaf names the intermediate, which did not sign it"
        case .leafExpired: "the leaf had expired at signing time"
        case .leafNotYetValid: "the leaf was not valid yet at signing time"
        case .leafWithoutDigitalSignature: "the leaf's key usage is keyAgreement"
        case .leafIsCA: "the leaf is a certification authority"
        case .leafWithUnknownCriticalExtension: "the leaf has an unknown critical extension"
        case .intermediateExpired: "the intermediate had expired at signing time"
        case .intermediateNotCA: "the intermediate's basic constraints say that it is no authority"
        case .intermediateWithoutKeyCertSign: "the intermediate's key usage lacks keyCertSign"
        case .leafMarkerMissing: "the leaf lacks 1.2.840.113635.100.6.29"
        case .intermediateMarkerMissing: "the intermediate lacks 1.2.840.113635.100.6.2.14"
        case .markersSwapped: "each of the two has the other's marker"
        case .leafMarkerOnIntermediate: "the intermediate has both markers, the leaf none"
        case .unknownPublicKeyHash: "publicKeyHash of a key that nobody has"
        case .pointOffCurve: "the ephemeral point is not on P-256, signed"
        case .pointCompressed: "the ephemeral point in compressed form, signed"
        case .pointAtInfinity: "the ephemeral point is the point at infinity, signed"
        case .otherMerchantIdentifier: "encrypted for another merchant identifier"
        case .badTag: "the GCM tag is wrong, signed"
        case .dataShorterThanTag: "data of 15 bytes, signed"
        case .wrappedKeyWithLabel: "OAEP with a label"
        case .wrappedKeyWithSHA1: "OAEP with SHA-1"
        case .wrappedKeyWithMaskSHA1: "OAEP with SHA-256 but MGF1 with SHA-1"
        case .wrappedKeyWithFirstOctet: "OAEP whose encoded message does not begin with 00"
        case .wrappedKeyWithPKCS1: "PKCS#1 v1.5 instead of OAEP"
        case .wrappedKeyForOtherKey: "wrapped for another RSA key"
        case .wrappedKeyOf32Bytes: "the wrapped key has 32 bytes instead of 16"
        case .wrappedKeyTruncated: "wrappedKey lacks its last byte, signed"
        case .plaintextNotJSON: "the decrypted bytes are not JSON"
        case .plaintextNotUTF8: "the decrypted JSON is not UTF-8"
        case .plaintextArray: "the decrypted JSON is an array"
        case .plaintextDuplicateMember: "the decrypted JSON has transactionAmount twice"
        case .plaintextTwoValues: "a second JSON value follows the first"
        case .plaintextEmpty: "nothing was encrypted: data is the tag alone"
        case .unsupportedVersion: "version EC_v2"
        case .outerTransactionIdentifierDiffers: "transactionIdentifier outside differs from transactionId inside"
        case .bothKeyMaterials: "the header has ephemeralPublicKey and wrappedKey"
        case .noKeyMaterial: "the header has neither ephemeralPublicKey nor wrappedKey"
        case .signatureNotBase64: "the signature is not base64"
        case .publicKeyHashTooShort: "publicKeyHash of 31 bytes"
        case .transactionIdentifierNotHex: "transactionId is not hexadecimal"
        case .applicationDataBase64: "applicationData in base64 instead of hexadecimal"
        case .headerMissing: "no header"
        case .duplicateHeaderMember: "publicKeyHash twice in the header"
        case .unknownMembers: "unknown members everywhere"
        }
    }

    /// The code with which a verifier must refuse the payment token; nil if it must accept it.
    public var refusal: String? {
        switch self {
        case .unknownMembers: nil
        case .notCMS, .truncatedSignature, .trailingBytes, .encapsulatedContent, .noCertificates, .onlyLeafCertificate,
            .duplicateCertificate, .rootCertificateIncluded, .thirdCertificateSigns, .noSigner, .twoSigners,
            .signerNotAmongCertificates, .signerByKeyIdentifier, .digestSHA1, .revocationLists, .noSignedAttributes,
            .missingContentType, .missingSigningTime, .missingMessageDigest, .duplicateContentType,
            .duplicateSigningTime, .duplicateMessageDigest, .twoMessageDigestValues, .wrongContentType,
            .wrongMessageDigest, .algorithmProtectionMismatch, .generalizedSigningTime, .flippedSignature,
            .signatureByOtherKey, .otherContent, .dataChanged, .keyMaterialChanged, .transactionIdentifierChanged,
            .applicationDataAdded, .applicationDataRemoved, .applicationDataChanged:
            "signature_invalid"
        case .otherRoot, .leafIssuedByRoot, .leafWithForgedIssuerSignature, .leafExpired, .leafNotYetValid,
            .leafWithoutDigitalSignature, .leafIsCA, .leafWithUnknownCriticalExtension, .intermediateExpired,
            .intermediateNotCA, .intermediateWithoutKeyCertSign:
            "certificate_untrusted"
        case .leafMarkerMissing, .intermediateMarkerMissing, .markersSwapped, .leafMarkerOnIntermediate:
            "marker_oid_missing"
        case .unknownPublicKeyHash: "unknown_public_key_hash"
        case .pointOffCurve, .otherMerchantIdentifier, .badTag, .wrappedKeyWithLabel, .wrappedKeyWithSHA1,
            .wrappedKeyWithMaskSHA1, .wrappedKeyWithFirstOctet, .wrappedKeyWithPKCS1, .wrappedKeyForOtherKey,
            .wrappedKeyOf32Bytes, .plaintextNotJSON, .plaintextNotUTF8, .plaintextArray,
            .plaintextDuplicateMember, .plaintextTwoValues:
            "decryption_failed"
        case .unsupportedVersion: "unsupported_version"
        case .pointCompressed, .pointAtInfinity, .dataShorterThanTag, .outerTransactionIdentifierDiffers,
            .wrappedKeyTruncated, .plaintextEmpty, .bothKeyMaterials, .noKeyMaterial, .signatureNotBase64,
            .publicKeyHashTooShort,
            .transactionIdentifierNotHex, .applicationDataBase64, .headerMissing, .duplicateHeaderMember:
            "malformed_token"
        }
    }

    /// Returns true if a payment token of `version` can have the deviation.
    public func applies(to version: String) -> Bool {
        switch self {
        case .pointOffCurve, .pointCompressed, .pointAtInfinity, .otherMerchantIdentifier: version == "EC_v1"
        case .wrappedKeyWithLabel, .wrappedKeyWithSHA1, .wrappedKeyWithMaskSHA1, .wrappedKeyWithFirstOctet,
            .wrappedKeyWithPKCS1, .wrappedKeyForOtherKey, .wrappedKeyOf32Bytes, .wrappedKeyTruncated:
            version.hasPrefix("RSA")
        default: true
        }
    }
}

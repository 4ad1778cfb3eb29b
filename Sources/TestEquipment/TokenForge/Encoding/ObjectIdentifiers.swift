/// The object identifiers that tokens and certificates carry, in dotted form.
enum OID {
    // Names (X.520; userId is RFC 4519's 0.9.2342.19200300.100.1.1).
    static let commonName = "2.5.4.3"
    static let countryName = "2.5.4.6"
    static let organizationName = "2.5.4.10"
    static let organizationalUnitName = "2.5.4.11"
    static let userID = "0.9.2342.19200300.100.1.1"

    // Keys and signatures.
    static let ecPublicKey = "1.2.840.10045.2.1"
    static let prime256v1 = "1.2.840.10045.3.1.7"
    static let ecdsaWithSHA256 = "1.2.840.10045.4.3.2"
    static let ecdsaWithSHA384 = "1.2.840.10045.4.3.3"
    static let rsaEncryption = "1.2.840.113549.1.1.1"
    static let sha1WithRSAEncryption = "1.2.840.113549.1.1.5"
    static let sha256WithRSAEncryption = "1.2.840.113549.1.1.11"
    static let ecdsaWithSHA1 = "1.2.840.10045.4.1"
    static let sha1 = "1.3.14.3.2.26"
    static let sha256 = "2.16.840.1.101.3.4.2.1"

    // Certificate extensions (RFC 5280 §4.2).
    static let subjectKeyIdentifier = "2.5.29.14"
    static let keyUsage = "2.5.29.15"
    static let basicConstraints = "2.5.29.19"
    static let crlDistributionPoints = "2.5.29.31"
    static let certificatePolicies = "2.5.29.32"
    static let authorityKeyIdentifier = "2.5.29.35"
    static let extendedKeyUsage = "2.5.29.37"
    static let authorityInformationAccess = "1.3.6.1.5.5.7.1.1"
    static let ocsp = "1.3.6.1.5.5.7.48.1"
    static let clientAuth = "1.3.6.1.5.5.7.3.2"

    // Apple's own: the two marker OIDs of "Payment token format reference", step 1, and the merchant identifier.
    static let leafMarker = "1.2.840.113635.100.6.29"
    static let intermediateMarker = "1.2.840.113635.100.6.2.14"
    static let merchantIdentifier = "1.2.840.113635.100.6.32"
    static let appleCertificatePolicy = "1.2.840.113635.100.5.1"
    static let unknownExtension = "1.2.840.113635.100.6.999"

    // CMS (RFC 5652 §11; cmsAlgorithmProtection is RFC 6211).
    static let data = "1.2.840.113549.1.7.1"
    static let signedData = "1.2.840.113549.1.7.2"
    static let contentType = "1.2.840.113549.1.9.3"
    static let messageDigest = "1.2.840.113549.1.9.4"
    static let signingTime = "1.2.840.113549.1.9.5"
    static let algorithmProtection = "1.2.840.113549.1.9.52"
}

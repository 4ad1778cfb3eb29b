internal import SwiftASN1

// What CMS and Apple name by number.
extension ASN1ObjectIdentifier {
    /// RFC 5652 §4 and §5.1.
    static let cmsData: ASN1ObjectIdentifier = [1, 2, 840, 113549, 1, 7, 1]
    static let cmsSignedData: ASN1ObjectIdentifier = [1, 2, 840, 113549, 1, 7, 2]

    /// RFC 5652 §11.1 to §11.3; RFC 6211 §2.
    static let contentTypeAttribute: ASN1ObjectIdentifier = [1, 2, 840, 113549, 1, 9, 3]
    static let messageDigestAttribute: ASN1ObjectIdentifier = [1, 2, 840, 113549, 1, 9, 4]
    static let signingTimeAttribute: ASN1ObjectIdentifier = [1, 2, 840, 113549, 1, 9, 5]
    static let cmsAlgorithmProtectionAttribute: ASN1ObjectIdentifier = [1, 2, 840, 113549, 1, 9, 52]

    /// RFC 5754 §2.2 and §3.
    static let sha256: ASN1ObjectIdentifier = [2, 16, 840, 1, 101, 3, 4, 2, 1]
    static let ecdsaWithSHA256: ASN1ObjectIdentifier = [1, 2, 840, 10045, 4, 3, 2]
    static let rsaEncryption: ASN1ObjectIdentifier = [1, 2, 840, 113549, 1, 1, 1]
    static let sha256WithRSAEncryption: ASN1ObjectIdentifier = [1, 2, 840, 113549, 1, 1, 11]

    /// Apple's marker extensions; their values do not matter, only their presence.
    static let applePayLeafMarker: ASN1ObjectIdentifier = [1, 2, 840, 113635, 100, 6, 29]
    static let applePayIntermediateMarker: ASN1ObjectIdentifier = [1, 2, 840, 113635, 100, 6, 2, 14]
}

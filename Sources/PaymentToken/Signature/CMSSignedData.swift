internal import Encodings
internal import SwiftASN1

/// A detached CMS signature in the one form that Apple Pay uses, RFC 5652 §3 and §5.1:
///
///     ContentInfo ::= SEQUENCE { contentType ContentType, content [0] EXPLICIT ANY DEFINED BY contentType }
///     SignedData  ::= SEQUENCE {
///         version CMSVersion,
///         digestAlgorithms SET OF DigestAlgorithmIdentifier,
///         encapContentInfo SEQUENCE { eContentType ContentType, eContent [0] EXPLICIT OCTET STRING OPTIONAL },
///         certificates [0] IMPLICIT CertificateSet OPTIONAL,
///         crls [1] IMPLICIT RevocationInfoChoices OPTIONAL,
///         signerInfos SET OF SignerInfo }
///
/// BER, since Apple writes indefinite lengths. Refused, because no genuine payment token has them: eContent, revocation information,
/// more or fewer than two certificates and one signer, another version or digest.
struct CMSSignedData {
    let certificates: [CertificateFields]
    let signer: CMSSignerInfo

    /// - Throws: `CMSDefect`, or an `ASN1Error` where the bytes are not BER.
    init(contentInfo bytes: [UInt8]) throws {
        // Throws when anything follows the ContentInfo.
        let root = try BER.parse(bytes)
        let signedData = try BER.sequence(root, identifier: .sequence) { nodes in
            guard try ASN1ObjectIdentifier(derEncoded: &nodes) == .cmsSignedData
            else { throw CMSDefect("the CMS content type is not signedData") }
            return try DER.explicitlyTagged(&nodes, tagNumber: 0, tagClass: .contextSpecific) { node in node }
        }
        (certificates, signer) = try BER.sequence(signedData, identifier: .sequence) { nodes in
            guard try Int(derEncoded: &nodes) == 1 else { throw CMSDefect("the version of signedData is not 1") }
            try Self.checkDigestAlgorithms(&nodes)
            try Self.checkEncapsulatedContent(&nodes)
            let certificates = try Self.certificates(&nodes)
            guard let signers = nodes.next(), signers.identifier == .set
            else { throw CMSDefect("signedData has other parts than version, digest, content, certificates, signers") }
            return (certificates, try Self.onlySigner(of: signers))
        }
    }

    private static func checkDigestAlgorithms(_ nodes: inout ASN1NodeCollection.Iterator) throws {
        guard let set = nodes.next(), set.identifier == .set else { throw CMSDefect("digestAlgorithms are missing") }
        let algorithms = try children(of: set).map { node in try AlgorithmIdentifier(node) }
        guard algorithms == [AlgorithmIdentifier(.sha256)]
        else { throw CMSDefect("the digest algorithms are not SHA-256 alone") }
    }

    private static func checkEncapsulatedContent(_ nodes: inout ASN1NodeCollection.Iterator) throws {
        guard let content = nodes.next() else { throw CMSDefect("encapContentInfo is missing") }
        try BER.sequence(content, identifier: .sequence) { nodes in
            guard try ASN1ObjectIdentifier(derEncoded: &nodes) == .cmsData
            else { throw CMSDefect("the encapsulated content type is not data") }
            guard nodes.next() == nil else { throw CMSDefect("the signature is not detached") }
        }
    }

    private static func certificates(
        _ nodes: inout ASN1NodeCollection.Iterator
    ) throws -> [CertificateFields] {
        guard let set = nodes.next(), set.identifier == ASN1Identifier(tagWithNumber: 0, tagClass: .contextSpecific)
        else { throw CMSDefect("there are no certificates") }
        let certificates = try children(of: set)
        guard certificates.count == 2
        else { throw CMSDefect("there are not exactly two certificates, the signer's and its issuer's") }
        return try certificates.map { node in
            do {
                return try CertificateFields(node)
            } catch {
                throw CMSDefect("a certificate is not an X.509 certificate")
            }
        }
    }

    private static func onlySigner(of set: ASN1Node) throws -> CMSSignerInfo {
        let signers = try children(of: set)
        guard signers.count == 1, let signer = signers.first else { throw CMSDefect("there is not exactly one signer") }
        return try CMSSignerInfo(signer)
    }

    private static func children(of node: ASN1Node) throws -> [ASN1Node] {
        guard case .constructed(let children) = node.content else { throw CMSDefect("a set is not constructed") }
        return Array(children)
    }
}

/// The one signer of a payment token, RFC 5652 §5.3:
///
///     SignerInfo ::= SEQUENCE {
///         version CMSVersion,
///         sid SignerIdentifier,
///         digestAlgorithm DigestAlgorithmIdentifier,
///         signedAttrs [0] IMPLICIT SignedAttributes OPTIONAL,
///         signatureAlgorithm SignatureAlgorithmIdentifier,
///         signature SignatureValue,
///         unsignedAttrs [1] IMPLICIT UnsignedAttributes OPTIONAL }
///     IssuerAndSerialNumber ::= SEQUENCE { issuer Name, serialNumber CertificateSerialNumber }
///
/// Refused: a subjectKeyIdentifier as sid, a missing signedAttrs, and unsigned attributes, which no signature covers.
struct CMSSignerInfo {
    /// The issuer's name in the signer's certificate, as its bytes.
    let issuer: ArraySlice<UInt8>
    /// The content of the certificate's serial number.
    let serialNumber: ArraySlice<UInt8>
    let signedAttributes: SignedAttributes
    let signatureAlgorithm: AlgorithmIdentifier
    let signature: ArraySlice<UInt8>

    init(_ node: ASN1Node) throws {
        self = try BER.sequence(node, identifier: .sequence) { nodes in
            guard try Int(derEncoded: &nodes) == 1 else { throw CMSDefect("the version of signerInfo is not 1") }
            let (issuer, serialNumber) = try Self.issuerAndSerialNumber(&nodes)
            guard let digestAlgorithm = nodes.next(),
                try AlgorithmIdentifier(digestAlgorithm) == AlgorithmIdentifier(.sha256)
            else { throw CMSDefect("the signer's digest algorithm is not SHA-256") }
            guard let attributes = nodes.next(),
                attributes.identifier == ASN1Identifier(tagWithNumber: 0, tagClass: .contextSpecific)
            else { throw CMSDefect("there are no signed attributes") }
            guard let algorithm = nodes.next() else { throw CMSDefect("the signature algorithm is missing") }
            let signatureAlgorithm = try AlgorithmIdentifier(algorithm)
            let signature = try ASN1OctetString(derEncoded: &nodes).bytes
            guard nodes.next() == nil else { throw CMSDefect("the signer has unsigned attributes") }
            return CMSSignerInfo(
                issuer: issuer, serialNumber: serialNumber,
                signedAttributes: try SignedAttributes(attributes, signatureAlgorithm: signatureAlgorithm),
                signatureAlgorithm: signatureAlgorithm, signature: signature)
        }
    }

    private init(
        issuer: ArraySlice<UInt8>, serialNumber: ArraySlice<UInt8>, signedAttributes: SignedAttributes,
        signatureAlgorithm: AlgorithmIdentifier, signature: ArraySlice<UInt8>
    ) {
        self.issuer = issuer
        self.serialNumber = serialNumber
        self.signedAttributes = signedAttributes
        self.signatureAlgorithm = signatureAlgorithm
        self.signature = signature
    }

    private static func issuerAndSerialNumber(
        _ nodes: inout ASN1NodeCollection.Iterator
    ) throws -> (issuer: ArraySlice<UInt8>, serialNumber: ArraySlice<UInt8>) {
        guard let sid = nodes.next(), sid.identifier == .sequence
        else { throw CMSDefect("the signer is not named by issuer and serial number") }
        return try BER.sequence(sid, identifier: .sequence) { nodes in
            guard let issuer = nodes.next(), let serial = nodes.next(), serial.identifier == .integer,
                case .primitive(let serialNumber) = serial.content
            else { throw CMSDefect("the signer is not named by issuer and serial number") }
            return (issuer.encodedBytes, serialNumber)
        }
    }
}

/// Names an algorithm, RFC 5280 §4.1.1.2:
///
///     AlgorithmIdentifier ::= SEQUENCE { algorithm OBJECT IDENTIFIER, parameters ANY DEFINED BY algorithm OPTIONAL }
///
/// Parameters are either absent or NULL: no algorithm of Apple's tokens has others. The two compare equal, as RFC 5754
/// §2 and RFC 6211 §2 demand: Apple wrote NULL until 2021 and nothing since 2023.
struct AlgorithmIdentifier: Equatable {
    let algorithm: ASN1ObjectIdentifier

    init(_ algorithm: ASN1ObjectIdentifier) {
        self.algorithm = algorithm
    }

    init(_ node: ASN1Node, identifier: ASN1Identifier = .sequence) throws {
        algorithm = try DER.sequence(node, identifier: identifier) { nodes in
            let algorithm = try ASN1ObjectIdentifier(derEncoded: &nodes)
            if let parameters = nodes.next() {
                do {
                    _ = try ASN1Null(derEncoded: parameters)
                } catch {
                    throw CMSDefect("an algorithm has parameters other than NULL")
                }
            }
            return algorithm
        }
    }
}

/// What is wrong with a CMS structure. The words go into `signature_invalid`'s details; no byte of the structure does.
struct CMSDefect: Error {
    let reason: String

    init(_ reason: String) {
        self.reason = reason
    }
}

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

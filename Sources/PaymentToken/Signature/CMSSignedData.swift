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
/// BER, since Apple writes indefinite lengths. Not taken, because no token has them: eContent, revocation information,
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
        return try certificates.map(CertificateFields.init)
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

internal import SwiftASN1

/// The one signer of a token, RFC 5652 §5.3:
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
/// Not taken: a subjectKeyIdentifier as sid, a missing signedAttrs, and unsigned attributes, over which nobody signed.
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

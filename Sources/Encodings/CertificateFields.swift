public import SwiftASN1

/// The parts of an X.509 certificate that say whose it is, as the bytes that stand in it (RFC 5280 §4.1):
///
///     Certificate    ::= SEQUENCE { tbsCertificate, signatureAlgorithm, signatureValue }
///     TBSCertificate ::= SEQUENCE {
///         version [0] EXPLICIT Version DEFAULT v1, serialNumber INTEGER, signature AlgorithmIdentifier, issuer Name,
///         validity, subject Name, subjectPublicKeyInfo, … }
///
/// Nothing is checked but this shape: whoever relies on a certificate reads it whole, with swift-certificates. That costs as
/// much as verifying a signature does; this costs next to nothing.
public struct CertificateFields: Sendable {
    /// Not a certificate's structure.
    public struct Malformed: Error {}

    /// The whole certificate.
    public let der: [UInt8]
    /// The INTEGER, with its tag and length.
    public let serialNumber: ArraySlice<UInt8>
    /// The INTEGER's content.
    public let serialNumberContent: ArraySlice<UInt8>
    /// The AlgorithmIdentifier that the issuer signed. The one behind the TBSCertificate anybody can change.
    public let signatureAlgorithm: ArraySlice<UInt8>
    public let issuer: ArraySlice<UInt8>
    public let subject: ArraySlice<UInt8>
    public let subjectPublicKeyInfo: ArraySlice<UInt8>

    /// From DER and nothing behind it.
    public init(der: [UInt8]) throws(Malformed) {
        guard let node = try? DER.parse(der), Self.toBeSigned(in: node)?.identifier == .sequence else {
            throw Malformed()
        }
        try self.init(node)
    }

    /// From within another structure.
    public init(_ node: ASN1Node) throws(Malformed) {
        guard node.identifier == .sequence, let toBeSigned = Self.toBeSigned(in: node),
            case .constructed(let content) = toBeSigned.content
        else { throw Malformed() }
        var fields = content.makeIterator()
        func next() throws(Malformed) -> ASN1Node {
            guard let field = fields.next() else { throw Malformed() }
            return field
        }
        var serialNumber = try next()
        if serialNumber.identifier == ASN1Identifier(tagWithNumber: 0, tagClass: .contextSpecific) {
            serialNumber = try next()
        }
        guard serialNumber.identifier == .integer, case .primitive(let serialNumberContent) = serialNumber.content
        else { throw Malformed() }
        der = Array(node.encodedBytes)
        self.serialNumber = serialNumber.encodedBytes
        self.serialNumberContent = serialNumberContent
        signatureAlgorithm = try next().encodedBytes
        issuer = try next().encodedBytes
        _ = try next()
        subject = try next().encodedBytes
        subjectPublicKeyInfo = try next().encodedBytes
    }

    private static func toBeSigned(in certificate: ASN1Node) -> ASN1Node? {
        guard case .constructed(let parts) = certificate.content else { return nil }
        var nodes = parts.makeIterator()
        return nodes.next()
    }
}

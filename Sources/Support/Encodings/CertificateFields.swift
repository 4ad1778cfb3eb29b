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
    public typealias Malformed = BERReader.Malformed

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
        var reader = BERReader(der, .distinguished)
        let certificate = try reader.next()
        guard reader.isAtEnd else { throw Malformed() }
        try self.init(of: certificate, in: reader)
    }

    /// From within another structure.
    ///
    /// - Parameter reader: the one that has read the element, or one of the same bytes.
    public init(of element: BERElement, in reader: BERReader) throws(Malformed) {
        guard element.identifier == BERElement.sequence else { throw Malformed() }
        var parts = try reader.elements(of: element)
        var fields = try parts.elements(of: parts.next(BERElement.sequence))
        if fields.nextIdentifier == BERElement.constructed(contextSpecific: 0) { _ = try fields.next() }
        let serialNumber = try fields.next(BERElement.integer)
        der = Array(reader.encoding(of: element))
        self.serialNumber = fields.encoding(of: serialNumber)
        serialNumberContent = fields.content(of: serialNumber)
        signatureAlgorithm = fields.encoding(of: try fields.next())
        issuer = fields.encoding(of: try fields.next())
        _ = try fields.next()
        subject = fields.encoding(of: try fields.next())
        subjectPublicKeyInfo = fields.encoding(of: try fields.next())
    }
}

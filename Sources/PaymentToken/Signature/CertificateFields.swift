internal import SwiftASN1

/// The parts of an X.509 certificate that say whose it is, as the bytes that stand in it (RFC 5280 §4.1):
///
///     TBSCertificate ::= SEQUENCE {
///         version [0] EXPLICIT Version DEFAULT v1, serialNumber, signature, issuer, validity, subject,
///         subjectPublicKeyInfo, … }
///
/// The rest is checked by `TrustPolicy`, and only once for each chain: reading a certificate whole costs as much as the
/// signature does.
struct CertificateFields {
    /// The whole certificate.
    let der: [UInt8]
    /// The content of the INTEGER.
    let serialNumber: ArraySlice<UInt8>
    let issuer: ArraySlice<UInt8>
    let subject: ArraySlice<UInt8>
    let subjectPublicKeyInfo: ArraySlice<UInt8>

    init(_ node: ASN1Node) throws {
        guard case .constructed(let parts) = node.content, node.identifier == .sequence,
            let certificate = Array(parts).first, case .constructed(let fields) = certificate.content
        else { throw CMSDefect("a certificate is not an X.509 certificate") }
        var nodes = Array(fields)[...]
        if nodes.first?.identifier == ASN1Identifier(tagWithNumber: 0, tagClass: .contextSpecific) {
            nodes.removeFirst()
        }
        let positions = Array(nodes)
        guard positions.count >= 6, case .primitive(let serialNumber) = positions[0].content,
            positions[0].identifier == .integer
        else { throw CMSDefect("a certificate is not an X.509 certificate") }
        self.der = Array(node.encodedBytes)
        self.serialNumber = serialNumber
        self.issuer = positions[2].encodedBytes
        self.subject = positions[4].encodedBytes
        self.subjectPublicKeyInfo = positions[5].encodedBytes
    }
}

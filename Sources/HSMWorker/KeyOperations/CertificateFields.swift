import SwiftASN1

/// What a CKO_CERTIFICATE object needs besides the certificate itself (PKCS#11 v2.40 base §4.6.3), cut out of the
/// certificate (RFC 5280 §4.1). Only the shape is checked: validating certificates is the daemon's part.
struct CertificateFields: Sendable {
    /// DER of the serial number's INTEGER, and of both Names.
    let serialNumber: [UInt8]
    let issuer: [UInt8]
    let subject: [UInt8]
    let publicKey: SubjectPublicKeyInfo

    init(der: [UInt8]) throws(UnsuitableKey) {
        let publicKeyInfo: [UInt8]
        do {
            (serialNumber, issuer, subject, publicKeyInfo) = try Self.cut(der)
        } catch {
            throw UnsuitableKey(reason: "the certificate is not an X.509 certificate in DER")
        }
        publicKey = try SubjectPublicKeyInfo(der: publicKeyInfo)
    }

    private static func cut(_ der: [UInt8]) throws -> ([UInt8], [UInt8], [UInt8], [UInt8]) {
        try DER.sequence(try DER.parse(der), identifier: .sequence) { certificate in
            guard let body = certificate.next() else { throw ASN1Error.truncatedASN1Field() }
            let fields = try DER.sequence(body, identifier: .sequence) { tbs in
                _ = try DER.optionalExplicitlyTagged(&tbs, tagNumber: 0, tagClass: .contextSpecific) { $0 }
                let serialNumber = try next(&tbs)
                _ = try next(&tbs)
                let issuer = try next(&tbs)
                _ = try next(&tbs)
                let subject = try next(&tbs)
                let publicKeyInfo = try next(&tbs)
                while tbs.next() != nil {}
                return (serialNumber, issuer, subject, publicKeyInfo)
            }
            while certificate.next() != nil {}
            return fields
        }
    }

    private static func next(_ nodes: inout ASN1NodeCollection.Iterator) throws -> [UInt8] {
        guard let node = nodes.next() else { throw ASN1Error.truncatedASN1Field() }
        return Array(node.encodedBytes)
    }
}

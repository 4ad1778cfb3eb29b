import SwiftASN1
import WorkerProtocol

/// What a PKCS#10 request signs (RFC 2986 §4.1), read as far as to be sure that it is one.
///
///     CertificationRequestInfo ::= SEQUENCE { version INTEGER { v1(0) }, subject Name,
///         subjectPKInfo SubjectPublicKeyInfo, attributes [0] IMPLICIT SET OF Attribute }
struct CertificationRequestInfo: Sendable {
    /// The public key, DER.
    let subjectPublicKeyInfo: [UInt8]

    /// - Throws: ``UnsuitableKey`` when the bytes are anything else. A certificate's body, which is signed in the same
    ///   way, has other fields.
    init(der: [UInt8]) throws(UnsuitableKey) {
        guard der.count <= FieldBound.requestInformation, let fields = try? Self.fields(of: der), fields.count == 4,
            fields[0].identifier == .integer, Array(fields[0].encodedBytes) == [0x02, 0x01, 0x00],
            fields[1].identifier == .sequence, fields[2].identifier == .sequence,
            fields[3].identifier == ASN1Identifier(tagWithNumber: 0, tagClass: .contextSpecific),
            case .constructed = fields[3].content
        else {
            throw UnsuitableKey(reason: "the bytes are no CertificationRequestInfo of PKCS#10 in DER")
        }
        subjectPublicKeyInfo = Array(fields[2].encodedBytes)
    }

    private static func fields(of der: [UInt8]) throws -> [ASN1Node] {
        try DER.sequence(try DER.parse(der), identifier: .sequence) { nodes in
            var fields: [ASN1Node] = []
            while let node = nodes.next() { fields.append(node) }
            return fields
        }
    }
}

internal import Crypto
internal import Encodings
internal import SwiftASN1

/// Computes all encodings of one certificate that pass verification.
///
/// The issuer signs only the TBSCertificate. The parts outside it can be changed without the issuer's key. The changed
/// certificate still passes verification, but has a different fingerprint:
///
/// - an ECDSA signature (r, s) is as valid as (r, n − s) (FIPS 186-5 §6.4);
/// - the AlgorithmIdentifier outside the TBSCertificate may omit or add parameters (RFC 4055 §5: RSA's NULL).
///
/// A certificate that the configuration distrusts by its fingerprint could therefore be presented in a different
/// encoding. The configuration contains only the fingerprint of the issuer's encoding. This type therefore makes every
/// encoding of the presented certificate, and each fingerprint is compared.
enum CertificateMalleability {
    /// The certificate's DER as received, and every encoding that the issuer may have written.
    ///
    ///     Certificate ::= SEQUENCE { tbsCertificate, signatureAlgorithm, signatureValue BIT STRING }
    ///     Ecdsa-Sig-Value ::= SEQUENCE { r INTEGER, s INTEGER }
    ///
    /// - Throws: an error if the structure is different, or the signature's bit string has unused bits.
    static func encodings(of der: [UInt8]) throws -> [[UInt8]] {
        let (tbs, signature) = try DER.sequence(try DER.parse(der), identifier: .sequence) { nodes in
            guard let tbs = nodes.next(), nodes.next() != nil
            else { throw ASN1Error.invalidASN1Object(reason: "not a certificate") }
            let signature = try ASN1BitString(derEncoded: &nodes)
            guard signature.paddingBits == 0
            else { throw ASN1Error.invalidASN1Object(reason: "a signature with unused bits") }
            return (tbs, signature.bytes)
        }
        // RFC 5280 §4.1.1.2: the algorithm outside the TBSCertificate must equal the one inside, which is signed.
        let algorithm = try CertificateFields(der: der).signatureAlgorithm
        let signatures = try isECDSA(algorithm) ? ecdsaEncodings(of: signature) : [Array(signature)]
        return try [der]
            + signatures.map { signature in
                var value = DER.Serializer()
                try value.serialize(ASN1BitString(bytes: signature[...]))
                let content = Array(tbs.encodedBytes) + algorithm + value.serializedBytes
                return header(of: content.count) + content
            }
    }

    /// (r, s), and (r, n − s) for the order n of each curve for which swift-certificates verifies signatures. The
    /// certificate does not name its issuer's curve. Encodings for the wrong curves are harmless, since no
    /// configuration lists their fingerprints.
    private static func ecdsaEncodings(of signature: ArraySlice<UInt8>) throws -> [[UInt8]] {
        let (r, s) = try ecdsaIntegers(in: signature)
        return try ([s] + orders.compactMap { order in difference(order, s) }).map { s in
            var value = DER.Serializer()
            try value.appendConstructedNode(identifier: .sequence) { value in
                try value.serialize(r)
                try value.serialize(s)
            }
            return value.serializedBytes
        }
    }

    /// Returns true if an AlgorithmIdentifier is in ANSI X9.62's ecdsa-with-… arc, 1.2.840.10045.4.
    private static func isECDSA(_ algorithm: ArraySlice<UInt8>) throws -> Bool {
        guard case .constructed(let parts) = try DER.parse(algorithm).content, let first = Array(parts).first
        else { throw ASN1Error.invalidASN1Object(reason: "not an algorithm identifier") }
        return try ASN1ObjectIdentifier(derEncoded: first).oidComponents.starts(with: [1, 2, 840, 10045, 4])
    }

    /// SHA-256 of each encoding, 32 bytes.
    static func fingerprints(of der: [UInt8]) throws -> [[UInt8]] {
        try encodings(of: der).map { encoding in Array(SHA256.hash(data: encoding)) }
    }

    private static func ecdsaIntegers(
        in signature: ArraySlice<UInt8>
    ) throws -> (r: ArraySlice<UInt8>, s: ArraySlice<UInt8>) {
        try DER.sequence(try DER.parse(Array(signature)), identifier: .sequence) { nodes in
            (try ArraySlice<UInt8>(derEncoded: &nodes), try ArraySlice<UInt8>(derEncoded: &nodes))
        }
    }

    /// `order` − `value`, big-endian without superfluous zeros; nil unless 0 < `value` < `order`.
    private static func difference(_ order: [UInt8], _ value: ArraySlice<UInt8>) -> ArraySlice<UInt8>? {
        let digits = Array(value.drop { digit in digit == 0 })
        guard !digits.isEmpty, digits.count <= order.count else { return nil }
        let padded = [UInt8](repeating: 0, count: order.count - digits.count) + digits
        guard padded.lexicographicallyPrecedes(order) else { return nil }
        var result = order
        var borrow = 0
        for index in order.indices.reversed() {
            let digit = Int(order[index]) - Int(padded[index]) - borrow
            borrow = digit < 0 ? 1 : 0
            result[index] = UInt8(truncatingIfNeeded: digit)
        }
        return result.drop { digit in digit == 0 }
    }

    /// Tag and length of a SEQUENCE (X.690 §8.1.3).
    private static func header(of count: Int) -> [UInt8] {
        guard count >= 0x80 else { return [0x30, UInt8(count)] }
        let length = bigEndianBytes(count)
        return [0x30, 0x80 | UInt8(length.count)] + length
    }

    private static func bigEndianBytes(_ count: Int) -> [UInt8] {
        stride(from: 56, through: 0, by: -8).map { shift in UInt8(truncatingIfNeeded: count >> shift) }
            .drop { byte in byte == 0 }.map { $0 }
    }

    /// The orders of P-256, P-384 and P-521 (SP 800-186 §3.2.1.3 to §3.2.1.5), the curves for which swift-certificates
    /// verifies signatures. Apple's issuers sign with the first two; a configured root can have the third.
    private static let orders: [[UInt8]] = [
        "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551",
        "ffffffffffffffffffffffffffffffffffffffffffffffffc7634d81f4372ddf581a0db248b0a77aecec196accc52973",
        "01fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffa"
            + "51868783bf2f966b7fcc0148f709a5d03bb5c9b8899c47aebb6fb71e91386409",
    ].map { Hexadecimal.decode($0) ?? [] }
}

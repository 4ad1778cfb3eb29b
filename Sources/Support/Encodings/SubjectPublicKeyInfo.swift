internal import Crypto
internal import SwiftASN1

/// A merchant's public key in its two forms: SubjectPublicKeyInfo (RFC 5280 §4.1.2.7) in certificates, separate numbers
/// in PKCS#11 tokens.
public struct SubjectPublicKeyInfo: Sendable, Equatable {
    public enum PublicKey: Sendable, Equatable {
        /// P-256, an uncompressed point of 65 bytes on the curve.
        case ec(point: [UInt8])
        /// Big-endian numbers without leading zeros.
        case rsa(modulus: [UInt8], publicExponent: [UInt8])
    }

    public let key: PublicKey
    /// The SubjectPublicKeyInfo in DER.
    public let der: [UInt8]

    /// The DER of a P-256 key before its uncompressed point of 65 bytes (RFC 5480 §2.1.1 with the named curve
    /// secp256r1): SEQUENCE { SEQUENCE { id-ecPublicKey, prime256v1 }, BIT STRING }.
    public static let p256Prefix: [UInt8] = [
        0x30, 0x59,
        0x30, 0x13,
        0x06, 0x07, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x02, 0x01,
        0x06, 0x08, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x03, 0x01, 0x07,
        0x03, 0x42, 0x00,
    ]
    public static let rsaModulusBits = 2048

    /// Encodes the numbers of a key from a PKCS#11 token, in the only encoding that certificates for such keys have.
    /// - Throws: ``UnsuitableKey`` if the key is neither P-256 nor RSA-2048.
    public init(_ key: PublicKey) throws(UnsuitableKey) {
        switch key {
        case .ec(let point):
            guard point.count == 65, (try? P256.KeyAgreement.PublicKey(x963Representation: point)) != nil else {
                throw UnsuitableKey(reason: "the public key is not a point on P-256")
            }
            der = Self.p256Prefix + point
        case .rsa(let modulus, let publicExponent):
            let bits = modulus.count * 8 - (modulus.first?.leadingZeroBitCount ?? 0)
            guard bits == Self.rsaModulusBits else {
                throw UnsuitableKey(reason: "the RSA key has \(bits) bits; payment processing keys have 2048")
            }
            guard let encoded = try? Self.encodeRSA(modulus, publicExponent) else {
                throw UnsuitableKey(reason: "the RSA public key cannot be encoded")
            }
            der = encoded
        }
        self.key = key
    }

    /// Parses DER from a certificate. A different encoding of the same key would have a different hash, so only the
    /// canonical one is accepted.
    public init(der: [UInt8]) throws(UnsuitableKey) {
        let parsed: SubjectPublicKeyInfo
        if let point = Self.p256Point(in: der) {
            parsed = try SubjectPublicKeyInfo(.ec(point: point))
        } else if let (modulus, publicExponent) = try? Self.decodeRSA(der) {
            parsed = try SubjectPublicKeyInfo(.rsa(modulus: modulus, publicExponent: publicExponent))
        } else {
            throw UnsuitableKey(reason: "the public key is neither EC on P-256 nor RSA")
        }
        guard parsed.der == der else { throw UnsuitableKey(reason: "the public key is not in canonical DER") }
        self = parsed
    }

    /// SHA-256 of the DER, 32 bytes: Apple's publicKeyHash.
    public var publicKeyHash: [UInt8] { Array(SHA256.hash(data: der)) }

    /// The 65 bytes after ``p256Prefix``; nil if the DER is not that of a P-256 key. The point is not checked to be on
    /// the curve.
    public static func p256Point(in der: [UInt8]) -> [UInt8]? {
        guard der.count == p256Prefix.count + 65, der.starts(with: p256Prefix) else { return nil }
        return Array(der.dropFirst(p256Prefix.count))
    }

    private static func encodeRSA(_ modulus: [UInt8], _ publicExponent: [UInt8]) throws -> [UInt8] {
        var key = DER.Serializer()
        try key.appendConstructedNode(identifier: .sequence) { key in
            try key.serialize(modulus[...])
            try key.serialize(publicExponent[...])
        }
        var info = DER.Serializer()
        try info.appendConstructedNode(identifier: .sequence) { info in
            try info.appendConstructedNode(identifier: .sequence) { algorithm in
                try algorithm.serialize(ASN1ObjectIdentifier.AlgorithmIdentifier.rsaEncryption)
                try algorithm.serialize(ASN1Null())
            }
            try info.serialize(ASN1BitString(bytes: key.serializedBytes[...]))
        }
        return info.serializedBytes
    }

    private static func decodeRSA(_ der: [UInt8]) throws -> (modulus: [UInt8], publicExponent: [UInt8]) {
        let bits = try DER.sequence(try DER.parse(der), identifier: .sequence) { info in
            guard let identifier = info.next() else { throw ASN1Error.truncatedASN1Field() }
            try DER.sequence(identifier, identifier: .sequence) { algorithm in
                guard try ASN1ObjectIdentifier(derEncoded: &algorithm) == .AlgorithmIdentifier.rsaEncryption else {
                    throw ASN1Error.invalidASN1Object(reason: "not an RSA key")
                }
                _ = try ASN1Null(derEncoded: &algorithm)
            }
            return try ASN1BitString(derEncoded: &info)
        }
        return try DER.sequence(try DER.parse(bits.bytes), identifier: .sequence) { key in
            let modulus = try ArraySlice<UInt8>(derEncoded: &key)
            let publicExponent = try ArraySlice<UInt8>(derEncoded: &key)
            return (Array(modulus.drop { $0 == 0 }), Array(publicExponent.drop { $0 == 0 }))
        }
    }
}

/// A key or a certificate that cannot be used for payment tokens.
public struct UnsuitableKey: Error, Equatable {
    /// Part of a sentence for the user.
    public let reason: String

    public init(reason: String) {
        self.reason = reason
    }
}

/// The parts of an X.509 certificate that identify its owner and issuer, in encoded form (RFC 5280 §4.1):
///
///     Certificate    ::= SEQUENCE { tbsCertificate, signatureAlgorithm, signatureValue }
///     TBSCertificate ::= SEQUENCE {
///         version [0] EXPLICIT Version DEFAULT v1, serialNumber INTEGER, signature AlgorithmIdentifier, issuer Name,
///         validity, subject Name, subjectPublicKeyInfo, … }
///
/// Only this structure is checked. Code that relies on a certificate parses it completely with swift-certificates.
/// That costs as much as verifying a signature; this costs almost nothing.
public struct CertificateFields: Sendable {
    /// The bytes do not have a certificate's structure.
    public typealias Malformed = BERReader.Malformed

    /// The whole certificate.
    public let der: [UInt8]
    /// The INTEGER, with its tag and length.
    public let serialNumber: ArraySlice<UInt8>
    /// The INTEGER's content.
    public let serialNumberContent: ArraySlice<UInt8>
    /// The AlgorithmIdentifier that the issuer signed. An attacker can change the second AlgorithmIdentifier, which
    /// follows the TBSCertificate.
    public let signatureAlgorithm: ArraySlice<UInt8>
    public let issuer: ArraySlice<UInt8>
    public let subject: ArraySlice<UInt8>
    public let subjectPublicKeyInfo: ArraySlice<UInt8>

    /// Parses DER, which must not be followed by other bytes.
    public init(der: [UInt8]) throws(Malformed) {
        var reader = BERReader(der, .distinguished)
        let certificate = try reader.next()
        guard reader.isAtEnd else { throw Malformed() }
        try self.init(of: certificate, in: reader)
    }

    /// Parses a certificate within another structure.
    ///
    /// - Parameter reader: the reader that returned the element, or another reader of the same bytes.
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

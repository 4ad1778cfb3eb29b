/// Elliptic curves as attributes name them.
public enum EllipticCurve {
    /// CKA_EC_PARAMS of P-256: the OBJECT IDENTIFIER 1.2.840.10045.3.1.7 in DER (RFC 5480 §2.1.1.1).
    public static let p256Parameters: [UInt8] = [0x06, 0x08, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x03, 0x01, 0x07]

    /// CKA_EC_POINT of a point: a DER OCTET STRING around it (PKCS#11 v2.40 §2.3.3).
    /// - Parameter point: at most 127 bytes (P-256: 65, P-384: 97).
    public static func attributeValue(forPoint point: [UInt8]) -> [UInt8] {
        precondition(point.count < 128, "longer points need a longer DER length")
        return [0x04, UInt8(point.count)] + point
    }

    /// The P-256 point, 65 bytes, in a CKA_EC_POINT: in its OCTET STRING, or bare as some tokens have it. Both begin
    /// with 0x04, so the size decides. Nil when it is neither. Whether it lies on the curve is not checked.
    public static func p256Point(inAttributeValue value: [UInt8]) -> [UInt8]? {
        switch value.count {
        case 65 where value[0] == 0x04: value
        case 67 where value.starts(with: [0x04, 65, 0x04]): Array(value.dropFirst(2))
        default: nil
        }
    }
}

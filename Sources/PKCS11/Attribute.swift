internal import CPKCS11

/// One attribute of an object with its value: what a ``Template`` is made of. Secret values (a private key's) go into
/// ``SecretAttributes`` instead.
public struct Attribute: Sendable, Hashable {
    public enum Value: Sendable, Hashable {
        /// CK_BBOOL.
        case flag(Bool)
        /// CK_ULONG.
        case number(UInt)
        /// A byte string, a UTF-8 text, a big integer (big-endian).
        case bytes([UInt8])
    }

    public let type: AttributeType
    public let value: Value

    public init(_ type: AttributeType, _ value: Value) {
        self.type = type
        self.value = value
    }

    public static func objectClass(_ value: ObjectClass) -> Attribute {
        Attribute(.objectClass, .number(value.rawValue))
    }
    public static func keyType(_ value: KeyType) -> Attribute { Attribute(.keyType, .number(value.rawValue)) }
    /// CKA_CERTIFICATE_TYPE = CKC_X_509.
    public static let x509Certificate = Attribute(.certificateType, .number(CKC_X_509))
    /// Kept by the token (true), or gone with the session (false).
    public static func token(_ value: Bool) -> Attribute { Attribute(.token, .flag(value)) }
    /// Seen after login only.
    public static func `private`(_ value: Bool) -> Attribute { Attribute(.private, .flag(value)) }
    public static func sensitive(_ value: Bool) -> Attribute { Attribute(.sensitive, .flag(value)) }
    public static func extractable(_ value: Bool) -> Attribute { Attribute(.extractable, .flag(value)) }
    public static func encrypt(_ value: Bool) -> Attribute { Attribute(.encrypt, .flag(value)) }
    public static func decrypt(_ value: Bool) -> Attribute { Attribute(.decrypt, .flag(value)) }
    public static func wrap(_ value: Bool) -> Attribute { Attribute(.wrap, .flag(value)) }
    public static func unwrap(_ value: Bool) -> Attribute { Attribute(.unwrap, .flag(value)) }
    public static func sign(_ value: Bool) -> Attribute { Attribute(.sign, .flag(value)) }
    public static func verify(_ value: Bool) -> Attribute { Attribute(.verify, .flag(value)) }
    public static func derive(_ value: Bool) -> Attribute { Attribute(.derive, .flag(value)) }
    public static func modifiable(_ value: Bool) -> Attribute { Attribute(.modifiable, .flag(value)) }
    public static func label(_ value: String) -> Attribute { Attribute(.label, .bytes(Array(value.utf8))) }
    public static func application(_ value: String) -> Attribute { Attribute(.application, .bytes(Array(value.utf8))) }
    /// CKA_ID.
    public static func identifier(_ value: [UInt8]) -> Attribute { Attribute(.identifier, .bytes(value)) }
    /// CKA_VALUE of what is not secret: a certificate in DER, a data object.
    public static func value(_ value: [UInt8]) -> Attribute { Attribute(.value, .bytes(value)) }
    /// CKA_VALUE_LEN, in bytes.
    public static func valueLength(_ value: Int) -> Attribute { Attribute(.valueLength, .number(UInt(value))) }
    /// A DER Name.
    public static func subject(_ value: [UInt8]) -> Attribute { Attribute(.subject, .bytes(value)) }
    /// A DER Name.
    public static func issuer(_ value: [UInt8]) -> Attribute { Attribute(.issuer, .bytes(value)) }
    /// A DER INTEGER.
    public static func serialNumber(_ value: [UInt8]) -> Attribute { Attribute(.serialNumber, .bytes(value)) }
    /// A DER ECParameters; see ``EllipticCurve``.
    public static func ecParameters(_ value: [UInt8]) -> Attribute { Attribute(.ecParameters, .bytes(value)) }
    /// A DER OCTET STRING with the point; see ``EllipticCurve/attributeValue(forPoint:)``.
    public static func ecPoint(_ value: [UInt8]) -> Attribute { Attribute(.ecPoint, .bytes(value)) }
    /// Big-endian, without leading zeros.
    public static func modulus(_ value: [UInt8]) -> Attribute { Attribute(.modulus, .bytes(value)) }
    public static func modulusBits(_ value: Int) -> Attribute { Attribute(.modulusBits, .number(UInt(value))) }
    /// Big-endian, without leading zeros.
    public static func publicExponent(_ value: [UInt8]) -> Attribute { Attribute(.publicExponent, .bytes(value)) }
}

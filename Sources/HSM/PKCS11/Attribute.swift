internal import CPKCS11

// Unsafe: Copies into an integer. The caller's guard has checked that the value has exactly the integer's size.

/// One attribute of an object with its value, an element of a ``Template``. Secret values (a private key's) go into
/// ``SecretAttributes`` instead.
public struct Attribute: Sendable, Hashable {
    public enum Value: Sendable, Hashable {
        /// A CK_BBOOL.
        case flag(Bool)
        /// A CK_ULONG.
        case number(UInt)
        /// A byte string, a UTF-8 text or a big integer (big-endian).
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
    /// CKA_TOKEN: true for a token object, which the HSM token stores; false for a session object.
    public static func token(_ value: Bool) -> Attribute { Attribute(.token, .flag(value)) }
    /// CKA_PRIVATE: visible after login only.
    public static func `private`(_ value: Bool) -> Attribute { Attribute(.private, .flag(value)) }
    public static func sensitive(_ value: Bool) -> Attribute { Attribute(.sensitive, .flag(value)) }
    public static func extractable(_ value: Bool) -> Attribute { Attribute(.extractable, .flag(value)) }
    public static func encrypt(_ value: Bool) -> Attribute { Attribute(.encrypt, .flag(value)) }
    public static func decrypt(_ value: Bool) -> Attribute { Attribute(.decrypt, .flag(value)) }
    public static func wrap(_ value: Bool) -> Attribute { Attribute(.wrap, .flag(value)) }
    public static func unwrap(_ value: Bool) -> Attribute { Attribute(.unwrap, .flag(value)) }
    public static func sign(_ value: Bool) -> Attribute { Attribute(.sign, .flag(value)) }
    /// CKA_SIGN_RECOVER: signatures from which the message can be recovered (C_SignRecover).
    public static func signRecover(_ value: Bool) -> Attribute { Attribute(.signRecover, .flag(value)) }
    public static func verify(_ value: Bool) -> Attribute { Attribute(.verify, .flag(value)) }
    public static func derive(_ value: Bool) -> Attribute { Attribute(.derive, .flag(value)) }
    public static func modifiable(_ value: Bool) -> Attribute { Attribute(.modifiable, .flag(value)) }
    public static func label(_ value: String) -> Attribute { Attribute(.label, .bytes(Array(value.utf8))) }
    public static func application(_ value: String) -> Attribute { Attribute(.application, .bytes(Array(value.utf8))) }
    /// CKA_ID.
    public static func identifier(_ value: [UInt8]) -> Attribute { Attribute(.identifier, .bytes(value)) }
    /// CKA_VALUE of a public value: a certificate in DER, a data object.
    public static func value(_ value: [UInt8]) -> Attribute { Attribute(.value, .bytes(value)) }
    /// CKA_VALUE_LEN, in bytes.
    public static func valueLength(_ value: Int) -> Attribute { Attribute(.valueLength, .number(UInt(value))) }
    /// CKA_SUBJECT: a Name in DER.
    public static func subject(_ value: [UInt8]) -> Attribute { Attribute(.subject, .bytes(value)) }
    /// CKA_ISSUER: a Name in DER.
    public static func issuer(_ value: [UInt8]) -> Attribute { Attribute(.issuer, .bytes(value)) }
    /// CKA_SERIAL_NUMBER: an INTEGER in DER.
    public static func serialNumber(_ value: [UInt8]) -> Attribute { Attribute(.serialNumber, .bytes(value)) }
    /// CKA_EC_PARAMS: ECParameters in DER; see ``EllipticCurve``.
    public static func ecParameters(_ value: [UInt8]) -> Attribute { Attribute(.ecParameters, .bytes(value)) }
    /// CKA_EC_POINT: an OCTET STRING in DER with the point; see ``EllipticCurve/attributeValue(forPoint:)``.
    public static func ecPoint(_ value: [UInt8]) -> Attribute { Attribute(.ecPoint, .bytes(value)) }
    /// The modulus, big-endian, without leading zeros.
    public static func modulus(_ value: [UInt8]) -> Attribute { Attribute(.modulus, .bytes(value)) }
    public static func modulusBits(_ value: Int) -> Attribute { Attribute(.modulusBits, .number(UInt(value))) }
    /// The public exponent, big-endian, without leading zeros.
    public static func publicExponent(_ value: [UInt8]) -> Attribute { Attribute(.publicExponent, .bytes(value)) }
}

/// The name of an attribute: CKA_… (PKCS#11 v2.40 base §4).
public struct AttributeType: RawRepresentable, Hashable, Sendable {
    public let rawValue: UInt

    public init(rawValue: UInt) {
        self.rawValue = rawValue
    }

    public static let objectClass = AttributeType(rawValue: CKA_CLASS)
    public static let token = AttributeType(rawValue: CKA_TOKEN)
    public static let `private` = AttributeType(rawValue: CKA_PRIVATE)
    public static let label = AttributeType(rawValue: CKA_LABEL)
    public static let application = AttributeType(rawValue: CKA_APPLICATION)
    public static let value = AttributeType(rawValue: CKA_VALUE)
    public static let certificateType = AttributeType(rawValue: CKA_CERTIFICATE_TYPE)
    public static let issuer = AttributeType(rawValue: CKA_ISSUER)
    public static let serialNumber = AttributeType(rawValue: CKA_SERIAL_NUMBER)
    public static let keyType = AttributeType(rawValue: CKA_KEY_TYPE)
    public static let subject = AttributeType(rawValue: CKA_SUBJECT)
    public static let identifier = AttributeType(rawValue: CKA_ID)
    public static let sensitive = AttributeType(rawValue: CKA_SENSITIVE)
    public static let encrypt = AttributeType(rawValue: CKA_ENCRYPT)
    public static let decrypt = AttributeType(rawValue: CKA_DECRYPT)
    public static let wrap = AttributeType(rawValue: CKA_WRAP)
    public static let unwrap = AttributeType(rawValue: CKA_UNWRAP)
    public static let sign = AttributeType(rawValue: CKA_SIGN)
    public static let signRecover = AttributeType(rawValue: CKA_SIGN_RECOVER)
    public static let verify = AttributeType(rawValue: CKA_VERIFY)
    public static let derive = AttributeType(rawValue: CKA_DERIVE)
    public static let modulus = AttributeType(rawValue: CKA_MODULUS)
    public static let modulusBits = AttributeType(rawValue: CKA_MODULUS_BITS)
    public static let publicExponent = AttributeType(rawValue: CKA_PUBLIC_EXPONENT)
    public static let privateExponent = AttributeType(rawValue: CKA_PRIVATE_EXPONENT)
    public static let prime1 = AttributeType(rawValue: CKA_PRIME_1)
    public static let prime2 = AttributeType(rawValue: CKA_PRIME_2)
    public static let exponent1 = AttributeType(rawValue: CKA_EXPONENT_1)
    public static let exponent2 = AttributeType(rawValue: CKA_EXPONENT_2)
    public static let coefficient = AttributeType(rawValue: CKA_COEFFICIENT)
    public static let valueLength = AttributeType(rawValue: CKA_VALUE_LEN)
    public static let extractable = AttributeType(rawValue: CKA_EXTRACTABLE)
    public static let local = AttributeType(rawValue: CKA_LOCAL)
    public static let neverExtractable = AttributeType(rawValue: CKA_NEVER_EXTRACTABLE)
    public static let alwaysSensitive = AttributeType(rawValue: CKA_ALWAYS_SENSITIVE)
    /// The key requires the PIN again for each use.
    public static let alwaysAuthenticate = AttributeType(rawValue: CKA_ALWAYS_AUTHENTICATE)
    public static let modifiable = AttributeType(rawValue: CKA_MODIFIABLE)
    public static let ecParameters = AttributeType(rawValue: CKA_EC_PARAMS)
    public static let ecPoint = AttributeType(rawValue: CKA_EC_POINT)
}

/// One object's attributes as the HSM token returned them. An attribute that the object does not have, or that the HSM
/// token does not reveal (sensitive), is absent.
public struct AttributeValues: Sendable, Hashable {
    private let values: [AttributeType: [UInt8]]
    private let oversized: Set<AttributeType>

    init(_ values: [AttributeType: [UInt8]], oversized: Set<AttributeType> = []) {
        self.values = values
        self.oversized = oversized
    }

    /// Returns true if the attribute is absent here because its value is larger than ``Session/largestAttribute``.
    public func isOversized(_ type: AttributeType) -> Bool { oversized.contains(type) }

    /// The value as the library returned it; nil if the attribute is absent.
    public func bytes(_ type: AttributeType) -> [UInt8]? {
        values[type]
    }

    /// A CK_BBOOL; nil also if the value is not one byte. Any byte but 0 counts as true.
    public func flag(_ type: AttributeType) -> Bool? {
        guard let value = values[type], value.count == 1 else { return nil }
        return value[0] != 0
    }

    /// A CK_ULONG; nil also if the value has a different size.
    public func number(_ type: AttributeType) -> UInt? {
        guard let value = values[type], value.count == MemoryLayout<UInt>.size else { return nil }
        return value.nativeNumber
    }

    /// A text; nil also if the value is not UTF-8.
    public func text(_ type: AttributeType) -> String? {
        values[type].flatMap { String(validating: $0, as: UTF8.self) }
    }

    public var objectClass: ObjectClass? { number(.objectClass).map(ObjectClass.init(rawValue:)) }
    public var keyType: KeyType? { number(.keyType).map(KeyType.init(rawValue:)) }
}

extension [UInt8] {
    /// The bytes as a number in the machine's byte order, which the library used.
    fileprivate var nativeNumber: UInt {
        var number: UInt = 0
        unsafe Swift.withUnsafeMutableBytes(of: &number) { unsafe $0.copyBytes(from: self) }
        return number
    }
}

/// The attribute values that describe a curve and its points: CKA_EC_PARAMS and CKA_EC_POINT.
public enum EllipticCurve {
    /// CKA_EC_PARAMS of P-256: the OBJECT IDENTIFIER 1.2.840.10045.3.1.7 in DER (RFC 5480 §2.1.1.1).
    public static let p256Parameters: [UInt8] = [0x06, 0x08, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x03, 0x01, 0x07]

    /// The value of CKA_EC_POINT for a point: an OCTET STRING in DER that contains the point (PKCS#11 v2.40 §2.3.3).
    /// - Parameter point: at most 127 bytes (P-256: 65, P-384: 97).
    public static func attributeValue(forPoint point: [UInt8]) -> [UInt8] {
        precondition(point.count < 128, "longer points need a longer DER length")
        return [0x04, UInt8(point.count)] + point
    }

    /// The P-256 point, 65 bytes, from the value of CKA_EC_POINT. Some HSM tokens return the point without its OCTET
    /// STRING. Both forms begin with 0x04, so the value's size distinguishes them. nil for a value of neither form. The
    /// caller must check that the point is on the curve.
    public static func p256Point(inAttributeValue value: [UInt8]) -> [UInt8]? {
        switch value.count {
        case 65 where value[0] == 0x04: value
        case 67 where value.starts(with: [0x04, 65, 0x04]): Array(value.dropFirst(2))
        default: nil
        }
    }
}

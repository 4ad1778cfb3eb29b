internal import CPKCS11

/// CKA_… (PKCS#11 v2.40 base §4): what an attribute is about.
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
    public static let modifiable = AttributeType(rawValue: CKA_MODIFIABLE)
    public static let copyable = AttributeType(rawValue: CKA_COPYABLE)
    public static let destroyable = AttributeType(rawValue: CKA_DESTROYABLE)
    public static let ecParameters = AttributeType(rawValue: CKA_EC_PARAMS)
    public static let ecPoint = AttributeType(rawValue: CKA_EC_POINT)
    public static let alwaysAuthenticate = AttributeType(rawValue: CKA_ALWAYS_AUTHENTICATE)
}

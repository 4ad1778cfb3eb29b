internal import CPKCS11

/// CKM_… (PKCS#11 v2.40 current mechanisms): which algorithm.
public struct MechanismType: RawRepresentable, Hashable, Sendable {
    public let rawValue: UInt

    public init(rawValue: UInt) {
        self.rawValue = rawValue
    }

    public static let rsaKeyPairGeneration = MechanismType(rawValue: CKM_RSA_PKCS_KEY_PAIR_GEN)
    public static let rsaX509 = MechanismType(rawValue: CKM_RSA_X_509)
    public static let rsaOAEP = MechanismType(rawValue: CKM_RSA_PKCS_OAEP)
    public static let rsaPKCS1SHA256 = MechanismType(rawValue: CKM_SHA256_RSA_PKCS)
    public static let ecKeyPairGeneration = MechanismType(rawValue: CKM_EC_KEY_PAIR_GEN)
    public static let ecdsa = MechanismType(rawValue: CKM_ECDSA)
    public static let ecdh1Derive = MechanismType(rawValue: CKM_ECDH1_DERIVE)
    public static let aesKeyGeneration = MechanismType(rawValue: CKM_AES_KEY_GEN)
    public static let aesGCM = MechanismType(rawValue: CKM_AES_GCM)
    public static let genericSecretKeyGeneration = MechanismType(rawValue: CKM_GENERIC_SECRET_KEY_GEN)
    public static let concatenateBaseAndData = MechanismType(rawValue: CKM_CONCATENATE_BASE_AND_DATA)
    public static let concatenateDataAndBase = MechanismType(rawValue: CKM_CONCATENATE_DATA_AND_BASE)
    public static let sha256KeyDerivation = MechanismType(rawValue: CKM_SHA256_KEY_DERIVATION)
}

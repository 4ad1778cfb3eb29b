internal import CPKCS11

/// A number that stands for one of the token's objects, a key or a certificate, in this process (PKCS#11 v2.40 base
/// §3.6, CK_OBJECT_HANDLE). Good for every session with the same token, until the object is destroyed; a session
/// object's, until its session closes.
public struct ObjectHandle: RawRepresentable, Hashable, Sendable {
    public let rawValue: UInt

    public init(rawValue: UInt) {
        self.rawValue = rawValue
    }
}

/// CKO_… (PKCS#11 v2.40 base §4.1).
public struct ObjectClass: RawRepresentable, Hashable, Sendable {
    public let rawValue: UInt

    public init(rawValue: UInt) {
        self.rawValue = rawValue
    }

    public static let data = ObjectClass(rawValue: CKO_DATA)
    public static let certificate = ObjectClass(rawValue: CKO_CERTIFICATE)
    public static let publicKey = ObjectClass(rawValue: CKO_PUBLIC_KEY)
    public static let privateKey = ObjectClass(rawValue: CKO_PRIVATE_KEY)
    public static let secretKey = ObjectClass(rawValue: CKO_SECRET_KEY)
}

/// CKK_… (PKCS#11 v2.40 base §4.7).
public struct KeyType: RawRepresentable, Hashable, Sendable {
    public let rawValue: UInt

    public init(rawValue: UInt) {
        self.rawValue = rawValue
    }

    public static let rsa = KeyType(rawValue: CKK_RSA)
    public static let ec = KeyType(rawValue: CKK_EC)
    public static let genericSecret = KeyType(rawValue: CKK_GENERIC_SECRET)
    public static let aes = KeyType(rawValue: CKK_AES)
}

internal import CPKCS11
public import SecretMemory

// Unsafe: Cryptoki keeps no pointer after a call returns. Each buffer is passed with its length, and lengths that
// come back are checked.

/// The handle of an object in the HSM token, such as a key or a certificate, in this process (PKCS#11 v2.40 base §3.6,
/// CK_OBJECT_HANDLE). It is valid in every session with the same HSM token, until the object is destroyed. The handle
/// of a session object is valid until its session closes.
public struct ObjectHandle: RawRepresentable, Hashable, Sendable {
    public let rawValue: UInt

    public init(rawValue: UInt) {
        self.rawValue = rawValue
    }
}

/// The class of an object: CKO_… (PKCS#11 v2.40 base §4.1).
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

/// The type of a key: CKK_… (PKCS#11 v2.40 base §4.7).
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

// Functions that create, copy, change and destroy objects (PKCS#11 v2.40 base §5.7).
extension Session {
    /// Creates an object from public attributes (C_CreateObject).
    public mutating func createObject(_ template: Template) throws(CallError) -> ObjectHandle {
        var object: CK_OBJECT_HANDLE = 0
        try unsafe module.call("C_CreateObject", module.functions.C_CreateObject) { create in
            unsafe template.withCAttributes { unsafe create(handle, $0, $1, &object) }
        }
        return ObjectHandle(rawValue: object)
    }

    /// Creates a private or secret key, with attributes from secret memory (C_CreateObject).
    public mutating func createObject(
        _ template: Template, secrets: borrowing SecretAttributes
    ) throws(CallError) -> ObjectHandle {
        var object: CK_OBJECT_HANDLE = 0
        let create = try unsafe module.require("C_CreateObject", module.functions.C_CreateObject)
        try Module.check(
            "C_CreateObject",
            unsafe secrets.withCAttributes(besides: template) { unsafe create(handle, $0, $1, &object) })
        return ObjectHandle(rawValue: object)
    }

    /// Makes a copy of `object` that differs from it in `template`'s attributes (C_CopyObject). A copy of a private key
    /// stays sensitive and non-extractable, also as a session object.
    public mutating func copyObject(_ object: ObjectHandle, _ template: Template) throws(CallError) -> ObjectHandle {
        var copy: CK_OBJECT_HANDLE = 0
        try unsafe module.call("C_CopyObject", module.functions.C_CopyObject) { copyObject in
            unsafe template.withCAttributes { unsafe copyObject(handle, object.rawValue, $0, $1, &copy) }
        }
        return ObjectHandle(rawValue: copy)
    }

    /// Destroys an object (C_DestroyObject).
    public mutating func destroyObject(_ object: ObjectHandle) throws(CallError) {
        try module.call("C_DestroyObject", module.functions.C_DestroyObject) {
            $0(handle, object.rawValue)
        }
    }

    /// Changes an object's attributes (C_SetAttributeValue).
    public mutating func setAttributes(_ template: Template, of object: ObjectHandle) throws(CallError) {
        try unsafe module.call("C_SetAttributeValue", module.functions.C_SetAttributeValue) { set in
            unsafe template.withCAttributes { unsafe set(handle, object.rawValue, $0, $1) }
        }
    }
}

extension Session {
    /// Returns the objects that have all of `template`'s attributes, or all objects for an empty template
    /// (C_FindObjectsInit, C_FindObjects and C_FindObjectsFinal, PKCS#11 v2.40 base §5.7).
    /// Each object is in the result once, even if the library returns its handle several times. A key that was read
    /// twice would look like two keys with the same CKA_ID.
    /// - Parameter limit: The maximum number of matches. More are an error, so that none is overlooked.
    public mutating func findObjects(
        matching template: Template, limit: Int = 100_000
    ) throws(CallError) -> [ObjectHandle] {
        try unsafe module.call("C_FindObjectsInit", module.functions.C_FindObjectsInit) { initialize in
            unsafe template.withCAttributes { unsafe initialize(handle, $0, $1) }
        }
        let found: [ObjectHandle]
        do throws(CallError) {
            found = try collectObjects(limit)
        } catch {
            // Ends the search after an error too, since the session would otherwise accept no other operation. A second
            // error is ignored, and the first one is thrown.
            try? endSearch()
            throw error
        }
        try endSearch()
        return found
    }

    private mutating func collectObjects(_ limit: Int) throws(CallError) -> [ObjectHandle] {
        var found: [ObjectHandle] = []
        var known: Set<CK_OBJECT_HANDLE> = []
        var returned = 0
        var batch = [CK_OBJECT_HANDLE](repeating: 0, count: 256)
        while true {
            var count: CK_ULONG = 0
            try unsafe module.call("C_FindObjects", module.functions.C_FindObjects) {
                unsafe $0(handle, &batch, CK_ULONG(batch.count), &count)
            }
            guard count > 0 else { return found }
            // Repeated handles count, so that a library that never ends a search cannot keep the session.
            guard count <= batch.count, returned + Int(count) <= limit else {
                throw CallError(call: "C_FindObjects", cause: .implausible("more objects than \(limit)"))
            }
            returned += Int(count)
            found += batch.prefix(Int(count)).filter { known.insert($0).inserted }.map(ObjectHandle.init(rawValue:))
        }
    }

    private mutating func endSearch() throws(CallError) {
        try module.call("C_FindObjectsFinal", module.functions.C_FindObjectsFinal) { $0(handle) }
    }
}

// C_GetAttributeValue (PKCS#11 v2.40 base §5.7).
extension Session {
    /// The size of the largest attribute that is accepted from an HSM token, in bytes. A certificate has at most a few
    /// thousand.
    static let largestAttribute: UInt = 1 << 16

    /// Reads public attributes. The result omits an attribute that the object lacks, that the HSM token does not
    /// reveal, or that is larger than ``largestAttribute``. One unusual object must not prevent the others from being
    /// read.
    public mutating func attributes(
        _ types: [AttributeType], of object: ObjectHandle
    ) throws(CallError) -> AttributeValues {
        var values: [AttributeType: [UInt8]] = [:]
        var oversized: Set<AttributeType> = []
        for type in types {
            do throws(CallError) {
                switch try attribute(type, of: object) {
                case .value(let value): values[type] = value
                case .oversized: oversized.insert(type)
                case .unavailable: break
                }
            } catch {
                // Read them one by one: HSM tokens report absent attributes differently when several are requested at
                // once.
                guard error.returnValue == .attributeTypeInvalid || error.returnValue == .attributeSensitive else {
                    throw error
                }
            }
        }
        return AttributeValues(values, oversized: oversized)
    }

    /// Reads a secret that the HSM token may reveal: the CKA_VALUE of a key that was derived with CKA_SENSITIVE false
    /// and CKA_EXTRACTABLE true. The library writes the bytes straight into secret memory.
    /// - Parameter count: The exact size in bytes; any other size is an error.
    public mutating func secretValue(of object: ObjectHandle, count: Int) throws(CallError) -> SecretBytes {
        var secret = SecretBytes(count: count)
        let result: Result<UInt, CallError> = unsafe secret.withUnsafeMutableBytes { buffer in
            Result { () throws(CallError) in
                try unsafe getAttribute(.value, of: object, buffer.baseAddress, CK_ULONG(buffer.count))
            }
        }
        let length = try result.get()
        guard length == count else {
            throw CallError(call: "C_GetAttributeValue", cause: .implausible("a secret of another size"))
        }
        return secret
    }

    private enum Reading {
        case value([UInt8])
        case unavailable
        case oversized
    }

    private mutating func attribute(_ type: AttributeType, of object: ObjectHandle) throws(CallError) -> Reading {
        let size = try unsafe getAttribute(type, of: object, nil, 0)
        // CK_UNAVAILABLE_INFORMATION: the HSM token does not reveal it.
        guard size != .max else { return .unavailable }
        guard size <= Self.largestAttribute else { return .oversized }
        guard size > 0 else { return .value([]) }
        var value = [UInt8](repeating: 0, count: Int(size))
        let length = try unsafe getAttribute(type, of: object, &value, size)
        guard length <= size else {
            throw CallError(call: "C_GetAttributeValue", cause: .implausible("an attribute that grew"))
        }
        value.removeLast(value.count - Int(length))
        return .value(value)
    }

    /// Calls C_GetAttributeValue for one attribute, and returns the size that the library set. Without a buffer, the
    /// call only gets the size.
    private mutating func getAttribute(
        _ type: AttributeType, of object: ObjectHandle, _ buffer: UnsafeMutableRawPointer?, _ capacity: UInt
    ) throws(CallError) -> UInt {
        var entry = unsafe CK_ATTRIBUTE(type: type.rawValue, pValue: buffer, ulValueLen: capacity)
        try unsafe module.call("C_GetAttributeValue", module.functions.C_GetAttributeValue) {
            unsafe $0(handle, object.rawValue, &entry, 1)
        }
        return unsafe entry.ulValueLen
    }
}

// C_GenerateKeyPair (PKCS#11 v2.40 base §5.13).
extension Session {
    /// Makes a key pair inside the HSM token.
    public mutating func generateKeyPair(
        _ mechanism: Mechanism, publicKey publicTemplate: Template, privateKey privateTemplate: Template
    ) throws(CallError) -> (publicKey: ObjectHandle, privateKey: ObjectHandle) {
        var publicKey: CK_OBJECT_HANDLE = 0
        var privateKey: CK_OBJECT_HANDLE = 0
        try unsafe module.call("C_GenerateKeyPair", module.functions.C_GenerateKeyPair) { generate in
            unsafe mechanism.withCMechanism { mechanism in
                unsafe publicTemplate.withCAttributes { publicAttributes, publicCount in
                    unsafe privateTemplate.withCAttributes { privateAttributes, privateCount in
                        unsafe generate(
                            handle, mechanism, publicAttributes, publicCount, privateAttributes, privateCount,
                            &publicKey, &privateKey)
                    }
                }
            }
        }
        return (ObjectHandle(rawValue: publicKey), ObjectHandle(rawValue: privateKey))
    }
}

// C_DeriveKey (PKCS#11 v2.40 base §5.13).
extension Session {
    /// Derives a key inside the HSM token. The caller must destroy the key.
    public mutating func deriveKey(
        _ mechanism: Mechanism, from base: ObjectHandle, _ template: Template
    ) throws(CallError) -> ObjectHandle {
        var key: CK_OBJECT_HANDLE = 0
        try unsafe module.call("C_DeriveKey", module.functions.C_DeriveKey) { derive in
            unsafe mechanism.withCMechanism { mechanism in
                unsafe template.withCAttributes { attributes, count in
                    unsafe derive(handle, mechanism, base.rawValue, attributes, count, &key)
                }
            }
        }
        return ObjectHandle(rawValue: key)
    }

    /// Derives a secret, reads it into secret memory and always destroys it in the HSM token.
    /// - Parameters:
    ///   - template: It must make the secret an extractable, non-sensitive session object.
    ///   - count: The exact size in bytes.
    public mutating func deriveSecret(
        _ mechanism: Mechanism, from base: ObjectHandle, _ template: Template, count: Int
    ) throws(CallError) -> SecretBytes {
        let key = try deriveKey(mechanism, from: base, template)
        let secret: SecretBytes
        do throws(CallError) {
            secret = try secretValue(of: key, count: count)
        } catch {
            try? destroyObject(key)
            throw error
        }
        try destroyObject(key)
        return secret
    }
}

// C_UnwrapKey (PKCS#11 v2.40 base §5.13).
extension Session {
    /// Unwraps a key into a new key object, which need not leave the HSM token. The caller must destroy the object.
    public mutating func unwrapKey(
        _ wrappedKey: [UInt8], _ mechanism: Mechanism, with unwrappingKey: ObjectHandle, _ template: Template
    ) throws(CallError) -> ObjectHandle {
        var key: CK_OBJECT_HANDLE = 0
        try unsafe module.call("C_UnwrapKey", module.functions.C_UnwrapKey) { unwrap in
            unsafe mechanism.withCMechanism { mechanism in
                unsafe wrappedKey.withMutableCopy { wrapped, wrappedCount in
                    unsafe template.withCAttributes { attributes, count in
                        unsafe unwrap(
                            handle, mechanism, unwrappingKey.rawValue, wrapped, wrappedCount, attributes, count, &key)
                    }
                }
            }
        }
        return ObjectHandle(rawValue: key)
    }
}

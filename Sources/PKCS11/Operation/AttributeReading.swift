internal import CPKCS11
public import SecretMemory

// C_GetAttributeValue (PKCS#11 v2.40 base §5.7).
extension Session {
    /// The largest attribute taken from a token, in bytes: a certificate has a few thousand at most.
    static let largestAttribute: UInt = 1 << 16

    /// Reads public attributes. What the object lacks, does not give away, or has larger than any attribute is to be, is
    /// absent from the answer: one strange object must not keep others from being read.
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
                // Asked for one by one: of several asked for at once, tokens report the absent ones differently.
                guard error.returnValue == .attributeTypeInvalid || error.returnValue == .attributeSensitive else {
                    throw error
                }
            }
        }
        return AttributeValues(values, oversized: oversized)
    }

    /// Reads a secret that the token was asked to give away: CKA_VALUE of a derived key made with CKA_SENSITIVE false
    /// and CKA_EXTRACTABLE true. The bytes go from the library straight into secret memory.
    /// - Parameter count: the exact size in bytes; another is an error.
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
        // CK_UNAVAILABLE_INFORMATION: not to be had.
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

    /// The call itself for one attribute: without a buffer it asks for the size. Returns the size that the library
    /// set.
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

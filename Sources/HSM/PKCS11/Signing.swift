internal import CPKCS11

// Unsafe: Cryptoki keeps no pointer after a call returns. The library receives the signature's capacity, and its
// length is checked.

// C_SignInit and C_Sign (PKCS#11 v2.40 base §5.11).
extension Session {
    /// Signs in one part.
    /// - Parameters:
    ///   - data: The mechanism's input: a hash for ``Mechanism/ecdsa`` and ``Mechanism/rsaPSSSHA256``, the message for
    ///     ``Mechanism/rsaPKCS1SHA256`` and ``Mechanism/rsaPSSHashingSHA256``, a whole block for
    ///     ``Mechanism/rsaX509``. ``Mechanism/sha256HMAC`` takes the message too.
    ///   - capacity: Room for the signature in bytes.
    /// - Returns: The HSM token's signature, unchanged; for ECDSA, r ‖ s.
    public mutating func sign(
        _ data: [UInt8], _ mechanism: Mechanism, key: ObjectHandle, capacity: Int = 512
    ) throws(CallError) -> [UInt8] {
        try unsafe module.call("C_SignInit", module.functions.C_SignInit) { initialize in
            unsafe mechanism.withCMechanism { unsafe initialize(handle, $0, key.rawValue) }
        }
        var signature = [UInt8](repeating: 0, count: capacity)
        var length = CK_ULONG(capacity)
        try unsafe module.call("C_Sign", module.functions.C_Sign) { sign in
            unsafe data.withMutableCopy { unsafe sign(handle, $0, $1, &signature, &length) }
        }
        guard length <= signature.count else {
            throw CallError(call: "C_Sign", cause: .implausible("more bytes than there was room for"))
        }
        signature.removeLast(signature.count - Int(length))
        return signature
    }
}

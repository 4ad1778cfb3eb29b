internal import CPKCS11

// C_GenerateRandom (PKCS#11 v2.40 base §5.14).
extension Session {
    /// Random bytes from the token.
    public mutating func randomBytes(count: Int) throws(CallError) -> [UInt8] {
        guard count > 0 else { return [] }
        var bytes = [UInt8](repeating: 0, count: count)
        try unsafe module.call("C_GenerateRandom", module.functions.C_GenerateRandom) {
            unsafe $0(handle, &bytes, CK_ULONG(count))
        }
        return bytes
    }
}

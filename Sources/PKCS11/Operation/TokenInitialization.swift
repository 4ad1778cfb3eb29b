internal import CPKCS11
public import SecretMemory

// C_InitToken (PKCS#11 v2.40 base §5.5) and C_InitPIN (§5.6).
extension Slot {
    /// Initialises the slot's token: every object in it is destroyed. No session with it may be open. On a token that
    /// was initialised before, `securityOfficerPIN` must be its present one.
    /// - Parameter label: at most 32 bytes of UTF-8; padded with spaces as the standard wants it.
    public func initializeToken(
        label: String, securityOfficerPIN: borrowing SecretBytes
    ) throws(CallError) {
        var padded = Array(label.utf8)
        guard padded.count <= 32 else { throw CallError(call: "C_InitToken", cause: .returned(.dataLengthRange)) }
        padded.append(contentsOf: repeatElement(UInt8(ascii: " "), count: 32 - padded.count))
        guard let initialize = unsafe module.functions.C_InitToken else {
            throw CallError(call: "C_InitToken", cause: .missing)
        }
        try Module.check(
            "C_InitToken",
            unsafe securityOfficerPIN.withMutablePointer { unsafe initialize(identifier, $0, $1, &padded) })
    }
}

extension Session {
    /// C_InitPIN: sets the normal user's PIN. The security officer is logged in, and the session is read-write.
    public mutating func initializePIN(_ pin: borrowing SecretBytes) throws(CallError) {
        guard let initialize = unsafe module.functions.C_InitPIN else {
            throw CallError(call: "C_InitPIN", cause: .missing)
        }
        try Module.check("C_InitPIN", unsafe pin.withMutablePointer { unsafe initialize(handle, $0, $1) })
    }
}

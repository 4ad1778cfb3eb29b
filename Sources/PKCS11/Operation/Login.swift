internal import CPKCS11
public import SecretMemory

/// CKU_… (PKCS#11 v2.40 base §3.3): who logs in.
public enum UserType: Sendable, Hashable {
    /// The normal user, who uses keys.
    case user
    /// The security officer, who sets the user's PIN.
    case securityOfficer

    var cValue: UInt {
        switch self {
        case .user: CKU_USER
        case .securityOfficer: CKU_SO
        }
    }
}

// C_Login, C_Logout, C_GetSessionInfo (PKCS#11 v2.40 base §5.6).
extension Session {
    /// Logs the process in to the token, for every session with it. CKR_USER_ALREADY_LOGGED_IN is an error like others.
    ///
    /// CKR_PIN_INCORRECT must not be answered by trying again: tokens lock after a few wrong PINs.
    public mutating func logIn(_ user: UserType, pin: borrowing SecretBytes) throws(CallError) {
        guard let logIn = unsafe module.functions.C_Login else { throw CallError(call: "C_Login", cause: .missing) }
        try Module.check(
            "C_Login", unsafe pin.withMutablePointer { unsafe logIn(handle, user.cValue, $0, $1) })
    }

    /// Logs the process out, in every session with the token. Private session objects end.
    public mutating func logOut() throws(CallError) {
        try module.call("C_Logout", module.functions.C_Logout) { $0(handle) }
    }

    /// C_GetSessionInfo: whether the session still exists and who is logged in (nil: nobody). Cheap.
    public mutating func loggedInUser() throws(CallError) -> UserType? {
        var info = CK_SESSION_INFO()
        try unsafe module.call("C_GetSessionInfo", module.functions.C_GetSessionInfo) { unsafe $0(handle, &info) }
        return switch info.state {
        case CKS_RO_USER_FUNCTIONS, CKS_RW_USER_FUNCTIONS: .user
        case CKS_RW_SO_FUNCTIONS: .securityOfficer
        default: nil
        }
    }
}

extension SecretBytes {
    /// Lends a PIN where the standard wants a pointer that is not const. No library writes into a PIN.
    func withMutablePointer(_ body: (UnsafeMutablePointer<UInt8>?, CK_ULONG) -> CK_RV) -> CK_RV {
        unsafe withUnsafeBytes { bytes in
            let pointer = unsafe UnsafeMutableRawPointer(mutating: bytes.baseAddress.unsafelyUnwrapped)
            return unsafe body(pointer.assumingMemoryBound(to: UInt8.self), CK_ULONG(bytes.count))
        }
    }
}

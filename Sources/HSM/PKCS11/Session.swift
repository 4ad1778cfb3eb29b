internal import CPKCS11
public import SecretMemory

// Unsafe: Cryptoki keeps no pointer after a call returns, and writes only the handle, the structure or nothing.

/// A session with an HSM token (PKCS#11 v2.40 base §5.6), closed when the value ends.
///
/// A session holds the state of one operation at a time, so two threads must never use one at the same time. The type
/// enforces that: it can be moved to another thread, but not copied. Every method that calls the library is `mutating`,
/// so that the compiler refuses shared use. Threads that run concurrently have a session each.
///
/// The login belongs to the process and the HSM token, not to the session. It ends with ``logOut()``, or when the
/// process's last session with the HSM token closes.
public struct Session: ~Copyable, Sendable {
    public let module: Module
    /// The session's handle, or CK_INVALID_HANDLE while no session is open: then every call fails with
    /// CKR_SESSION_HANDLE_INVALID. The old handle is not kept, because the library may assign it to another session,
    /// which this value must not close.
    private(set) var handle: UInt
    /// A session object that the caller keeps from one operation to the next. The HSM token destroys it with the
    /// session, and this property then becomes nil.
    public var keptObject: ObjectHandle?

    init(module: Module, handle: UInt) {
        self.module = module
        self.handle = handle
    }

    /// Makes a value without an open session; ``reopen(in:readWrite:)`` opens one.
    public init(closedIn slot: Slot) {
        self.init(module: slot.module, handle: UInt(CK_INVALID_HANDLE))
    }

    /// Returns true if the session was opened. The HSM token may have closed it since.
    public var isOpen: Bool { handle != CK_INVALID_HANDLE }

    deinit {
        // An error of C_CloseSession is ignored, since `deinit` cannot report it. The session then ends with the HSM
        // token or the library.
        guard handle != CK_INVALID_HANDLE else { return }
        _ = try? module.call("C_CloseSession", module.functions.C_CloseSession) { $0(handle) }
    }

    /// Closes the session and opens another in its place. This ends an operation that cannot be ended otherwise, and
    /// replaces a session that the HSM token has lost. The old one is closed first, since an HSM token may have no room
    /// for both.
    /// - Throws: The error of C_OpenSession. The value stays usable: a later `reopen` may succeed.
    public mutating func reopen(in slot: Slot, readWrite: Bool = false) throws(CallError) {
        if handle != CK_INVALID_HANDLE {
            _ = try? module.call("C_CloseSession", module.functions.C_CloseSession) { $0(handle) }
        }
        handle = CK_INVALID_HANDLE
        keptObject = nil
        handle = try slot.openSessionHandle(readWrite)
    }
}

extension Slot {
    /// Opens a session with the HSM token in this slot (C_OpenSession).
    /// - Parameter readWrite: If true, token objects may be created, changed and destroyed. For session objects, this
    ///   is always allowed.
    public func openSession(readWrite: Bool = false) throws(CallError) -> Session {
        Session(module: module, handle: try openSessionHandle(readWrite))
    }

    fileprivate func openSessionHandle(_ readWrite: Bool) throws(CallError) -> UInt {
        var handle: CK_SESSION_HANDLE = 0
        let flags = readWrite ? CKF_SERIAL_SESSION | CKF_RW_SESSION : CKF_SERIAL_SESSION
        try unsafe module.call("C_OpenSession", module.functions.C_OpenSession) {
            unsafe $0(identifier, flags, nil, nil, &handle)
        }
        guard handle != CK_INVALID_HANDLE else {
            throw CallError(call: "C_OpenSession", cause: .implausible("no session"))
        }
        return handle
    }
}

/// The user who logs in: CKU_… (PKCS#11 v2.40 base §3.3).
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
    /// Logs the process in to the HSM token, for every session with it. CKR_USER_ALREADY_LOGGED_IN is an error like any
    /// other.
    ///
    /// After CKR_PIN_INCORRECT the call must not be repeated: HSM tokens lock after a few wrong PINs.
    public mutating func logIn(_ user: UserType, pin: borrowing SecretBytes) throws(CallError) {
        let logIn = try unsafe module.require("C_Login", module.functions.C_Login)
        try Module.check(
            "C_Login", unsafe pin.withMutablePointer { unsafe logIn(handle, user.cValue, $0, $1) })
    }

    /// Logs the process out, in every session with the token. Private session objects end.
    public mutating func logOut() throws(CallError) {
        try module.call("C_Logout", module.functions.C_Logout) { $0(handle) }
    }

    /// C_GetSessionInfo: the user who is logged in, or nil. Throws if the session no longer exists. The call is cheap.
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
    /// Lends a PIN to a call whose pointer is not const in the standard. No library writes to a PIN.
    func withMutablePointer(_ body: (UnsafeMutablePointer<UInt8>?, CK_ULONG) -> CK_RV) -> CK_RV {
        unsafe withUnsafeBytes { bytes in
            let pointer = unsafe UnsafeMutableRawPointer(mutating: bytes.baseAddress.unsafelyUnwrapped)
            return unsafe body(pointer.assumingMemoryBound(to: UInt8.self), CK_ULONG(bytes.count))
        }
    }
}

// C_InitToken (PKCS#11 v2.40 base §5.5) and C_InitPIN (§5.6).
extension Slot {
    /// Initialises the slot's HSM token and destroys every object in it. No session with it may be open. If the HSM
    /// token was initialised before, `securityOfficerPIN` must be its current PIN.
    /// - Parameter label: At most 32 bytes of UTF-8; it is padded with spaces, as the standard requires.
    public func initializeToken(
        label: String, securityOfficerPIN: borrowing SecretBytes
    ) throws(CallError) {
        var padded = Array(label.utf8)
        guard padded.count <= 32 else { throw CallError(call: "C_InitToken", cause: .returned(.dataLengthRange)) }
        padded.append(contentsOf: repeatElement(UInt8(ascii: " "), count: 32 - padded.count))
        let initialize = try unsafe module.require("C_InitToken", module.functions.C_InitToken)
        try Module.check(
            "C_InitToken",
            unsafe securityOfficerPIN.withMutablePointer { unsafe initialize(identifier, $0, $1, &padded) })
    }
}

extension Session {
    /// C_InitPIN: sets the normal user's PIN. The security officer must be logged in, and the session must be
    /// read-write.
    public mutating func initializePIN(_ pin: borrowing SecretBytes) throws(CallError) {
        let initialize = try unsafe module.require("C_InitPIN", module.functions.C_InitPIN)
        try Module.check("C_InitPIN", unsafe pin.withMutablePointer { unsafe initialize(handle, $0, $1) })
    }
}

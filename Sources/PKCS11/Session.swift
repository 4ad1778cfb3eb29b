internal import CPKCS11

/// A session with a token (PKCS#11 v2.40 base §5.6), closed when the value ends.
///
/// A session holds the state of one operation at a time, so two threads must never use one together. The type says so:
/// it can be moved to another thread, but not copied, and whatever reaches the library is `mutating`, so that the
/// compiler refuses shared use. Threads that work at once have a session each.
///
/// The login belongs to the process and the token, not to the session: it ends with ``logOut()`` or when the process's
/// last session with the token closes.
public struct Session: ~Copyable, Sendable {
    public let module: Module
    /// CK_INVALID_HANDLE where a session was closed and no other could be opened: every call then answers
    /// CKR_SESSION_HANDLE_INVALID, and nobody else's session is closed under a number that was given away again.
    private(set) var handle: UInt
    /// A session object that the session's user keeps from one operation to the next. It ends with the session in the
    /// token, and is forgotten here then.
    public var keptObject: ObjectHandle?

    init(module: Module, handle: UInt) {
        self.module = module
        self.handle = handle
    }

    /// A session that is yet to be opened, by ``reopen(in:readWrite:)``.
    public init(closedIn slot: Slot) {
        self.init(module: slot.module, handle: UInt(CK_INVALID_HANDLE))
    }

    /// Whether it was opened. The token may have ended it since.
    public var isOpen: Bool { handle != CK_INVALID_HANDLE }

    deinit {
        // Nothing could be done about an error: the session is gone with the token or the library.
        guard handle != CK_INVALID_HANDLE else { return }
        _ = try? module.call("C_CloseSession", module.functions.C_CloseSession) { $0(handle) }
    }

    /// Closes the session and opens another in its place: the way out of an operation that does not end, and of a
    /// session that the token has forgotten. The old one is closed first, since a token may have no room for both.
    /// - Throws: what C_OpenSession returned. The value stays usable: a later `reopen` may succeed.
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
    /// C_OpenSession.
    /// - Parameter readWrite: whether token objects may be created, changed and destroyed. Session objects always may.
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

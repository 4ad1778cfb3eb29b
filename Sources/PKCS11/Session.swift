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
    let handle: UInt

    init(module: Module, handle: UInt) {
        self.module = module
        self.handle = handle
    }

    deinit {
        // Nothing could be done about an error: the session is gone with the token or the library.
        _ = try? module.call("C_CloseSession", module.functions.C_CloseSession) { $0(handle) }
    }
}

extension Slot {
    /// C_OpenSession.
    /// - Parameter readWrite: whether token objects may be created, changed and destroyed. Session objects always may.
    public func openSession(readWrite: Bool = false) throws(CallError) -> Session {
        var handle: CK_SESSION_HANDLE = 0
        let flags = readWrite ? CKF_SERIAL_SESSION | CKF_RW_SESSION : CKF_SERIAL_SESSION
        try unsafe module.call("C_OpenSession", module.functions.C_OpenSession) {
            unsafe $0(identifier, flags, nil, nil, &handle)
        }
        return Session(module: module, handle: handle)
    }
}

import Dispatch
import PKCS11
import SecretMemory
import WorkerProtocol

/// Logs the user in with as few attempts as possible. HSM tokens count wrong PINs and lock, and some cannot be
/// unlocked.
///
/// A PIN that an HSM token has refused is never tried on it again, by this process or a later one. If the HSM token
/// allows only one more attempt (CKF_USER_PIN_FINAL_TRY), no PIN is tried. CKF_USER_PIN_COUNT_LOW means that a wrong
/// PIN was tried since the last login. In that state the worker tries a PIN only if it was never refused. If a file of
/// ``RefusedLogins`` is configured but cannot be written, the worker tries no PIN.
struct TokenLogin: Sendable {
    let pinFile: String
    /// The path of the file of ``RefusedLogins``; empty if refusals are not remembered.
    let refusedLogins: String

    /// Locked while the library logs in. At each login, SoftHSM empties and rewrites the file with its PINs and the key
    /// that encrypts all keys. If the process ends at that moment, no later login is possible.
    private static let loginLock = DispatchSemaphore(value: 1)

    init(_ opening: HSMTokenOpening) {
        pinFile = opening.pinFile
        refusedLogins = opening.refusedLogins
    }

    /// Logs in, unless this process is logged in already.
    /// - Throws: `loginRefused` if another attempt would fail too, otherwise `hsmTokenUnavailable`.
    func perform(in session: inout Session, of slot: Slot) throws(WorkerFailure) {
        let pin = try orUnavailable { () throws(SecretFileError) in try SecretBytes(contentsOfFile: pinFile) }
        let hsmToken = try orUnavailable { () throws(CallError) in try slot.tokenInfo() }
        let memory = try openMemory(hsmToken.flags)
        try check(hsmToken.flags)
        if let memory, memory.contains(pin, for: hsmToken) {
            throw WorkerFailure(
                .loginRefused,
                "The HSM token has refused the PIN in \(pinFile) before, and it is not tried again: put the correct PIN into "
                    + "that file. If the HSM token's PIN has been changed to this one meanwhile, remove \(memory.path) first."
            )
        }
        do throws(CallError) {
            Self.loginLock.wait()
            defer { Self.loginLock.signal() }
            try session.logIn(.user, pin: pin)
        } catch {
            if error.returnValue == .userAlreadyLoggedIn { return }
            // The HSM token is being initialised, or its initialisation was interrupted. No PIN was compared, so another
            // attempt costs nothing.
            guard error.returnValue != .userPINNotInitialized else {
                throw WorkerFailure(
                    .hsmTokenUnavailable,
                    "\(error): the HSM token has no user PIN yet. Its security officer can set one.")
            }
            guard error.isLoginRefused else { throw WorkerFailure(.hsmTokenUnavailable, "\(error).") }
            var advice = advice(error)
            if error.isPINRefused, let memory {
                do {
                    try memory.remember(pin, for: hsmToken)
                } catch {
                    advice += " This cannot be remembered: \(error.reason)."
                }
            }
            throw WorkerFailure(.loginRefused, advice)
        }
        // A failure is ignored: a digest that remains in the file only excludes a PIN that the HSM token refused
        // before.
        try? memory?.forget()
    }

    /// Waits until no login is in progress, and lets no other begin. The caller then exits; an exit during a login
    /// could make every later login impossible (``loginLock``).
    /// - Parameter seconds: The limit of the wait, in case a library hangs in a login.
    static func finish(within seconds: Int) {
        _ = loginLock.wait(timeout: .now() + .seconds(seconds))
    }

    private func check(_ flags: TokenInfo.Flags) throws(WorkerFailure) {
        if flags.contains(.userPINLocked) {
            throw WorkerFailure(
                .loginRefused, "The HSM token has locked the user PIN. Its security officer can set a new one.")
        }
        if flags.contains(.userPINFinalTry) {
            throw WorkerFailure(
                .loginRefused,
                "The HSM token allows one more try of the user PIN before it locks (CKF_USER_PIN_FINAL_TRY), which is not "
                    + "used here: log in once with the vendor's tools, then reload the daemon.")
        }
    }

    private func openMemory(_ flags: TokenInfo.Flags) throws(WorkerFailure) -> RefusedLogins? {
        var reason = "no file for refused logins is configured"
        do {
            if let memory = try RefusedLogins(path: refusedLogins) { return memory }
        } catch {
            reason = error.reason
        }
        guard flags.contains(.userPINCountLow), !refusedLogins.isEmpty else { return nil }
        throw WorkerFailure(
            .loginRefused,
            "A wrong PIN was tried on the HSM token (CKF_USER_PIN_COUNT_LOW), and another refusal could not be remembered: "
                + "\(reason).")
    }

    private func orUnavailable<Value: ~Copyable, Failure: Error>(
        _ body: () throws(Failure) -> Value
    ) throws(WorkerFailure) -> Value {
        do {
            return try body()
        } catch {
            throw WorkerFailure(.hsmTokenUnavailable, "\(error).")
        }
    }

    private func advice(_ error: CallError) -> String {
        switch error.returnValue {
        case .pinLocked: "\(error): the HSM token has locked the user PIN. Its security officer can set a new one."
        case .pinExpired: "\(error): the user PIN must be changed with the vendor's tools."
        default:
            "\(error): the HSM token refuses the PIN in \(pinFile). It is not tried again before that file changes."
        }
    }
}

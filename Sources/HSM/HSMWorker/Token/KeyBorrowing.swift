import KeyTypes
import PKCS11
import WorkerProtocol

// Functions that check a key's use and then lend the key to one operation. If the key's object is gone, they search the
// HSM token for the key again.
extension OpenToken {
    /// Lends a key to the caller, which must return it with `keys.giveBack(_:)`.
    ///
    /// Throws `keyNotFound` without a call into the library if the key has another use: an identity key never
    /// decrypts, and a processing key never signs a TLS handshake.
    func borrow(
        _ publicKeyHash: [UInt8], for use: KeyUse, in session: inout Session
    ) throws(WorkerFailure) -> PrivateKeyEntry {
        if let entry = keys.borrow(publicKeyHash, for: use) { return entry }
        if let known = keys[publicKeyHash], known.use != use {
            throw WorkerFailure(
                .keyNotFound,
                "The private key with that publicKeyHash is for another use: it is \(known.use == .identity ? "an" : "a") "
                    + "\(known.use.noun).")
        }
        guard let entry = borrowNew(publicKeyHash, for: use, in: &session) else {
            throw WorkerFailure(.keyNotFound, "The HSM token has no usable private key with that publicKeyHash.")
        }
        return entry
    }

    /// Searches for a key that this worker does not know. The daemon requests only keys that the HSM token has shown.
    /// So a previous worker must have imported this key while the current worker was listing keys.
    private func borrowNew(_ hash: [UInt8], for use: KeyUse, in session: inout Session) -> PrivateKeyEntry? {
        exclusively {
            // A listing may have removed the key from the map for a moment. No listing runs inside this closure, so the
            // map is read again.
            if let entry = keys.borrow(hash, for: use) { return entry }
            _ = try? describeKey(hash, in: &session)
            return keys.borrow(hash, for: use)
        }
    }

    /// Searches for a key again after a stale handle: another program may have replaced the object, or the HSM token
    /// has ended the session that owned the working copy.
    func findAgain(
        _ entry: PrivateKeyEntry, _ call: CallError, _ session: inout Session, _ deadline: inout CallDeadline
    ) throws(WorkerFailure) {
        // The search itself fails if the session is lost or has an unfinished operation. It is then repeated once in a
        // new session.
        var isSecond = false
        while true {
            do throws(CallError) {
                try exclusively { () throws(CallError) in try findAgain(entry, in: &session) }
            } catch {
                if error.isBusy, deadline.wait() { continue }
                guard !isSecond else {
                    throw WorkerFailure(.hsmTokenUnavailable, "\(call), and the key cannot be looked for: \(error).")
                }
                isSecond = true
                try reopen(&session, &deadline)
                continue
            }
            guard keys[entry.publicKey.publicKeyHash]?.working != entry.working else {
                throw WorkerFailure(.hsmTokenUnavailable, "The HSM token does not show the key any more: \(call).")
            }
            return
        }
    }
}

extension KeyUse {
    /// `processing key`, `identity key`, `service key` or `Google Pay key`.
    var noun: String {
        switch self {
        case .processing: "processing key"
        case .identity: "identity key"
        case .service: "service key"
        case .googlePay: "Google Pay key"
        }
    }
}

/// The failed attempts at one operation so far.
struct FailedAttempts {
    /// The number of consecutive equal errors after which the operation's input or key counts as the cause, if other
    /// operations succeed.
    static let equalErrorLimit = 3
    /// The number of failed attempts after which the operation is not repeated, even if each attempt failed with
    /// another error.
    static let attemptLimit = 8

    /// The text that messages give as the error if the HSM token reported none, such as "a wrong tag".
    let unexplained: String
    private(set) var total = 0
    private var latest: CallError??
    private var times = 0

    init(unexplained: String) {
        self.unexplained = unexplained
    }

    /// - Parameter call: The call that failed; nil if this process found the fault.
    /// - Returns: The number of consecutive times that this error has occurred.
    mutating func count(_ call: CallError?) -> Int {
        total += 1
        times = latest == .some(call) ? times + 1 : 1
        latest = .some(call)
        return times
    }

    var last: String { (latest ?? nil)?.description ?? unexplained }
}

// Working copies of private keys as session objects. They spare some HSM tokens a read of their storage: without a
// copy, SoftHSM locks and reads a file, which takes a third of a decryption's time. Copies occupy memory and, in large
// numbers, cost time, so at most `maximumCopies` keys have one. At first these are the first keys of the listing, later
// the most used keys.
extension OpenToken {
    private static let maximumCopies = 64
    /// The interval, in uses of a key, at which the worker checks whether the key should get a working copy.
    private static let usesForCopy = 8

    /// Serves a tested key that was listed, generated or imported. Makes a working copy of the key if fewer than
    /// `maximumCopies` exist.
    func add(_ entry: PrivateKeyEntry) {
        keys.insert(entry)
        guard keys.copies < Self.maximumCopies else { return }
        anchor.withLock { session in
            guard let copy = session.workingCopy(of: entry) else {
                copiesAreRefused.store(true, ordering: .relaxed)
                return
            }
            let unused = keys.keep(copy, of: entry, limit: Self.maximumCopies, insteadOfAnother: false)
            if let unused { try? session.destroyObject(unused) }
        }
    }

    /// Counts a use of the key, and makes a working copy of a frequently used key. At `maximumCopies`, the new copy
    /// replaces the copy of a rarely used key.
    func countUse(of entry: PrivateKeyEntry) {
        let uses = keys.countUse(entry.publicKey.publicKeyHash)
        guard !entry.hasCopy, uses.isMultiple(of: Self.usesForCopy), !copiesAreRefused.load(ordering: .relaxed),
            keys.hasRoom(forCopyOf: entry, limit: Self.maximumCopies)
        else { return }
        anchor.withLock { session in
            guard let copy = session.workingCopy(of: entry) else { return }
            let unused = keys.keep(copy, of: entry, limit: Self.maximumCopies, insteadOfAnother: true)
            if let unused { try? session.destroyObject(unused) }
        }
    }

    func forget(_ entry: PrivateKeyEntry) {
        guard entry.hasCopy else { return }
        withoutKeyUses { anchor.withLock { try? $0.destroyObject(entry.working) } }
    }
}

extension Session {
    /// - Returns: A copy of the stored key as a session object; nil if the HSM token makes no copy, or if the copy has
    ///   weaker protection or other rights than the stored key.
    fileprivate mutating func workingCopy(of entry: PrivateKeyEntry) -> ObjectHandle? {
        guard let copy = try? copyObject(entry.object, [.token(false)]) else { return nil }
        let values = try? attributes([.sensitive, .extractable, .token], of: copy)
        guard values?.flag(.sensitive) == true, values?.flag(.extractable) == false, values?.flag(.token) == false,
            let rights = try? keyRights(of: copy), rights == (try? keyRights(of: entry.object))
        else {
            try? destroyObject(copy)
            return nil
        }
        return copy
    }
}

/// The time until which the worker may repeat a failed call into the library. It is earlier than the daemon's limit for
/// the request, at which the daemon ends the worker.
struct CallDeadline: Sendable {
    private let end: ContinuousClock.Instant
    private var pause = Self.shortestPause

    private static let shortestPause = 0.004
    private static let longestPause = 0.25

    /// - Parameters:
    ///   - start: The time when a session began to process the request. The time that the request waited for a session
    ///     does not count.
    ///   - callTimeout: The daemon's limit, in milliseconds.
    init(from start: ContinuousClock.Instant = .now, callTimeout: UInt32) {
        end = start + .milliseconds(Int64(callTimeout) * 3 / 4)
    }

    var isOver: Bool { ContinuousClock.now >= end }

    /// Blocks for a time that doubles with each call. The time is partly random, so that threads do not repeat their
    /// calls at the same moment.
    /// - Returns: false, without waiting, if no time is left.
    mutating func wait() -> Bool {
        let duration = pause * .random(in: 0.5...1)
        guard ContinuousClock.now + .seconds(duration) < end else { return false }
        BlockingThread.sleep(duration)
        pause = min(pause * 2, Self.longestPause)
        return true
    }

    /// Repeats a call while the HSM token reports that it is busy and time is left.
    mutating func retryingWhileBusy<Value>(_ body: () throws(CallError) -> Value) throws(CallError) -> Value {
        while true {
            do throws(CallError) {
                return try body()
            } catch {
                guard error.isBusy, wait() else { throw error }
            }
        }
    }

    /// Runs a test, and runs it once more if it fails. Otherwise one transient error would disable the tested function
    /// for as long as the worker runs. A test that fails because the HSM token is busy is repeated while time is left.
    ///
    /// - Returns: nil if the test passed, otherwise the last fault.
    mutating func failureAfterRetry(_ test: () -> SelfTestFailure?) -> SelfTestFailure? {
        var isSecond = false
        while let failure = test() {
            if failure.call?.isBusy == true, wait() { continue }
            if isSecond { return failure }
            isSecond = true
        }
        return nil
    }
}

// The meaning of the return values that all HSM tokens use in the same way. After any other value, the worker opens a
// transaction that is known to be good, to find out whether the HSM token works.
extension CallError {
    /// True if the HSM token has no room for another session or operation at present.
    var isBusy: Bool {
        switch returnValue {
        case .sessionCount?, .deviceMemory?, .hostMemory?, .tokenResourceExceeded?: true
        default: false
        }
    }

    /// True if the object that the call used no longer exists.
    var isStaleHandle: Bool {
        switch returnValue {
        case .keyHandleInvalid?, .objectHandleInvalid?, .unwrappingKeyHandleInvalid?: true
        default: false
        }
    }

    /// True if the session no longer exists, or accepts no other operation.
    var isSessionLost: Bool {
        switch returnValue {
        case .sessionHandleInvalid?, .sessionClosed?, .operationActive?, .operationNotInitialized?: true
        default: false
        }
    }

    /// True if the HSM token is no longer in this slot: it has another slot now, or is gone.
    var isTokenGone: Bool {
        switch returnValue {
        case .slotIdentifierInvalid?, .tokenNotPresent?, .tokenNotRecognized?, .deviceRemoved?: true
        default: false
        }
    }

    /// True if the session no longer exists, or the HSM token is gone. Some libraries report a good login state in such
    /// a session, and end every later session in the same way.
    var isConnectionLost: Bool {
        returnValue == .sessionHandleInvalid || returnValue == .sessionClosed || isTokenGone
    }

    /// True if the failure has another cause than the key that the call used.
    var isUnrelatedToKey: Bool { isBusy || isSessionLost || isTokenGone || returnValue == .userNotLoggedIn }

    /// True if the PIN is wrong, or if its length or one of its characters is not permitted.
    var isPINRefused: Bool {
        switch returnValue {
        case .pinIncorrect?, .pinInvalid?, .pinLengthRange?: true
        default: false
        }
    }

    /// True if the login would fail again with the same PIN, so that another attempt could lock the PIN.
    var isLoginRefused: Bool {
        switch returnValue {
        case .pinLocked?, .pinExpired?: true
        default: isPINRefused
        }
    }

    /// True if the call processes bytes that the sender of the payment token chose and that this process cannot
    /// validate.
    var processesUntrustedInput: Bool { call == "C_Decrypt" || call == "C_UnwrapKey" }

    /// True if wrong input may be the cause: a wrong padding or a wrong tag. HSM tokens return many different values
    /// for both. Some of these values also report faults of the HSM token, so no value proves that the input is wrong.
    /// Only errors with a known other cause are excluded: a missing function, a lost session, login or object, or a
    /// busy HSM token.
    var mayBeCausedByInput: Bool {
        processesUntrustedInput && cause != .missing && !isUnrelatedToKey && !isStaleHandle
    }
}

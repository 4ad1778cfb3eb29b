import PKCS11
import WorkerProtocol

// Repair of sessions and logins that the HSM token has ended: after an idle time-out, because of another process, or
// after an interrupted connection to an HSM. Other failures become `hsmTokenUnavailable`: the daemon then ends this
// worker and starts another.
extension OpenToken {
    /// Makes sure that the session exists and that the user is logged in. If nothing is wrong, this costs two cheap
    /// calls into the library.
    /// - Throws: `overloaded` if the HSM token has no room for a session before the deadline, `loginRefused`, otherwise
    ///   `hsmTokenUnavailable`.
    func restore(_ session: inout Session, _ deadline: inout CallDeadline) throws(WorkerFailure) {
        if try isLoggedIn(&session, &deadline) { return }
        try logInAgain(&session, &deadline)
    }

    /// Replaces a session that failed. Waits until the deadline while the HSM token has no room for a new session.
    func reopen(_ session: inout Session, _ deadline: inout CallDeadline) throws(WorkerFailure) {
        do {
            try deadline.retryingWhileBusy { () throws(CallError) in try reopen(&session) }
        } catch {
            throw WorkerFailure(
                error.isBusy ? .overloaded : .hsmTokenUnavailable, "The session cannot be opened again: \(error).")
        }
    }

    /// Replaces a session, in one attempt.
    func reopen(_ session: inout Session) throws(CallError) {
        let known = slot.withLock { $0 }
        do throws(CallError) {
            try session.reopenAsWritableAsPossible(in: known)
        } catch {
            // An HSM token may have another slot after it was disconnected and reconnected.
            guard error.isTokenGone, let (found, _) = try? known.module.slot(holding: uri) else { throw error }
            slot.withLock { $0 = found }
            try session.reopenAsWritableAsPossible(in: found)
        }
    }

    /// - Returns: false if the user is not logged in, or if the anchor session was lost, and with it the working copies
    ///   of the keys.
    private func isLoggedIn(_ session: inout Session, _ deadline: inout CallDeadline) throws(WorkerFailure) -> Bool {
        let user: UserType?
        do throws(CallError) {
            user = try session.loggedInUser()
        } catch {
            try reopen(&session, &deadline)
            do throws(CallError) {
                user = try session.loggedInUser()
            } catch {
                throw WorkerFailure(.hsmTokenUnavailable, "A new session failed at once: \(error).")
            }
        }
        guard user == .user else { return false }
        return anchor.withLock { (try? $0.loggedInUser()) == .user }
    }

    /// Logs in again. If several threads need the login, the first one logs in; the others wait and find the login
    /// restored.
    private func logInAgain(_ session: inout Session, _ deadline: inout CallDeadline) throws(WorkerFailure) {
        try exclusively { () throws(WorkerFailure) in
            let isDone = anchor.withLock { (try? $0.loggedInUser()) == .user }
            guard !isDone else { return }
            // After a login all keys are listed and tested. A trial uses no keys but its own.
            guard keeper == .worker else {
                throw WorkerFailure(.hsmTokenUnavailable, "The HSM token ended the login.")
            }
            // The working copies end with the anchor session, and private objects with a login. At a new login, SoftHSM
            // also empties and rewrites the file that contains the key for all other keys, so a crash would then lose
            // the whole HSM token.
            try withoutKeyUses { () throws(WorkerFailure) in
                try anchor.withLock { (anchor) throws(WorkerFailure) in
                    do throws(CallError) {
                        _ = try anchor.loggedInUser()
                    } catch {
                        try reopen(&anchor, &deadline)
                    }
                    try TokenLogin(opening).perform(in: &anchor, of: slot.withLock { $0 })
                }
            }
            // The tiers are tested again, because a group of HSMs may now answer with a different device, which may
            // lack a tier.
            let tiersNow = TierSelection(
                in: &session, allowExtractableSecret: opening.allowExtractableSecret, deadline: deadline)
            guard tiersNow.hasSameTiers(as: tiers) else {
                throw WorkerFailure(
                    .hsmTokenUnavailable,
                    "The HSM token is back, but supports other tiers than before; a new worker tests it.")
            }
            let former = keys.all
            dropKeys()
            do {
                _ = try listKeys(in: &session)
            } catch {
                keys.replace(with: former)
                throw WorkerFailure(.hsmTokenUnavailable, "The keys cannot be listed after the login: \(error).")
            }
            guard Set(former.keys).isSubset(of: keys.all.keys) else {
                // The former keys stay in the map, so that waiting requests fail as unavailable and not as "no such
                // key".
                keys.replace(with: former)
                throw WorkerFailure(.hsmTokenUnavailable, "The HSM token does not show all keys after the login.")
            }
        }
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

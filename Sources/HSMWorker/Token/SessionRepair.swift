import PKCS11
import WorkerProtocol

// What is done about sessions and logins that a token has ended: by idle time-outs, by another process, by a connection
// that was interrupted. Whatever is not repaired here costs a worker, and the next one starts from the beginning.
extension OpenToken {
    /// Sees to it that the session exists and that the user is logged in. Two cheap calls where all is well.
    /// - Throws: `overloaded` when the token has no room for a session until the deadline, `loginRefused`, else
    ///   `tokenUnavailable`.
    func restore(_ session: inout Session, _ deadline: inout CallDeadline) throws(WorkerFailure) {
        if try holdsLogin(&session, &deadline) { return }
        try logInAgain(&session, &deadline)
    }

    /// Another session in the place of one that did what it should not.
    func reopen(_ session: inout Session, _ deadline: inout CallDeadline) throws(WorkerFailure) {
        do {
            try deadline.retryingWhileBusy { () throws(CallError) in try reopen(&session) }
        } catch {
            throw WorkerFailure(
                error.isBusy ? .overloaded : .tokenUnavailable, "The session cannot be opened again: \(error).")
        }
    }

    /// One try.
    func reopen(_ session: inout Session) throws(CallError) {
        let known = slot.withLock { $0 }
        do throws(CallError) {
            try session.reopenAsWritableAsPossible(in: known)
        } catch {
            // Tokens come back elsewhere.
            guard error.isTokenGone, let (found, _) = try? known.module.slot(holding: uri) else { throw error }
            slot.withLock { $0 = found }
            try session.reopenAsWritableAsPossible(in: found)
        }
    }

    /// - Returns: false when nobody is logged in, or the anchor is gone and the working copies with it.
    private func holdsLogin(_ session: inout Session, _ deadline: inout CallDeadline) throws(WorkerFailure) -> Bool {
        let user: UserType?
        do throws(CallError) {
            user = try session.loggedInUser()
        } catch {
            try reopen(&session, &deadline)
            do throws(CallError) {
                user = try session.loggedInUser()
            } catch {
                throw WorkerFailure(.tokenUnavailable, "A new session is of no use: \(error).")
            }
        }
        guard user == .user else { return false }
        return anchor.withLock { (try? $0.loggedInUser()) == .user }
    }

    /// One thread does it; the others wait for that and find it done.
    private func logInAgain(_ session: inout Session, _ deadline: inout CallDeadline) throws(WorkerFailure) {
        try exclusively { () throws(WorkerFailure) in
            let isDone = anchor.withLock { (try? $0.loggedInUser()) == .user }
            guard !isDone else { return }
            try anchor.withLock { (anchor) throws(WorkerFailure) in
                do throws(CallError) {
                    _ = try anchor.loggedInUser()
                } catch {
                    try reopen(&anchor, &deadline)
                }
                try TokenLogin(opening).perform(in: &anchor, of: slot.withLock { $0 })
            }
            // It may be another device of a group that answers now.
            let tiersNow = TierSelection(
                in: &session, allowExtractableSecret: opening.allowExtractableSecret, deadline: deadline)
            guard tiersNow.isLike(tiers) else {
                throw WorkerFailure(.tokenUnavailable, "The token came back with other tiers; a new worker finds out.")
            }
            let former = keys.all
            dropKeys()
            do {
                _ = try listKeys(in: &session)
            } catch {
                keys.replace(with: former)
                throw WorkerFailure(.tokenUnavailable, "The keys cannot be listed after the login: \(error).")
            }
            guard Set(former.keys).isSubset(of: keys.all.keys) else {
                // Else the calls that wait would hear that there are no such keys.
                keys.replace(with: former)
                throw WorkerFailure(.tokenUnavailable, "The token does not show all keys after the login.")
            }
        }
    }
}

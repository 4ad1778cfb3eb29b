import KeyTypes
import PKCS11
import WorkerProtocol

// A served key for one operation: borrowed by its use, looked for again when its object is gone.
extension OpenToken {
    /// The caller gives it back.
    ///
    /// A key of the other use is refused without a call into the library: an identity key is never asked to decrypt, nor a
    /// processing key to sign.
    func borrow(
        _ publicKeyHash: [UInt8], for use: KeyUse, in session: inout Session
    ) throws(WorkerFailure) -> PrivateKeyEntry {
        if let entry = keys.borrow(publicKeyHash, for: use) { return entry }
        if let known = keys[publicKeyHash], known.use != use {
            throw WorkerFailure(
                .keyNotFound,
                "The private key with that publicKeyHash is for another use: it is \(known.use.article) key.")
        }
        guard let entry = borrowNew(publicKeyHash, for: use, in: &session) else {
            throw WorkerFailure(.keyNotFound, "The token has no usable private key with that publicKeyHash.")
        }
        return entry
    }

    /// The daemon asks only for keys that the token has shown. One that this worker does not know was imported through the
    /// worker before it, while this one was listing the others.
    private func borrowNew(_ hash: [UInt8], for use: KeyUse, in session: inout Session) -> PrivateKeyEntry? {
        exclusively {
            // A listing under way may have removed the key for a moment: it is looked up again under the lock.
            if let entry = keys.borrow(hash, for: use) { return entry }
            _ = try? describeKey(hash, in: &session)
            return keys.borrow(hash, for: use)
        }
    }

    /// After a stale handle: another program may have replaced the key's object, or the token has ended the session that
    /// owned the working copy.
    func findAgain(
        _ entry: PrivateKeyEntry, _ call: CallError, _ session: inout Session, _ deadline: inout CallDeadline
    ) throws(WorkerFailure) {
        // An operation that did not end, or a lost session, makes the search itself fail: once more in a new session.
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
                throw WorkerFailure(.hsmTokenUnavailable, "The token does not show the key any more: \(call).")
            }
            return
        }
    }
}

extension KeyUse {
    fileprivate var article: String { self == .identity ? "an identity" : "a processing" }
}

/// The attempts at one operation that have failed so far.
struct FailedAttempts {
    /// So often the same error in succession, while other operations succeed: this one is the cause.
    static let enough = 3
    /// Of all errors together.
    static let most = 8

    /// What is said of an attempt that failed without an error of the token's.
    let unexplained: String
    private(set) var total = 0
    private var latest: CallError??
    private var times = 0

    init(unexplained: String) {
        self.unexplained = unexplained
    }

    /// - Parameter call: nil for what this process found wrong.
    /// - Returns: How often this error came in succession.
    mutating func count(_ call: CallError?) -> Int {
        total += 1
        times = latest == .some(call) ? times + 1 : 1
        latest = .some(call)
        return times
    }

    var last: String { (latest ?? nil)?.description ?? unexplained }
}

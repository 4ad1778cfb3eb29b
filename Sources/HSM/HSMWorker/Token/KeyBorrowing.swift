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

// Copies of private keys as session objects, which spare some tokens a look at their storage: SoftHSM locks and reads a
// file otherwise, which costs a third of a release. They cost memory and, in large numbers, time: so many keys have one,
// first those that are listed first, then those that are used most.
extension OpenToken {
    private static let mostCopies = 64
    /// A copy is worth its making to a key that is used so often.
    private static let usesForCopy = 8

    /// Serves a key that was listed or made, and tested; with a copy where there is room.
    func add(_ entry: PrivateKeyEntry) {
        keys.insert(entry)
        guard keys.copies < Self.mostCopies else { return }
        anchor.withLock { session in
            guard let copy = session.workingCopy(of: entry) else {
                copiesAreRefused.store(true, ordering: .relaxed)
                return
            }
            let unused = keys.keep(copy, of: entry, most: Self.mostCopies, insteadOfAnother: false)
            if let unused { try? session.destroyObject(unused) }
        }
    }

    /// After a use: a key that is used much gets the copy of one that is used little.
    func countUse(of entry: PrivateKeyEntry) {
        let uses = keys.countUse(entry.publicKey.publicKeyHash)
        guard !entry.hasCopy, uses.isMultiple(of: Self.usesForCopy), !copiesAreRefused.load(ordering: .relaxed),
            keys.hasRoom(forCopyOf: entry, most: Self.mostCopies)
        else { return }
        anchor.withLock { session in
            guard let copy = session.workingCopy(of: entry) else { return }
            let unused = keys.keep(copy, of: entry, most: Self.mostCopies, insteadOfAnother: true)
            if let unused { try? session.destroyObject(unused) }
        }
    }

    func forget(_ entry: PrivateKeyEntry) {
        guard entry.hasCopy else { return }
        anchor.withLock { try? $0.destroyObject(entry.working) }
    }
}

extension Session {
    /// - Returns: nil where the token makes none that is as well protected, or only one that may do more or less.
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

import KeyTypes
import PKCS11
import WorkerProtocol

// Borrows a served key for one operation, by its use, and searches for it again when its object is gone.
extension OpenToken {
    /// Lends a key to the caller, which gives it back.
    ///
    /// A key of the other use is refused without a call into the library: an identity key is never asked to decrypt,
    /// nor a processing key to sign.
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
            throw WorkerFailure(.keyNotFound, "The HSM token has no usable private key with that publicKeyHash.")
        }
        return entry
    }

    /// Searches for a key that this worker does not know. The daemon asks only for keys that the HSM token has shown,
    /// so the former worker imported it while this one listed the others.
    private func borrowNew(_ hash: [UInt8], for use: KeyUse, in session: inout Session) -> PrivateKeyEntry? {
        exclusively {
            // A listing under way may have removed the key for a moment, so it is looked up again under the lock.
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
        // An unfinished operation or a lost session makes the search itself fail; it is tried once more in a new
        // session.
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
    fileprivate var article: String { self == .identity ? "an identity" : "a processing" }
}

/// The attempts at one operation that have failed so far.
struct FailedAttempts {
    /// The number of equal errors in succession that shows this operation to be the cause, while other operations
    /// succeed.
    static let enough = 3
    /// The limit for all errors together.
    static let most = 8

    /// The description of an attempt that failed without an error of the HSM token's.
    let unexplained: String
    private(set) var total = 0
    private var latest: CallError??
    private var times = 0

    init(unexplained: String) {
        self.unexplained = unexplained
    }

    /// - Parameter call: nil for a fault that this process found.
    /// - Returns: The number of times that this error came in succession.
    mutating func count(_ call: CallError?) -> Int {
        total += 1
        times = latest == .some(call) ? times + 1 : 1
        latest = .some(call)
        return times
    }

    var last: String { (latest ?? nil)?.description ?? unexplained }
}

// Working copies of private keys as session objects. They spare some HSM tokens a read of their storage: SoftHSM locks
// and reads a file otherwise, which costs a third of a release. Copies cost memory and, in large numbers, time, so
// only a limited number of keys has one. At first these are the keys listed first, later those used most.
extension OpenToken {
    private static let mostCopies = 64
    /// The number of uses from which a key is worth a copy.
    private static let usesForCopy = 8

    /// Serves a key that was listed or made, and tested; with a copy if there is room.
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

    /// Counts a use. A key that is used much gets the copy of one that is used little.
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
    /// - Returns: nil if the HSM token makes no copy, or only one with weaker protection or other rights.
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

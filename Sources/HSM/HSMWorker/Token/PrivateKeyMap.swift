import Encodings
import KeyTypes
import Locks
import PKCS11
import WorkerProtocol

/// The private keys that passed their tests, by publicKeyHash. The worker fills the map when it lists, imports or
/// generates keys. So a decryption needs no search in the HSM token, which takes SoftHSM 23 ms among 500 keys.
///
/// The map also counts each key's uses, so that the most used keys get working copies. The working copy of a borrowed
/// key is not replaced until the borrower gives the key back.
final class PrivateKeyMap: Sendable {
    fileprivate struct State {
        var entries: [[UInt8]: PrivateKeyEntry] = [:]
        /// The keys that have a working copy. All other keys are used through the stored object.
        var copied: Set<[UInt8]> = []
        /// The number of recent uses of each key. All numbers are halved after every `halvingInterval` uses, so that
        /// old uses lose weight.
        var uses: [[UInt8]: Int] = [:]
        var untilHalved = PrivateKeyMap.halvingInterval
        /// The number of operations that have borrowed each key now.
        var borrowers: [[UInt8]: Int] = [:]
    }

    private static let halvingInterval = 8192

    private let state = Mutex(State())

    subscript(publicKeyHash: [UInt8]) -> PrivateKeyEntry? {
        state.withLock { $0.entries[publicKeyHash] }
    }

    var all: [[UInt8]: PrivateKeyEntry] { state.withLock { $0.entries } }

    /// The number of keys that have a working copy.
    var copies: Int { state.withLock { $0.copied.count } }

    func insert(_ entry: PrivateKeyEntry) {
        state.withLock { $0.set(entry) }
    }

    @discardableResult
    func remove(_ publicKeyHash: [UInt8]) -> PrivateKeyEntry? {
        state.withLock { state in
            state.copied.remove(publicKeyHash)
            state.uses[publicKeyHash] = nil
            return state.entries.removeValue(forKey: publicKeyHash)
        }
    }

    func replace(with new: [[UInt8]: PrivateKeyEntry]) {
        state.withLock { state in
            state.entries = new
            state.copied = Set(new.filter { $0.value.hasCopy }.keys)
        }
    }

    // MARK: Use

    /// Lends a key to one call, which must return it with ``giveBack(_:)``. Until then no other key's working copy
    /// replaces the key's own.
    ///
    /// - Returns: nil if the key is unknown or has another use.
    func borrow(_ publicKeyHash: [UInt8], for use: KeyUse) -> PrivateKeyEntry? {
        state.withLock { state in
            guard let entry = state.entries[publicKeyHash], entry.use == use else { return nil }
            state.borrowers[publicKeyHash, default: 0] += 1
            return entry
        }
    }

    func giveBack(_ publicKeyHash: [UInt8]) {
        state.withLock { state in
            let left = state.borrowers[publicKeyHash, default: 1] - 1
            state.borrowers[publicKeyHash] = left > 0 ? left : nil
        }
    }

    /// Counts a use.
    /// - Returns: The number of recent uses of the key, including the new one.
    func countUse(_ publicKeyHash: [UInt8]) -> Int {
        state.withLock { state in
            state.untilHalved -= 1
            if state.untilHalved == 0 {
                state.untilHalved = Self.halvingInterval
                state.uses = state.uses.compactMapValues { $0 > 1 ? $0 / 2 : nil }
            }
            state.uses[publicKeyHash, default: 0] += 1
            return state.uses[publicKeyHash, default: 0]
        }
    }

    /// Returns true if the key may get a working copy: fewer than `limit` keys have copies, or another key's copy can
    /// be replaced.
    func hasRoom(forCopyOf entry: PrivateKeyEntry, limit: Int) -> Bool {
        state.withLock { $0.isWithoutCopy(entry) && ($0.copied.count < limit || $0.keyReplaceable(by: entry) != nil) }
    }

    /// Gives a key its working copy.
    /// - Parameter insteadOfAnother: True to replace another key's copy if `limit` keys have copies already.
    /// - Returns: The copy that the caller must destroy: the replaced one, or `copy` itself if it is not used. nil if
    ///   no copy has to be destroyed.
    func keep(
        _ copy: ObjectHandle, of entry: PrivateKeyEntry, limit: Int, insteadOfAnother: Bool
    ) -> ObjectHandle? {
        state.withLock { state in
            guard state.isWithoutCopy(entry) else { return copy }
            var freed: ObjectHandle?
            if state.copied.count >= limit {
                guard insteadOfAnother, let other = state.keyReplaceable(by: entry),
                    var former = state.entries[other]
                else { return copy }
                freed = former.working
                former.working = former.object
                state.set(former)
            }
            var entry = entry
            entry.working = copy
            state.set(entry)
            return freed
        }
    }
}

extension PrivateKeyMap.State {
    fileprivate mutating func set(_ entry: PrivateKeyEntry) {
        let hash = entry.publicKey.publicKeyHash
        entries[hash] = entry
        if entry.hasCopy { copied.insert(hash) } else { copied.remove(hash) }
    }

    /// Returns true if the map still has this entry's object, without a working copy. A listing may have replaced or
    /// removed the entry since the caller read it.
    fileprivate func isWithoutCopy(_ entry: PrivateKeyEntry) -> Bool {
        guard let now = entries[entry.publicKey.publicKeyHash] else { return false }
        return now.object == entry.object && !now.hasCopy
    }

    /// Returns the publicKeyHash of the key whose copy `entry` may replace: the least used key that no operation has
    /// borrowed. Returns nil unless that key has less than half as many uses as `entry`. Otherwise two keys with
    /// similar use would keep replacing each other's copy.
    fileprivate func keyReplaceable(by entry: PrivateKeyEntry) -> [UInt8]? {
        let idle = copied.lazy.filter { borrowers[$0] == nil }
        guard let least = idle.min(by: { uses[$0, default: 0] < uses[$1, default: 0] }) else { return nil }
        let mine = uses[entry.publicKey.publicKeyHash, default: 0]
        return uses[least, default: 0] * 2 < mine ? least : nil
    }
}

extension PrivateKeyEntry {
    var hasCopy: Bool { working != object }
}

extension SubjectPublicKeyInfo {
    var algorithm: KeyAlgorithm {
        switch key {
        case .ec: .ec
        case .rsa: .rsa
        }
    }
}

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

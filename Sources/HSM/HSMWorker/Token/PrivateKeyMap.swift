import Encodings
import KeyTypes
import Locks
import PKCS11

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

import KeyTypes
import PKCS11
import Synchronization

/// The private keys that may be used, by publicKeyHash. The map is built from listings, so that a decryption needs no
/// search in the HSM token: a search among 500 keys takes SoftHSM 23 ms.
///
/// It also counts uses, for the working copies. A caller that has borrowed a key may rely on its working copy until
/// the key is given back.
final class PrivateKeyMap: Sendable {
    fileprivate struct State {
        var entries: [[UInt8]: PrivateKeyEntry] = [:]
        /// The keys whose working copy is not the stored object.
        var copied: Set<[UInt8]> = []
        /// The number of recent uses. It is halved at intervals, so that past use does not count forever.
        var uses: [[UInt8]: Int] = [:]
        var untilHalved = PrivateKeyMap.halvingInterval
        /// The number of calls under way, by key.
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

    /// Lends a key to one call, which must return it with ``giveBack(_:)``. Until then no other key takes its place
    /// among the working copies.
    ///
    /// - Returns: nil if the key is unknown or has the other use.
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
    /// - Returns: The number of recent uses, this one included.
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

    /// Returns true if a working copy of the key can be kept: below the limit, or in place of another key's copy.
    func hasRoom(forCopyOf entry: PrivateKeyEntry, most: Int) -> Bool {
        state.withLock { $0.isWithoutCopy(entry) && ($0.copied.count < most || $0.replaceable(by: entry) != nil) }
    }

    /// Gives a key its working copy.
    /// - Parameter insteadOfAnother: If true, takes the place of another key's copy when the limit is reached.
    /// - Returns: The copy that the caller must destroy, which may be the new one; nil if there is none.
    func keep(
        _ copy: ObjectHandle, of entry: PrivateKeyEntry, most: Int, insteadOfAnother: Bool
    ) -> ObjectHandle? {
        state.withLock { state in
            guard state.isWithoutCopy(entry) else { return copy }
            var freed: ObjectHandle?
            if state.copied.count >= most {
                guard insteadOfAnother, let other = state.replaceable(by: entry),
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

    /// The least used key whose copy is not borrowed. It must be used less than half as often as this key, so that two
    /// keys do not keep taking the copy from each other.
    fileprivate func replaceable(by entry: PrivateKeyEntry) -> [UInt8]? {
        let idle = copied.lazy.filter { borrowers[$0] == nil }
        guard let least = idle.min(by: { uses[$0, default: 0] < uses[$1, default: 0] }) else { return nil }
        let mine = uses[entry.publicKey.publicKeyHash, default: 0]
        return uses[least, default: 0] * 2 < mine ? least : nil
    }
}

extension PrivateKeyEntry {
    var hasCopy: Bool { working != object }
}

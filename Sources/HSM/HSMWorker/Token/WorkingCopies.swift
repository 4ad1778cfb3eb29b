import PKCS11

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

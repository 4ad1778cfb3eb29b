import Foundation
import PKCS11
import WorkerProtocol

// What the token shows of its keys, read anew and tested. Pages of one listing may be read at the same time, in a session
// each; nothing changes the keys meanwhile (``KeyOperationsLock``). All else here is done alone.
extension OpenToken {
    /// Reads keys, tests them and serves those that passed: the first ones of a new listing, or the next ones.
    ///
    /// - Parameter number: of the listing to go on with.
    /// - Returns: A page after which there is more, or the last for whoever asked: others may still be at theirs. nil
    ///   when that listing was given up for another.
    func listKeys(_ number: UInt64?, in session: inout Session) throws(CallError) -> WorkerAnswer? {
        let pages: (number: UInt64, keys: KeyListing)
        if let number {
            guard let latest = listing.withLock({ $0 }), latest.number == number else { return nil }
            guard let keys = latest.keys else { return .keys([]) }
            pages = (number, keys)
        } else {
            pages = (.random(in: 1 ... .max), try KeyListing(&session, tiers: tiers, known: keys.all))
            listing.withLock { $0 = pages }
        }
        let page = try pages.keys.next(in: &session, within: pageTime)
        serve(page, pages.keys)
        if pages.keys.isDone {
            forgetUnlisted(pages.keys)
            listing.withLock { listing in
                if listing?.number == pages.number { listing?.keys = nil }
            }
        }
        return pages.keys.hasMore && !page.isEmpty ? .keyPage(page, listing: pages.number) : .keys(page)
    }

    /// The whole token at once, however long it takes.
    func listKeys(in session: inout Session) throws(CallError) -> [KeyDescription] {
        let pages = try KeyListing(&session, tiers: tiers, known: keys.all)
        var descriptions: [KeyDescription] = []
        while !pages.isDone {
            let page = try pages.next(in: &session, within: .seconds(3600))
            serve(page, pages)
            descriptions += page
        }
        forgetUnlisted(pages)
        return descriptions
    }

    /// The same for one key.
    func describeKey(_ publicKeyHash: [UInt8], in session: inout Session) throws(CallError) -> [KeyDescription] {
        let known = keys[publicKeyHash].map { [publicKeyHash: $0] } ?? [:]
        let listing = try KeyListing(of: publicKeyHash, &session, tiers: tiers, known: known)
        var descriptions: [KeyDescription] = []
        while !listing.isDone { descriptions += try listing.next(in: &session, within: pageTime) }
        serve(descriptions, listing)
        forgetUnlisted(listing)
        return descriptions
    }

    /// After a key's object, or its working copy, was found gone: it is looked for and tested anew. What it was stays where
    /// the token does not show it any more, so that whoever has a call with it learns that the token has lost it, and not
    /// that there never was such a key.
    func lookAgain(for entry: PrivateKeyEntry, in session: inout Session) throws(CallError) {
        let hash = entry.publicKey.publicKeyHash
        // Another thread may have been here.
        guard keys[hash]?.working == entry.working else { return }
        let listing = try KeyListing(of: hash, &session, tiers: tiers, known: [:])
        while !listing.isDone { _ = try listing.next(in: &session, within: pageTime) }
        guard let found = listing.entries[hash] else { return }
        forget(entry)
        add(found)
    }

    /// A page is to be there well within the daemon's limit, with time for the searches before the first one.
    private var pageTime: Duration { .milliseconds(min(Int64(opening.callTimeout) / 4, 5_000)) }

    private func serve(_ page: [KeyDescription], _ listing: KeyListing) {
        for description in page {
            guard let entry = listing.entries[description.identifier] else { continue }
            let former = keys[description.identifier]
            if let former, former.object == entry.object { continue }
            add(entry)
            if let former { forget(former) }
        }
    }

    /// What was there when the listing began, and is not among what it found.
    private func forgetUnlisted(_ listing: KeyListing) {
        for (hash, entry) in listing.known
        where listing.entries[hash] == nil && keys[hash]?.working == entry.working {
            keys.remove(hash)
            forget(entry)
        }
    }
}

/// What changes the token's keys is done alone: an import looks first and creates then. What only reads and tests them
/// goes on beside others of its kind, each in a session of its own.
///
/// A condition and not a Mutex, because several may hold it at once.
final class KeyOperationsLock: @unchecked Sendable {
    // Guarded by `condition`.
    private var readers = 0
    private var isHeldAlone = false
    private var waiting = 0
    private let condition = NSCondition()

    /// One at a time, and nobody reads meanwhile.
    func alone<Result, Failure: Error>(_ body: () throws(Failure) -> Result) throws(Failure) -> Result {
        condition.lock()
        waiting += 1
        while isHeldAlone || readers > 0 { condition.wait() }
        waiting -= 1
        isHeldAlone = true
        condition.unlock()
        defer {
            condition.lock()
            isHeldAlone = false
            condition.broadcast()
            condition.unlock()
        }
        return try body()
    }

    /// With other readers. Whoever waits to be alone comes first, so that readers cannot keep it out for ever.
    func reading<Result, Failure: Error>(_ body: () throws(Failure) -> Result) throws(Failure) -> Result {
        condition.lock()
        while isHeldAlone || waiting > 0 { condition.wait() }
        readers += 1
        condition.unlock()
        defer {
            condition.lock()
            readers -= 1
            condition.broadcast()
            condition.unlock()
        }
        return try body()
    }
}

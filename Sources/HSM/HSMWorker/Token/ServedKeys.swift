import PKCS11
import WorkerProtocol

// Functions that read the keys again, test them, and serve those that passed. Several sessions may read pages of one
// listing at the same time, since `listKeys(_:in:)` only reads under ``OpenToken/keyOperations``. The other functions write
// under it.
extension OpenToken {
    /// Reads one page of a listing, tests its keys and serves those that passed.
    ///
    /// - Parameter number: The listing whose next page is read; nil to begin a new listing.
    /// - Returns: A page of keys: `keyPage` if more pages follow, or `keys` for the last page. Other sessions may still
    ///   be reading pages of the listing when the caller gets the last page. nil if a newer listing has replaced
    ///   listing `number`.
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

    /// Reads, tests and serves all keys in one call, without a limit of time.
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

    /// Reads one key again and tests it. Serves the key if it passes. Stops serving the key if it fails, or if the HSM
    /// token no longer shows it.
    func describeKey(_ publicKeyHash: [UInt8], in session: inout Session) throws(CallError) -> [KeyDescription] {
        let known = keys[publicKeyHash].map { [publicKeyHash: $0] } ?? [:]
        let listing = try KeyListing(of: publicKeyHash, &session, tiers: tiers, known: known)
        var descriptions: [KeyDescription] = []
        while !listing.isDone { descriptions += try listing.next(in: &session, within: pageTime) }
        serve(descriptions, listing)
        forgetUnlisted(listing)
        return descriptions
    }

    /// Searches for a key again and tests it, after its object or its working copy turned out to be gone. If the HSM
    /// token no longer shows the key, the old entry is kept. Calls with that key then fail as "lost by the HSM token"
    /// and not as "no such key".
    func findAgain(_ entry: PrivateKeyEntry, in session: inout Session) throws(CallError) {
        let hash = entry.publicKey.publicKeyHash
        // Another thread may have replaced the entry already.
        guard keys[hash]?.working == entry.working else { return }
        let listing = try KeyListing(of: hash, &session, tiers: tiers, known: [:])
        while !listing.isDone { _ = try listing.next(in: &session, within: pageTime) }
        guard let found = listing.entries[hash] else { return }
        forget(entry)
        add(found)
    }

    /// The time limit for reading one page. It is well below the daemon's limit for a request, because the request for
    /// a listing's first page also searches the HSM token for keys and certificates, outside this limit.
    private var pageTime: Duration { .milliseconds(min(Int64(opening.callTimeout) / 4, 5_000)) }

    private func serve(_ page: [KeyDescription], _ listing: KeyListing) {
        for description in page {
            guard let entry = listing.entries[description.identifier] else { continue }
            let former = keys[description.identifier]
            if let former, former.object == entry.object, former.use == entry.use { continue }
            add(entry)
            if let former { forget(former) }
        }
    }

    /// Stops serving each key that was served when the listing began and that the listing did not find.
    private func forgetUnlisted(_ listing: KeyListing) {
        for (hash, entry) in listing.known
        where listing.entries[hash] == nil && keys[hash]?.working == entry.working {
            keys.remove(hash)
            forget(entry)
        }
    }
}

import Ledger
import Locks
package import PaymentToken

/// A Bloom filter of the names that the claims of Google Pay's messages have in this ledger. If it lacks a name, no claim
/// has that name, and the ledger is not read before the HSM is used. Each first release of such a message would
/// otherwise wait for a read.
///
/// The filter never decides on a release; the claim does. Names that were pruned stay in it until the ledger is opened
/// again, and other names may appear to be in it. Such a name costs a read.
package final class ClaimFilter: Sendable {
    /// 2^26 bits, which are 8 MiB. Of the names without a claim, 0.1 % appear to have one in a ledger with a million
    /// claims, and 7 % in a ledger with ten million.
    private static let words = 1 << 20

    private struct State {
        /// Empty until the first name is inserted. A ledger of Apple Pay alone needs no space for it.
        var bits: [UInt64] = []
        var isComplete = false
    }

    private let state = Mutex(State())

    package init() {}

    /// Inserts a name. The writer calls this method before the commit. The filter thus has each committed claim.
    package func insert(_ name: TransactionIdentifier) {
        state.withLock { state in
            if state.bits.isEmpty { state.bits = [UInt64](repeating: 0, count: Self.words) }
            for place in Self.places(of: name) { state.bits[place.word] |= place.mask }
        }
    }

    /// Returns false if no claim of a Google Pay message has the name. Returns true until all claims were read once.
    package func mayHave(_ name: TransactionIdentifier) -> Bool {
        state.withLock { state in
            guard state.isComplete else { return true }
            return !state.bits.isEmpty
                && Self.places(of: name).allSatisfy { state.bits[$0.word] & $0.mask != 0 }
        }
    }

    package var isComplete: Bool { state.withLock { $0.isComplete } }

    fileprivate func complete() { state.withLock { $0.isComplete = true } }

    /// A name is a hash, so its bytes are distributed as those of a hash of it.
    private static func places(of name: TransactionIdentifier) -> [(word: Int, mask: UInt64)] {
        [16, 24].map { start in
            let number = name.bytes[start..<(start + 8)].reduce(0) { $0 << 8 | UInt64($1) }
            return (Int(number >> 6 & UInt64(words - 1)), 1 << (number & 63))
        }
    }
}

extension SQLiteLedger {
    /// Inserts the claims that the ledger has, a part of them with each long read, and tries a failed read again after a
    /// second. Reports the first failure. Ends when the ledger is closed.
    func fillClaimFilter(_ observe: @escaping @Sendable (LedgerEvent) -> Void) {
        Task { [weak self] in
            var last: [UInt8]? = []
            var hasFailed = false
            while let end = last {
                guard let self, !isClosed else { return }
                do throws(LedgerFailure) { last = try await insertClaims(after: end) } catch {
                    if !hasFailed, !isClosed { observe(.claimsUnread(reason: error.description)) }
                    hasFailed = true
                    try? await Task.sleep(for: .seconds(1))
                }
            }
            self?.claimFilter.complete()
        }
    }

    /// Inserts up to 10,000 claims in the order of their second names.
    /// - Returns: the last one's second name; nil if there are no more.
    private func insertClaims(after last: [UInt8]) async throws(LedgerFailure) -> [UInt8]? {
        let claims = try await search { queries in
            try queries.run(
                """
                SELECT transaction_id, message_claim FROM claim WHERE message_claim > $1
                ORDER BY message_claim LIMIT 10000
                """, [.bytes(last)]
            ).map { (TransactionIdentifier(bytes: try $0.bytes(0)), try $0.bytes(1)) }
        }
        for (name, _) in claims { name.map(claimFilter.insert) }
        return claims.last?.1
    }
}

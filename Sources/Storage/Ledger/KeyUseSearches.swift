import AuditChain
import Encodings
package import Foundation
import Locks
package import PaymentToken

/// Searches the ledger for the last use of keys that may be unused, and remembers what it has read.
///
/// Of a key that is out of use, only the claims of the whole period show that: a million take some seconds. They are
/// therefore read once, newest first, a day with each statement. A later search reads only the records that were written
/// since, one of each release. It finds them by the chains' ends and not by time, so a release of a host with a late clock
/// is found too.
package final class KeyUseSearches: Sendable {
    /// The part of the ledger that was read for one key.
    private struct Progress {
        /// The ends of all nodes' chains. No release after them has been read.
        var ends: [String: ChainHead]
        /// The time since which the key has no claim up to ``ends``; nil if no claims have been read yet.
        var since: Date?
    }

    private static let day: TimeInterval = 86_400

    /// The time after which a search of claims stops. The next search continues it.
    private let longest: Duration
    private let progress = Mutex<[PublicKeyHash: Progress]>([:])

    package init(longest: Duration = .seconds(10)) { self.longest = longest }

    /// Returns the time of the key's newest release that is not a repeat, or of its newest signature, since `time` on any
    /// node; nil if there was none.
    ///
    /// - Throws: `timedOut` if the search has not ended in time. A later call continues it.
    package func lastUse(
        of key: PublicKeyHash, since time: Date, now: Date, in ledger: any Ledger
    ) async throws(LedgerFailure) -> Date? {
        let deadline = ContinuousClock.now + longest
        // The ends are read before the claims, so that a release after the claims were read is found by its record.
        let ends = try await Self.ends(of: ledger)
        var known = Progress(ends: ends)
        if let earlier = progress.withLock({ $0[key] }) {
            do throws(LedgerFailure) {
                let isUnused = try await Self.isUnused(key, from: earlier.ends, to: ends, in: ledger)
                known.since = isUnused ? earlier.since : nil
            } catch {
                // After a long time there may be too many records for one statement. The next search reads claims, by day.
                remember(nil, of: key)
                throw error
            }
        }
        while known.since.map({ $0 > time }) ?? true {
            let start = max(time, min(known.since ?? now, now).addingTimeInterval(-Self.day))
            if let use = try await ledger.lastUse(of: key, since: start, before: known.since) {
                remember(nil, of: key)
                return use
            }
            known.since = start
            remember(known, of: key)
            if start > time, .now >= deadline { throw .timedOut(after: longest, mayBeWritten: false) }
        }
        remember(known, of: key)
        return nil
    }

    private func remember(_ known: Progress?, of key: PublicKeyHash) {
        // A ledger with more nodes than it can list may have a chain whose end is not known.
        let isComplete = known.map { $0.ends.count < ChainVerifier.maximumNodes } ?? false
        progress.withLock { $0[key] = isComplete ? known : nil }
    }

    private static func ends(of ledger: any Ledger) async throws(LedgerFailure) -> [String: ChainHead] {
        var ends: [String: ChainHead] = [:]
        for node in try await ledger.nodes() { ends[node.name] = try await ledger.chain(of: node).head() }
        return ends
    }

    /// Returns true if no record between these ends shows a use of the key. Returns false also if the chains no longer
    /// have all records in between, for example in a restored ledger.
    private static func isUnused(
        _ key: PublicKeyHash, from earlier: [String: ChainHead], to ends: [String: ChainHead], in ledger: any Ledger
    ) async throws(LedgerFailure) -> Bool {
        guard earlier.keys.allSatisfy({ ends[$0] != nil }) else { return false }
        var uses = AuditFilter()
        uses.key = KeyReference(key.hex)
        uses.outcome = .ok
        for (name, end) in ends {
            let start = earlier[name] ?? ChainHead(node: end.node)
            if start == end { continue }
            let chain = ledger.chain(of: end.node)
            // The last record that was read, or the chain's first record, must still be there, the same.
            let first = try await chain.records(
                AuditFilter(), order: .oldestFirst, after: max(start.sequence, 1) - 1, limit: 1
            ).records.first
            guard first?.sequence == max(start.sequence, 1), start.sequence == 0 || first?.hash == start.hash,
                try await chain.records(uses, order: .oldestFirst, after: start.sequence, limit: 1).records.isEmpty
            else { return false }
        }
        return true
    }
}

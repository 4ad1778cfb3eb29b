import Foundation
import Ledger
import Logging
import MerchantKeys
import Synchronization
import WorkerProtocol

/// Keeps the index of merchant keys true: what the tokens show on one side, what the ledger remembers on the other.
final class KeyCatalogue: Sendable {
    let index: KeyIndex
    private let ledger: any Ledger
    private let clock: WallClock
    private let logger: Logger
    /// What tokens showed and has not been judged yet, since the ledger could not be read.
    private let pending = Mutex<[String: [KeyDescription]]>([:])

    init(index: KeyIndex, ledger: any Ledger, clock: WallClock, logger: Logger) {
        self.index = index
        self.ledger = ledger
        self.clock = clock
        self.logger = logger
    }

    /// A token shows these keys now.
    func tokenShows(_ keys: [KeyDescription], token: String) async throws(LedgerFailure) {
        pending.withLock { $0[token] = keys }
        try await refresh()
    }

    /// The same from a worker that has just opened its token and is about to serve. What cannot be judged for want of
    /// the ledger is judged at the next look at readiness.
    func tokenHasOpened(_ token: String, showing keys: [KeyDescription]) async {
        do throws(LedgerFailure) {
            try await tokenShows(keys, token: token)
        } catch {
            logger.error("the keys of a token wait for the ledger", metadata: ["reason": "\(error)"])
        }
    }

    /// What the ledger remembers, before any token has been asked: a key that is known and not there yet must not be
    /// taken for one that nobody knows.
    func recall() async throws(LedgerFailure) {
        index.rebuild(tokens: [], records: try await ledger.keyRecords(), now: clock.now())
    }

    /// Reads the ledger's records anew.
    func refresh() async throws(LedgerFailure) {
        let records = try await ledger.keyRecords()
        let tokens = pending.withLock { pending in
            defer { pending = [:] }
            return pending.map { (name: $0.key, keys: $0.value) }
        }
        index.rebuild(tokens: tokens, records: records, now: clock.now())
        for entry in index.entries {
            guard let explanation = entry.condition.explanation else { continue }
            logger.warning(
                "merchant key is not served",
                metadata: [
                    "key.hash": "\(entry.publicKeyHash.hex)", "key.condition": "\(entry.condition.name)",
                    "reason": "\(explanation)",
                ])
        }
    }

    /// Whether something that a token showed still waits for the ledger.
    var isBehind: Bool { pending.withLock { !$0.isEmpty } }
}

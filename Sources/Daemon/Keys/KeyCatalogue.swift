import Foundation
import Ledger
import Logging
import MerchantKeys
import PaymentToken
import Synchronization
import WorkerProtocol

/// Keeps the index of merchant keys true: what the tokens show on one side, what the ledger remembers on the other.
///
/// A change of one key costs a look at that key, in the ledger and in the index; only a token that has just been opened
/// is judged whole. Reading the ledger and writing the index is one step after the other, so that no older state
/// replaces a newer one.
final class KeyCatalogue: Sendable {
    let index: KeyIndex
    private let ledger: any Ledger
    private let clock: WallClock
    private let logger: Logger
    private let state = Mutex(State())

    private struct State {
        /// What tokens showed and has not been judged yet, since the ledger could not be read.
        var whole: [String: [KeyDescription]] = [:]
        var single: [PublicKeyHash: [String: [KeyDescription]]] = [:]
        /// What a token showed of single keys of late: newer than a listing that began before.
        var recent: [String: [PublicKeyHash: (keys: [KeyDescription], at: ContinuousClock.Instant)]] = [:]
        /// The last step that has begun, or waits for its turn.
        var last: Task<Result<Void, LedgerFailure>, Never>?
    }

    /// No listing takes longer.
    private static let recentTime = Duration.seconds(15 * 60)

    init(index: KeyIndex, ledger: any Ledger, clock: WallClock, logger: Logger) {
        self.index = index
        self.ledger = ledger
        self.clock = clock
        self.logger = logger
    }

    /// What is to be known of one key has changed: its record, or what these tokens show of it.
    ///
    /// - Parameter shown: by token, what it shows under the key's hash now; other tokens keep what they showed.
    func keyChanged(
        _ hash: PublicKeyHash, shown: [(hsmToken: String, keys: [KeyDescription])] = []
    ) async throws(LedgerFailure) {
        let now = ContinuousClock.now
        state.withLock { state in
            for (hsmToken, keys) in shown {
                state.single[hash, default: [:]][hsmToken] = keys
                var recent = state.recent[hsmToken, default: [:]].filter { now - $0.value.at < Self.recentTime }
                recent[hash] = (keys, now)
                state.recent[hsmToken] = recent
            }
        }
        guard !state.withLock({ !$0.whole.isEmpty }) else { return try await refresh() }
        try await serially { [self] () throws(LedgerFailure) in try await update(hash) }
    }

    /// A worker that has just opened its token, and is about to serve, shows these keys. What cannot be judged for want
    /// of the ledger is judged at the next look at readiness.
    ///
    /// - Parameter began: when it began to list them.
    func tokenHasOpened(
        _ hsmToken: String, showing keys: [KeyDescription], asOf began: ContinuousClock.Instant
    ) async {
        state.withLock { state in
            state.whole[hsmToken] = keys
            for (hash, newer) in state.recent[hsmToken] ?? [:] where newer.at >= began {
                state.single[hash, default: [:]][hsmToken] = newer.keys
            }
        }
        do throws(LedgerFailure) {
            try await refresh()
        } catch {
            logger.error("the keys of a token wait for the ledger", metadata: ["reason": "\(error)"])
        }
    }

    /// What the ledger remembers, before any token has been asked: a key that is known and not there yet must not be
    /// taken for one that nobody knows.
    func recall() async throws(LedgerFailure) {
        index.rebuild(hsmTokens: [], keyRecords: try await ledger.keyRecords(), now: clock.now())
    }

    /// Reads all of the ledger's records anew.
    func refresh() async throws(LedgerFailure) {
        try await serially { [self] () throws(LedgerFailure) in try await updateAll() }
    }

    /// Whether something that a token showed still waits for the ledger.
    var isBehind: Bool { state.withLock { !$0.whole.isEmpty || !$0.single.isEmpty } }

    // MARK: Steps

    private func serially(
        _ step: @escaping @Sendable () async throws(LedgerFailure) -> Void
    ) async throws(LedgerFailure) {
        let task = state.withLock { state in
            let before = state.last
            let task = Task { () async -> Result<Void, LedgerFailure> in
                _ = await before?.value
                do throws(LedgerFailure) {
                    return .success(try await step())
                } catch {
                    return .failure(error)
                }
            }
            state.last = task
            return task
        }
        try await task.value.get()
    }

    private func update(_ hash: PublicKeyHash) async throws(LedgerFailure) {
        let keyRecord = try await ledger.keyRecord(hash)
        let shown = state.withLock { $0.single.removeValue(forKey: hash) } ?? [:]
        index.update(hash, hsmTokens: shown.map { ($0.key, $0.value) }, keyRecord: keyRecord, now: clock.now())
        if let entry = index.entry(hash) { warn(of: [entry]) }
    }

    private func updateAll() async throws(LedgerFailure) {
        let keyRecords = try await ledger.keyRecords()
        let (whole, single) = state.withLock { state in
            defer { (state.whole, state.single) = ([:], [:]) }
            return (state.whole, state.single)
        }
        index.rebuild(hsmTokens: whole.map { ($0.key, $0.value) }, keyRecords: keyRecords, now: clock.now())
        for (hash, shown) in single {
            let keyRecord = keyRecords.first { $0.publicKeyHash == hash }
            index.update(hash, hsmTokens: shown.map { ($0.key, $0.value) }, keyRecord: keyRecord, now: clock.now())
        }
        warn(of: index.entries)
    }

    /// A token that shows nothing of what it should fills no disk with it.
    private static let mostWarnings = 100

    private func warn(of entries: [KeyEntry]) {
        let unserved = entries.filter { $0.condition.explanation != nil && $0.state != .destroyed }
        for entry in unserved.prefix(Self.mostWarnings) {
            logger.warning(
                "merchant key is not served",
                metadata: [
                    "key.hash": "\(entry.publicKeyHash.hex)", "key.condition": "\(entry.condition.name)",
                    "reason": "\(entry.condition.explanation ?? "")",
                ])
        }
        if unserved.count > Self.mostWarnings {
            logger.warning(
                "more merchant keys are not served; paytokenctl key list shows them",
                metadata: ["keys": "\(unserved.count)"])
        }
    }
}

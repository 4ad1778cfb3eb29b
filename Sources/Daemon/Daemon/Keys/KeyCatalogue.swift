import FairShares
import Foundation
import Ledger
import Logging
import MerchantKeys
import PaymentToken
import Synchronization
import WorkerProtocol

/// Keeps the index of merchant keys true: what the HSM tokens show on one side, what the ledger remembers on the other.
///
/// A change of one key costs a look at that key, in the ledger and in the index; all keys are compared only when an HSM
/// token has just been opened. Updates run one after the other, each reading the ledger and then writing the index, so
/// that no older state replaces a newer one.
final class KeyCatalogue: Sendable {
    let index: KeyIndex
    private let ledger: any Ledger
    private let clock: WallClock
    private let logger: Logger
    private let state: Mutex<State>
    /// Held by one update of the index.
    private let updateLock = AsyncLock()

    private struct State {
        /// What HSM tokens showed and the index does not have yet, since the ledger could not be read.
        var whole: [String: [KeyDescription]] = [:]
        var single: [PublicKeyHash: [String: [KeyDescription]]] = [:]
        /// What an HSM token showed of single keys recently: newer than a listing that began before.
        var recent: [String: [PublicKeyHash: (keys: [KeyDescription], at: ContinuousClock.Instant)]] = [:]
        /// HSM tokens that have not been opened since the start.
        var unopened: Set<String>
        /// Counted up whenever the index has changed.
        var version = 0
        /// The version whose keys are noted in the ledger.
        var notedVersion: Int?
    }

    /// No listing takes longer.
    private static let recentTime = Duration.seconds(15 * 60)

    /// - Parameter hsmTokens: the configured names.
    init(index: KeyIndex, ledger: any Ledger, hsmTokens: [String], clock: WallClock, logger: Logger) {
        state = Mutex(State(unopened: Set(hsmTokens)))
        self.index = index
        self.ledger = ledger
        self.clock = clock
        self.logger = logger
    }

    /// Something about one key has changed: its record, or what these HSM tokens show of it.
    ///
    /// - Parameter shown: by HSM token, what it shows under the key's hash now; other tokens keep what they showed.
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

    /// A worker that has just opened its HSM token, and is about to serve, shows these keys. While the ledger cannot be
    /// read they wait for the next check of readiness.
    ///
    /// - Parameter began: when it began to list them.
    func hsmTokenHasOpened(
        _ hsmToken: String, showing keys: [KeyDescription], asOf began: ContinuousClock.Instant
    ) async {
        state.withLock { state in
            state.whole[hsmToken] = keys
            state.unopened.remove(hsmToken)
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

    /// Reads what the ledger remembers, before any HSM token has been asked: a recorded key that has not been seen yet
    /// must not be taken for an unknown one.
    func recall() async throws(LedgerFailure) {
        index.rebuild(hsmTokens: [], keyRecords: try await ledger.keyRecords(), now: clock.now())
    }

    /// Reads all of the ledger's records anew.
    func refresh() async throws(LedgerFailure) {
        try await serially { [self] () throws(LedgerFailure) in try await updateAll() }
    }

    /// Whether something that an HSM token showed still waits for the ledger.
    var isBehind: Bool { state.withLock { !$0.whole.isEmpty || !$0.single.isEmpty } }

    // MARK: Other nodes

    /// Tells the other nodes which keys this one's HSM tokens hold, where that has changed. Those of an HSM token that has not been
    /// opened since the start stay as they were noted before.
    func noteHeldKeys() async throws(LedgerFailure) {
        let (version, isNoted, areAllOpen) = state.withLock {
            ($0.version, $0.notedVersion == $0.version, $0.unopened.isEmpty)
        }
        guard !isNoted else { return }
        var held = Set(index.entries.filter { !$0.shownBy.isEmpty && $0.condition != .external }.map(\.publicKeyHash))
        let noted = Set(
            try await ledger.keyHolders().filter { $0.value.contains { $0.node == ledger.node } }.map(\.key))
        if !areAllOpen { held.formUnion(noted) }
        if held != noted { try await ledger.note(heldKeys: held) }
        state.withLock { $0.notedVersion = version }
    }

    // MARK: Updates

    /// In a task of its own, so that a caller that is cancelled does not leave an update half done.
    private func serially(
        _ update: @escaping @Sendable () async throws(LedgerFailure) -> Void
    ) async throws(LedgerFailure) {
        let task = Task { [updateLock] () async -> Result<Void, LedgerFailure> in
            await updateLock.acquire()
            defer { updateLock.release() }
            do throws(LedgerFailure) {
                return .success(try await update())
            } catch {
                return .failure(error)
            }
        }
        try await task.value.get()
    }

    private func update(_ hash: PublicKeyHash) async throws(LedgerFailure) {
        let keyRecord = try await ledger.keyRecord(hash)
        let shown = state.withLock { $0.single.removeValue(forKey: hash) } ?? [:]
        index.update(hash, hsmTokens: shown.map { ($0.key, $0.value) }, keyRecord: keyRecord, now: clock.now())
        state.withLock { $0.version += 1 }
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
        state.withLock { $0.version += 1 }
        warn(of: index.entries)
    }

    /// Bounded, since an HSM token that lost all its keys must not fill the disk with log lines.
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
                "more merchant keys are not served; GET /v1/keys shows them",
                metadata: ["keys": "\(unserved.count)"])
        }
    }
}

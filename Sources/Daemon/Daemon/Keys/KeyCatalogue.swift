import FairShares
import Foundation
import Ledger
import Locks
import Logging
import MerchantKeys
import PaymentToken
import UsageRecording
import WorkerProtocol

/// Keeps the index of merchant keys consistent with the HSM tokens and the ledger.
///
/// After a change of one key, only that key is read from the ledger. All keys are compared only after an HSM token has been
/// opened. Updates run one at a time, and each reads the ledger before it writes the index. Therefore no older state
/// replaces a newer one.
final class KeyCatalogue: Sendable {
    let index: KeyIndex
    private let ledger: any Ledger
    private let clock: WallClock
    private let logger: Logger
    private let state: Mutex<State>
    /// Allows one update of the index at a time.
    private let updateLock = AsyncLock()

    private struct State {
        /// The complete listings of keys, by the HSM token's name, that are not indexed yet. They wait here while the
        /// ledger cannot be read. ``single`` has the keys that were read one by one and are not indexed yet.
        var whole: [String: [KeyDescription]] = [:]
        var single: [PublicKeyHash: [String: [KeyDescription]]] = [:]
        /// The keys that were recently read one by one, by the HSM token's name. They replace the descriptions in a
        /// listing that began before they were read.
        var recent: [String: [PublicKeyHash: (keys: [KeyDescription], at: ContinuousClock.Instant)]] = [:]
        /// The names of the HSM tokens that no worker has opened since the daemon's start.
        var unopened: Set<String>
        /// The number of changes of the index.
        var version = 0
        /// The value of ``version`` when the keys in this node's HSM tokens were last published in the ledger; nil
        /// before the first publication.
        var publishedVersion: Int?
    }

    /// The time for which ``State/recent`` keeps a description. It is longer than any listing takes.
    private static let recentTime = Duration.seconds(15 * 60)

    /// - Parameter hsmTokens: the configured names of the HSM tokens.
    init(index: KeyIndex, ledger: any Ledger, hsmTokens: [String], clock: WallClock, logger: Logger) {
        state = Mutex(State(unopened: Set(hsmTokens)))
        self.index = index
        self.ledger = ledger
        self.clock = clock
        self.logger = logger
    }

    /// Updates one key after a change of its record in the ledger, or of its objects in HSM tokens.
    ///
    /// - Parameter shown: for each HSM token that was read again, the descriptions of the key that it shows now. For
    ///   all other HSM tokens, the index keeps the descriptions that it has.
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
        try await runSerially { [self] () throws(LedgerFailure) in try await update(hash) }
    }

    /// Updates the index with all keys of an HSM token that a worker has just opened and is about to serve. If the ledger
    /// cannot be read, the keys wait until the next check of readiness.
    ///
    /// - Parameter began: the time at which the listing of the keys began.
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
            logger.error(
                "the keys of an HSM token cannot be indexed until the ledger can be read",
                metadata: ["reason": "\(error)"])
        }
    }

    /// Reads the ledger's key records into the index, before any HSM token is opened. Otherwise payment tokens for a
    /// recorded key would be refused as if the key were unknown, until an HSM token has shown it.
    func loadKeyRecords() async throws(LedgerFailure) {
        index.rebuild(hsmTokens: [], keyRecords: try await ledger.keyRecords(), now: clock.now())
    }

    /// Updates the index from all of the ledger's key records.
    func refresh() async throws(LedgerFailure) {
        try await runSerially { [self] () throws(LedgerFailure) in try await updateAll() }
    }

    /// True while keys that an HSM token showed wait to be indexed until the ledger can be read.
    var isBehind: Bool { state.withLock { !$0.whole.isEmpty || !$0.single.isEmpty } }

    // MARK: Other nodes

    /// Publishes in the ledger which keys this node's HSM tokens hold, if these keys have changed. Until every HSM
    /// token has been opened once since the start, the keys that were published before remain published.
    func publishHeldKeys() async throws(LedgerFailure) {
        let (version, isNoted, areAllOpen) = state.withLock {
            ($0.version, $0.publishedVersion == $0.version, $0.unopened.isEmpty)
        }
        guard !isNoted else { return }
        var held = Set(index.entries.filter { !$0.shownBy.isEmpty && $0.condition != .external }.map(\.publicKeyHash))
        let noted = Set(
            try await ledger.keyHolders().filter { $0.value.contains { $0.node == ledger.node } }.map(\.key))
        if !areAllOpen { held.formUnion(noted) }
        if held != noted { try await ledger.update(heldKeys: held) }
        state.withLock { $0.publishedVersion = version }
    }

    // MARK: Updates

    /// Runs an update in a task of its own, after earlier updates. Cancelling the caller therefore cannot leave an update
    /// incomplete.
    private func runSerially(
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
        let before = index.entry(hash)
        index.update(hash, hsmTokens: shown.map { ($0.key, $0.value) }, keyRecord: keyRecord, now: clock.now())
        state.withLock { $0.version += 1 }
        if let entry = index.entry(hash), entry != before { warn(of: [entry]) }
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

    /// The maximum number of keys that are logged individually. Without this limit, an HSM token that lost all its keys
    /// could fill the disk with log lines.
    private static let maximumWarnings = 100

    private func warn(of entries: [KeyEntry]) {
        // While an HSM token has not been opened yet, it may hold the keys that all others lack, so no key is logged as
        // missing.
        let areAllOpen = state.withLock { $0.unopened.isEmpty }
        let unserved = entries.filter { entry in
            entry.condition.explanation != nil && entry.state != .destroyed
                && (areAllOpen || entry.condition != .missing)
        }
        for entry in unserved.prefix(Self.maximumWarnings) {
            logger.warning(
                "merchant key is not served",
                metadata: [
                    "key.hash": "\(entry.publicKeyHash.hex)", "key.condition": "\(entry.condition.name)",
                    "reason": "\(entry.condition.explanation ?? "")",
                ])
        }
        if unserved.count > Self.maximumWarnings {
            logger.warning(
                "more merchant keys are not served; GET /v1/keys shows them",
                metadata: ["keys": "\(unserved.count)"])
        }
    }
}

import KeyTypes
import Locks
import Logging
import MerchantKeys
import PaymentToken
import Refusals
import UsageRecording
import WorkerProtocol

/// Searches this node's HSM tokens for keys that the ledger has and that they do not show. Neither a vendor's cloning nor
/// another client of a shared HSM gives the daemon an event, and a listing of all keys is made only when an HSM token is opened.
///
/// ``RenewalWork`` calls ``search(for:)`` for the keys of open renewals. ``run()`` searches for the others, one at a time. A
/// Google Pay key is searched for in each HSM token, because each is to prove it. A key of another use is searched for only
/// while no HSM token of this node has a copy without a fault: such a key is often in one HSM token of several on purpose. A
/// copy with a fault may be one that is still being made.
final class KeySearch: Sendable {
    private let catalogue: KeyCatalogue
    private let hsmTokens: [any HSMTokenAdministering]
    private let logger: Logger
    /// The time with which cut-offs are compared.
    private let clock: WallClock
    /// The time for all pauses. A test sets it.
    private let instant: @Sendable () -> ContinuousClock.Instant
    private let searched = Mutex<[PublicKeyHash: Searches]>([:])
    /// True if the next search of ``run()`` is first for a key whose copies all have a fault, and not for one without a copy.
    private let prefersFaulty = Mutex(false)

    /// The searches for one key.
    private struct Searches {
        var count = 0
        /// The time until which no HSM token is searched for the key.
        var until: ContinuousClock.Instant
        var last = Findings()
    }

    private struct Findings {
        /// The index's entry after the last search. The index has the descriptions in ``shown`` while it has this entry.
        var entry: KeyEntry?
        /// By the HSM token's name, what it showed in the last search, and the reason why it was not searched.
        var shown: [String: [KeyDescription]] = [:]
        var failures: [String: String] = [:]
    }

    /// The time between two searches of ``run()``. A search in an HSM token with hundreds of keys takes tens of
    /// milliseconds, and this node may lack as many.
    private static let pause = Duration.seconds(2)
    private static let interval = Duration.seconds(10)
    private static let longestInterval = Duration.seconds(60)

    init(
        catalogue: KeyCatalogue, hsmTokens: [any HSMTokenAdministering], logger: Logger, clock: WallClock = .system,
        instant: @escaping @Sendable () -> ContinuousClock.Instant = { .now }
    ) {
        (self.catalogue, self.hsmTokens) = (catalogue, hsmTokens)
        (self.logger, self.clock, self.instant) = (logger, clock, instant)
    }

    func start() -> Task<Void, Never> { Task.repeating(every: Self.pause) { [self] in await run() } }

    /// Searches for one key of the ledger that waits for its activation or is in use, and that this node lacks: a key that
    /// was never searched for, or the one whose next search has been due the longest. A fault may last for ever, so the keys
    /// whose copies all have one get every other search, if others are due too.
    func run() async {
        let now = clock.now()
        let names = Set(hsmTokens.filter(\.isServing).map(\.name))
        let lacking = catalogue.index.entries.filter { entry in
            (entry.use == .googlePay || entry.hsmTokens.isEmpty && entry.createdAt != nil)
                && (entry.state == .preActivation
                    || entry.use.isPermitted(in: entry.state, at: now, cutOff: entry.cutOff))
                && !names.isSubset(of: entry.hsmTokens)
        }
        let (searched, moment) = (searched.withLock(\.self), instant())
        let due = lacking.filter { searched[$0.publicKeyHash].map { $0.until <= moment } ?? true }
        let isFaulty = prefersFaulty.withLock { prefersFaulty in
            defer { prefersFaulty.toggle() }
            return prefersFaulty
        }
        let preferred = due.filter { ($0.hsmTokens.isEmpty && $0.condition != .missing) == isFaulty }
        let next = (preferred.isEmpty ? due : preferred).map(\.publicKeyHash).min { first, second in
            guard let second = searched[second] else { return false }
            return searched[first].map { $0.until < second.until } ?? true
        }
        if let next { await search(for: next) }
    }

    /// Searches the HSM tokens without a good copy of the key for it, unless the last search was shortly before. One that fails
    /// does not keep the others from being searched. Its failure is logged once, until its reason changes or it succeeds.
    func search(for key: PublicKeyHash) async {
        let isDue = searched.withLock { searched in
            guard searched[key].map({ $0.until <= instant() }) ?? true else { return false }
            let count = min((searched[key]?.count ?? 0) + 1, 6)
            let until = instant() + min(Self.interval * count, Self.longestInterval)
            searched[key, default: Searches(until: until)].count = count
            searched[key]?.until = until
            return true
        }
        guard isDue, var last = searched.withLock({ $0[key]?.last }) else { return }
        let entry = catalogue.index.entry(key)
        if entry != last.entry { last.shown = [:] }
        last.entry = entry
        for hsmToken in hsmTokens where entry?.hsmTokens.contains(hsmToken.name) != true && hsmToken.isServing {
            do throws(Refusal) {
                let shown = try await refusing(hsm: await hsmToken.describeKey(key))
                // An HSM token that still lacks the key, or shows the same copy, changes nothing in the index.
                let staysAbsent = shown.isEmpty && entry?.shownBy.contains(hsmToken.name) != true
                if !staysAbsent, shown != last.shown[hsmToken.name] {
                    try await refusing(ledger: await catalogue.keyChanged(key, shown: [(hsmToken.name, shown)]))
                    last.entry = catalogue.index.entry(key)
                }
                (last.shown[hsmToken.name], last.failures[hsmToken.name]) = (shown, nil)
            } catch {
                guard last.failures.updateValue(error.message, forKey: hsmToken.name) != error.message else { continue }
                logger.notice(
                    "an HSM token was not searched for a key",
                    metadata: [
                        "key": "\(key.hex.prefix(16))", "token": "\(hsmToken.name)", "reason": "\(error.message)",
                    ])
            }
        }
        // Another change of the index meanwhile makes the next search state what it finds.
        searched.withLock { [last] in $0[key]?.last = last }
    }
}

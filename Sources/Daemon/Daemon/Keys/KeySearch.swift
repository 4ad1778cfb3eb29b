import KeyTypes
import Locks
import Logging
import MerchantKeys
import PaymentToken
import Refusals
import UsageRecording

/// Searches this node's HSM tokens for keys that the ledger has and that they do not show. Neither a vendor's cloning nor
/// another client of a shared HSM gives the daemon an event, and a listing of all keys is made only when an HSM token is opened.
///
/// ``RenewalWork`` calls ``search(for:)`` for the keys of open renewals. ``run()`` searches for Google Pay keys, one at a
/// time, because a message to a key that this node does not know is refused.
final class KeySearch: Sendable {
    private let catalogue: KeyCatalogue
    private let hsmTokens: [any HSMTokenAdministering]
    private let logger: Logger
    /// The time with which cut-offs are compared.
    private let clock: WallClock
    /// The time for all pauses. A test sets it.
    private let instant: @Sendable () -> ContinuousClock.Instant
    /// The time until which no HSM token is searched for a key that it does not show, with the number of searches.
    private let searched = Mutex<[PublicKeyHash: (count: Int, until: ContinuousClock.Instant)]>([:])

    /// The time between two searches for Google Pay keys. A search in an HSM token with hundreds of keys takes tens of
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

    /// Searches for one Google Pay key that waits for its activation or decrypts, and that an HSM token lacks: a key that was
    /// never searched for, or the one whose next search has been due the longest.
    func run() async {
        let now = clock.now()
        let names = Set(hsmTokens.filter(\.isServing).map(\.name))
        let lacking = catalogue.index.entries.filter { entry in
            entry.use == .googlePay && (entry.state == .preActivation || entry.decrypts(at: now))
                && !names.isSubset(of: entry.hsmTokens)
        }
        let searched = searched.withLock(\.self)
        let next = lacking.map(\.publicKeyHash).min { first, second in
            guard let second = searched[second] else { return false }
            return searched[first].map { $0.until < second.until } ?? true
        }
        if let next { await search(for: next) }
    }

    /// Searches the HSM tokens that do not show the key for it, unless the last search was shortly before. One that fails does not
    /// keep the others from being searched.
    func search(for key: PublicKeyHash) async {
        let isDue = searched.withLock { searched in
            guard searched[key].map({ $0.until <= instant() }) ?? true else { return false }
            let count = min((searched[key]?.count ?? 0) + 1, 6)
            searched[key] = (count, instant() + min(Self.interval * count, Self.longestInterval))
            return true
        }
        guard isDue else { return }
        let shown = catalogue.index.entry(key)?.hsmTokens ?? []
        for hsmToken in hsmTokens where !shown.contains(hsmToken.name) && hsmToken.isServing {
            do throws(Refusal) {
                // An HSM token without the key changes nothing in the index.
                let shown = try await refusing(hsm: await hsmToken.describeKey(key))
                guard !shown.isEmpty else { continue }
                try await refusing(ledger: await catalogue.keyChanged(key, shown: [(hsmToken.name, shown)]))
            } catch {
                logger.notice(
                    "an HSM token was not searched for a key",
                    metadata: [
                        "key": "\(key.hex.prefix(16))", "token": "\(hsmToken.name)", "reason": "\(error.message)",
                    ])
            }
        }
    }
}

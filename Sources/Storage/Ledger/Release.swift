package import AuditChain
import BoundedTable
import DatabaseKit
import Encodings
public import Foundation
public import KeyTypes
import Locks
package import MerchantKeys
public import PaymentToken
import Refusals

/// A request to release one transaction's payment data to one caller.
public struct Release: Sendable {
    /// The wallet whose payment token is released. The key must be one of this wallet's.
    public let wallet: Wallet
    /// The name of the claim, by which a repeat is found: Apple's transactionId, or the hash that names the signed bytes
    /// of a Google Pay message.
    public let transactionId: TransactionIdentifier
    /// A second name, which no other claim may have. Nil for Apple Pay. For Google Pay it is known only after the
    /// decryption, and must be set before ``Ledger/release(_:recording:)``.
    public var messageClaim: TransactionIdentifier?
    /// The merchant key that decrypted the payment token. Its state is checked in the claim's transaction.
    public var publicKeyHash: PublicKeyHash
    /// The caller's name from the access rules.
    public let caller: String
    /// SHA-256 of the caller's reference, 32 bytes. Nil if the caller gave no reference; a repeat is then impossible.
    public let referenceDigest: [UInt8]?
    /// SHA-256 of the payment token's signed content, 32 bytes.
    public let contentDigest: [UInt8]
    /// The name of the caller's attempt, and the attempts that it may follow. Nil if the caller gave no name; the
    /// attempt may then follow any other.
    public let named: NamedAttempt?
    /// 16 bytes unique to this release (``StoredAttempt``). If the commit's acknowledgement is lost, they show whether
    /// this release's claim or repeat was written.
    package let attempt: [UInt8]
    public let at: Date
    /// The time when the wallet's company signed the payment token. If claims from that time have been pruned or lost and
    /// no claim is found, the verdict is ``ReleaseVerdict/forgotten(before:)`` or ``ReleaseVerdict/beforeRestore(until:)``.
    /// If nil, neither limit applies.
    public var signedAt: Date?
    /// False if the signing time is outside the window. A repeat is then still possible, but a transaction without a
    /// claim gets the verdict ``ReleaseVerdict/replayed`` and is not claimed.
    public var allowsFirstRelease = true

    public init(
        of wallet: Wallet = .applePay, transactionId: TransactionIdentifier, publicKeyHash: PublicKeyHash,
        caller: String, referenceDigest: [UInt8]?, contentDigest: [UInt8], named: NamedAttempt? = nil, at: Date
    ) {
        self.wallet = wallet
        self.transactionId = transactionId
        self.publicKeyHash = publicKeyHash
        self.caller = caller
        self.referenceDigest = referenceDigest
        self.contentDigest = contentDigest
        self.named = named
        attempt = StoredAttempt.make(named?.name)
        self.at = at
    }

    /// Refuses a release of Google Pay without its second name. Its claim would be one of Apple Pay, which confirms the clock.
    package func requireNames() throws(LedgerFailure) {
        guard wallet == .applePay || messageClaim != nil else {
            throw .unavailable(reason: "The release of a Google Pay message has no name of its messageId.")
        }
    }

    /// The maximum number of repeats of a released transaction. Each repeat is an HSM operation, so a caller that
    /// repeats for ever would take capacity from others. A backend that recovers a lost answer needs only a few.
    public static let maximumRepeats = 100

    /// Returns 16 bytes from the system's random number generator.
    public static func randomIdentifier() -> [UInt8] { random(words: 2) }

    /// Returns 8 random bytes for each word. One system call draws a whole word; drawing single bytes would take eight.
    package static func random(words: Int) -> [UInt8] {
        var generator = SystemRandomNumberGenerator()
        return (0..<words).map { _ in generator.next() }.flatMap { (word: UInt64) in
            stride(from: 0, to: 64, by: 8).map { UInt8(truncatingIfNeeded: word >> $0) }
        }
    }
}

/// A verdict, with the sequence of its audit record.
public struct Recorded<Verdict: Sendable & Equatable>: Sendable, Equatable {
    public let verdict: Verdict
    /// The audit record's sequence in this node's chain. Nil if no record was requested, and for a refusal whose record
    /// could not be written. The caller then records that refusal with ``AuditTrail/note(_:)``.
    public let sequence: Int?

    public init(_ verdict: Verdict, sequence: Int?) {
        self.verdict = verdict
        self.sequence = sequence
    }
}

public typealias RecordedVerdict = Recorded<ReleaseVerdict>

/// The verdict on a ``Release``.
public enum ReleaseVerdict: Sendable, Equatable {
    /// The claim is new and durable; release the payment data.
    case released
    /// The same caller repeats the release in time, with the same reference and the same signed content. Release the
    /// payment data again.
    case repeated
    /// The transaction was released before, and this is not a repeat.
    case replayed
    /// The ledger has no record of the key, or the key's state does not permit decryption. Nothing was claimed.
    case keyNotActive
    /// A repeat, but ``Release/maximumRepeats`` repeats were already released.
    case repeatedTooOften
    /// A repeat, but the last release was by an attempt that this attempt does not name (``NamedAttempt/after``).
    case releasedByOther
    /// No claim was found, but one may have been pruned, since the payment token was signed before this time.
    case forgotten(before: Date)
    /// No claim was found, but one may have existed. The payment token was signed before this time, and a restored
    /// ledger may lack the claims of such payment tokens.
    case beforeRestore(until: Date)
    /// No node releases anything at present (``LedgerReleaseStatus``).
    case held
}

/// The part of a merchant key's record that determines its eligibility for use.
package struct KeyEligibility: Sendable {
    package let use: KeyUse
    package let state: KeyState
    package let cutOff: Date?

    /// Returns true if the key may open the wallet's payment tokens. A key serves one wallet for ever.
    package func decrypts(for wallet: Wallet, at now: Date) -> Bool {
        use == wallet.keyUse && use.isPermitted(in: state, at: now, cutOff: cutOff)
    }

    /// Returns true if the key may make signatures of this use. A key that restores symmetric keys makes none.
    package func signs(as wanted: KeyUse, at now: Date) -> Bool {
        !wanted.restores && use == wanted && use.isPermitted(in: state, at: now, cutOff: cutOff)
    }
}

extension Release {
    /// Returns the reason why a transaction without a claim must not be claimed now; nil if it may be claimed.
    ///
    /// - Parameter limits: returns the release limits; called only if the verdict depends on them.
    package func refusalOfFirstRelease(_ limits: () throws -> ReleaseLimits) rethrows -> ReleaseVerdict? {
        guard allowsFirstRelease else { return .replayed }
        guard let signedAt else { return nil }
        let (signed, limits) = (StoredTime.milliseconds(signedAt), try limits())
        if let forgotten = limits.forgottenBefore, signed < forgotten {
            return .forgotten(before: StoredTime.date(forgotten))
        }
        if let fence = limits.restoreFence, signed < fence { return .beforeRestore(until: StoredTime.date(fence)) }
        return nil
    }
}

extension Release {
    /// Returns the refusal that the release would get now; nil if it would be released.
    package func refusal(
        _ key: KeyEligibility?, _ claim: Claim?, within repeatFor: Duration, _ limits: ReleaseLimits
    ) -> ReleaseVerdict? {
        guard key?.decrypts(for: wallet, at: at) == true else { return .keyNotActive }
        guard let claim else { return refusalOfFirstRelease { limits } }
        let repeatability = claim.repeatability(of: self, within: repeatFor)
        return repeatability == .yes ? nil : repeatability.verdict
    }
}

extension ReleaseVerdict {
    /// Returns true if no further repeat is possible.
    ///
    /// - Parameter isUsedUp: returns true if the claim is used up after this verdict; called only if needed.
    package func isLast(_ isUsedUp: () throws -> Bool) rethrows -> Bool {
        switch self {
        case .repeated: try isUsedUp()
        case .repeatedTooOften: true
        case .released, .replayed, .releasedByOther, .keyNotActive, .forgotten, .beforeRestore, .held: false
        }
    }

    /// The outcome for the audit record and the caller.
    package var outcome: AuditOutcome {
        switch self {
        case .released: .ok
        case .repeated: .repeated
        case .replayed: .refused(.transactionReplayed)
        case .keyNotActive: .refused(.keyNotActive)
        case .repeatedTooOften, .releasedByOther, .forgotten, .beforeRestore: .refused(.transactionReplayed)
        case .held: .refused(.ledgerUnavailable)
        }
    }
}

/// A verdict that was made in a ledger's transaction, with the line of its audit record.
package struct Decision<Verdict: Sendable>: Sendable {
    package let verdict: Verdict
    package let line: AuditLine?
    /// True if no further repeat of the transaction is possible.
    package let isUsedUp: Bool

    package init(verdict: Verdict, line: AuditLine?, isUsedUp: Bool = false) {
        (self.verdict, self.line, self.isUsedUp) = (verdict, line, isUsedUp)
    }
}

package typealias ReleaseDecision = Decision<ReleaseVerdict>

/// The caller's name for one release request: 8 bytes, not all zero, chosen at random for each request and used once.
public struct AttemptName: Sendable, Hashable {
    /// The 8 bytes as a big-endian number, never zero.
    private let number: UInt64

    /// Parses 16 lower-case hexadecimal digits; nil for any other text and for zero.
    public init?(hex text: String) {
        guard let bytes = Hexadecimal.decode(lowerCase: text), bytes.count == Self.length else { return nil }
        self.init(bytes: bytes)
    }

    fileprivate init?(bytes: some Sequence<UInt8>) {
        number = bytes.reduce(0) { $0 << 8 | UInt64($1) }
        if number == 0 { return nil }
    }

    fileprivate static let length = 8
    fileprivate var bytes: [UInt8] {
        stride(from: 56, through: 0, by: -8).map { UInt8(truncatingIfNeeded: number >> $0) }
    }
}

/// A request's name, and the names of the attempts that it may follow.
///
/// A caller that lost an answer cannot know whether its attempt was released. After it restored its own store from a
/// copy, it does not even know all its attempts. It therefore names in advance the attempts that it knows, and asserts
/// that none of them led to a payment. A transaction whose last release was by any other attempt is not released.
public struct NamedAttempt: Sendable {
    public let name: AttemptName
    /// Earlier attempts that, as the caller asserts, led to no payment. At most a hundred
    /// (`ReleaseMembers.maximumAfter`).
    public let after: [AttemptName]

    public init(_ name: AttemptName, after: [AttemptName] = []) {
        self.name = name
        self.after = after
    }
}

/// The 16 bytes that identify an attempt in a claim. The first 8 are its name, or zeros if the caller gave none; the
/// others are random. All 16 identify a release whose commit was not acknowledged, so two attempts with the same name
/// remain distinct.
///
/// Earlier versions, in which attempts had no names, wrote 16 random bytes. The first 8 match no caller's name, so a
/// named attempt may not follow a release of such a version.
enum StoredAttempt {
    package static func make(_ name: AttemptName?) -> [UInt8] {
        guard let name else { return [UInt8](repeating: 0, count: AttemptName.length) + Release.random(words: 1) }
        return name.bytes + Release.random(words: 1)
    }

    /// Returns the caller's name for the attempt; nil if it gave none.
    package static func name(in stored: [UInt8]) -> AttemptName? {
        AttemptName(bytes: stored.prefix(AttemptName.length))
    }
}

/// The signing times before which a payment token cannot be claimed for the first time. Times are in milliseconds
/// (``StoredTime``).
package struct ReleaseLimits: Sendable, Equatable {
    /// Claims of payment tokens signed before this time may be pruned.
    package var forgottenBefore: Int64?
    /// Claims of payment tokens signed before this time may be missing from a restored ledger.
    package var restoreFence: Int64?

    package init(forgottenBefore: Int64? = nil, restoreFence: Int64? = nil) {
        (self.forgottenBefore, self.restoreFence) = (forgottenBefore, restoreFence)
    }

    /// Returns the fence in milliseconds: the acceptance time, or the newest release if that is later, plus the widest
    /// window. It is rounded up to whole seconds, the precision of responses.
    package static func fence(acceptedAt now: Date, newestRelease: Date?, widestWindow: Duration) -> Int64 {
        let from = min(max(now, newestRelease ?? now), AuditTime.latest.date)
        return Int64((from.timeIntervalSince1970 + widestWindow / .seconds(1)).rounded(.up)) * 1000
    }
}

/// Counts the releases that will soon reach the ledger: those that the HSM is processing or has just processed.
///
/// A commit costs the same for one release as for many. Under load, the next releases arrive almost immediately, so the
/// writer waits for them before a commit. It waits 40 µs for each counted release that is not queued yet, and 5 ms at
/// most. Each release has already waited more than ten times as long for the HSM. If no other release is counted, the
/// writer commits at once.
public final class ReleasesUnderWay: Sendable {
    private static let waitForEach = Duration.microseconds(40)
    private static let maximumWait = Duration.milliseconds(5)

    private let count = Atomic(0)

    public init() {}

    /// Counts a release; ``end()`` must follow, even after a failure.
    public func begin() { count.add(1, ordering: .relaxed) }

    public func end() { count.subtract(1, ordering: .relaxed) }

    /// Returns how long the writer should wait for further releases; nil if it should commit now.
    ///
    /// - Parameter waiting: the number of writes queued for the writer. The count still includes the releases among
    ///   them, although the writer need not wait for those.
    @Sendable package func worthWaiting(with waiting: Int) -> Duration? {
        let others = count.load(ordering: .relaxed) - waiting
        guard waiting > 0, others > 0 else { return nil }
        return min(Self.waitForEach * others, Self.maximumWait)
    }
}

/// The transactions whose repeats were used up while this process ran. The daemon refuses a further repeat of them
/// before it uses the HSM, and without reading the database.
package final class UsedUpRepeats: Sendable {
    private let known: Mutex<BoundedTable<TransactionIdentifier, Bool>>

    /// - Parameter capacity: the maximum number of transactions to remember. A million repeats are needed to reach it. A
    ///   forgotten transaction costs one more HSM operation and is then remembered again.
    package init(capacity: Int = 10_000) {
        known = Mutex(BoundedTable(capacity: capacity))
    }

    package func contains(_ transaction: TransactionIdentifier) -> Bool {
        known.withLock { $0[transaction] != nil }
    }

    package func insert(_ transaction: TransactionIdentifier) {
        known.withLock { $0.set(true, for: transaction) }
    }
}

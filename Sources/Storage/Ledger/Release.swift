import AuditChain
import DatabaseKit
import Encodings
public import Foundation
import KeyTypes
import MerchantKeys
public import PaymentToken
import Refusals
import Synchronization

/// A request to release one transaction's payment data to one caller.
public struct Release: Sendable {
    public let transactionId: TransactionIdentifier
    /// The merchant key that opened it; its state is checked in the same transaction as the claim.
    public let publicKeyHash: PublicKeyHash
    /// The caller's name from the access rules.
    public let caller: String
    /// SHA-256 of the caller's reference, 32 bytes; nil without one, and then no repeat is possible.
    public let referenceDigest: [UInt8]?
    /// SHA-256 of the token's signed content, 32 bytes.
    public let contentDigest: [UInt8]
    /// Which attempt of the caller's this is and after which others it may follow; nil where the caller does not say, and then
    /// it may follow any.
    public let named: NamedAttempt?
    /// 16 bytes that no other release has, so that a commit whose acknowledgement got lost can be read back (``StoredAttempt``).
    let attempt: [UInt8]
    public let at: Date
    /// When Apple signed the token. Where claims of tokens as old as this have been pruned or lost, it is
    /// ``ReleaseVerdict/forgotten(before:)`` or ``ReleaseVerdict/beforeRestore(until:)`` when no claim is found. Nil for one that is known to be younger.
    public var signedAt: Date?
    /// False when the token's signing time lies outside the window: then a repeat is decided as ever, and a transaction
    /// that is not known is not claimed but ``ReleaseVerdict/replayed``.
    public var allowsFirstRelease = true

    public init(
        transactionId: TransactionIdentifier, publicKeyHash: PublicKeyHash, caller: String,
        referenceDigest: [UInt8]?, contentDigest: [UInt8], named: NamedAttempt? = nil, at: Date
    ) {
        self.transactionId = transactionId
        self.publicKeyHash = publicKeyHash
        self.caller = caller
        self.referenceDigest = referenceDigest
        self.contentDigest = contentDigest
        self.named = named
        attempt = StoredAttempt.make(named?.name)
        self.at = at
    }

    /// How often a released transaction can be released again. Each repeat is an operation of the HSM, so a caller that
    /// repeats for ever would take the HSM from the others; a backend that looks for a lost answer needs a few.
    public static let mostRepeats = 100

    /// 16 bytes from the system's generator.
    public static func randomIdentifier() -> [UInt8] { random(words: 2) }

    /// 8 bytes a word. One call of the system for each, not eight.
    static func random(words: Int) -> [UInt8] {
        var generator = SystemRandomNumberGenerator()
        return (0..<words).map { _ in generator.next() }.flatMap { (word: UInt64) in
            stride(from: 0, to: 64, by: 8).map { UInt8(truncatingIfNeeded: word >> $0) }
        }
    }
}

/// A verdict, and where it is recorded.
public struct Recorded<Verdict: Sendable & Equatable>: Sendable, Equatable {
    public let verdict: Verdict
    /// The audit record's sequence in this node's chain; nil when none was asked for, and for a refusal whose record
    /// could not be written. Whoever asked notes that, ``AuditTrail/note(_:)``.
    public let sequence: Int?

    public init(_ verdict: Verdict, sequence: Int?) {
        self.verdict = verdict
        self.sequence = sequence
    }
}

public typealias RecordedVerdict = Recorded<ReleaseVerdict>

/// What became of a ``Release``.
public enum ReleaseVerdict: Sendable, Equatable {
    /// The claim is new and durable: release.
    case released
    /// The same caller asks again in time, with the same reference and for the same signed content: release again.
    case repeated
    /// Released before, and this is no repeat.
    case replayed
    /// The ledger has no record of the key, or its state does not decrypt. Nothing was claimed.
    case keyNotActive
    /// It would be a repeat, but there were ``Release/mostRepeats`` of them already.
    case repeatedTooOften
    /// It would be a repeat, but the last release was by an attempt that it does not name (``NamedAttempt/after``).
    case releasedByOther
    /// There is no claim, and there may have been one: claims of payment tokens that were signed before this time are forgotten.
    case forgotten(before: Date)
    /// There is no claim, and there may have been one: a restored ledger was accepted, and payment tokens that were signed
    /// before this time may have been released by what it does not know.
    case beforeRestore(until: Date)
    /// Nothing is released on any node at present (``LedgerReleaseStatus``).
    case held
}

/// Whether a ``Release`` would be a repeat: its transaction was released before, to this caller, and may be again.
public enum Repeatability: Sendable, Equatable {
    case no
    case yes
    /// It would be, but there were ``Release/mostRepeats`` of them already.
    case tooOften
    /// It would be, but the last release was by an attempt that it does not name.
    case byOther

    var verdict: ReleaseVerdict {
        switch self {
        case .no: .replayed
        case .yes: .repeated
        case .tooOften: .repeatedTooOften
        case .byOther: .releasedByOther
        }
    }
}

/// What a store holds of a transaction that was released. Every engine decides by it whether a further ``Release`` is a
/// repeat.
struct Claim: Sendable {
    let caller: String
    let referenceDigest: [UInt8]?
    let contentDigest: [UInt8]
    /// The attempt that made it, and the last one that was released as its repeat.
    let attempt: [UInt8]
    var repeatAttempt: [UInt8]?
    /// In milliseconds, ``StoredTime``.
    let claimedAt: Int64
    var repeats: Int

    /// True if there is no further repeat.
    var isUsedUp: Bool { repeats >= Release.mostRepeats }

    /// A repeat has the same caller, the same reference and the same signed content, and comes at most `repeatFor` after
    /// the claim. One that is named also says after which attempt it comes.
    func repeatability(of release: Release, within repeatFor: Duration) -> Repeatability {
        guard repeatFor > .zero, let referenceDigest, referenceDigest == release.referenceDigest,
            caller == release.caller, contentDigest == release.contentDigest,
            StoredTime.milliseconds(release.at) - claimedAt <= StoredTime.milliseconds(repeatFor)
        else { return .no }
        guard follows(release) else { return .byOther }
        return isUsedUp ? .tooOften : .yes
    }

    private func follows(_ release: Release) -> Bool {
        guard let named = release.named else { return true }
        let last = repeatAttempt ?? attempt
        // Its own commit, which was not acknowledged, is no other attempt's.
        if last == release.attempt { return true }
        return StoredAttempt.name(in: last).map(named.after.contains) ?? false
    }
}

/// What of a merchant key's record decides whether it may be used.
struct KeyEligibility: Sendable {
    let use: KeyUse
    let state: KeyState
    let cutOff: Date?

    func decrypts(at now: Date) -> Bool {
        use == .processing && use.isPermitted(in: state, at: now, cutOff: cutOff)
    }

    func signs(at now: Date) -> Bool {
        use == .identity && use.isPermitted(in: state, at: now, cutOff: cutOff)
    }
}

extension Release {
    /// Why a transaction that is not claimed must not be claimed now; nil when it may.
    ///
    /// - Parameter limits: asked for only where they count.
    func refusalOfFirstRelease(_ limits: () throws -> ReleaseLimits) rethrows -> ReleaseVerdict? {
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
    /// The refusal that it meets now; nil when it would be released.
    func refusal(
        _ key: KeyEligibility?, _ claim: Claim?, within repeatFor: Duration, _ limits: ReleaseLimits
    ) -> ReleaseVerdict? {
        guard key?.decrypts(at: at) == true else { return .keyNotActive }
        guard let claim else { return refusalOfFirstRelease { limits } }
        let repeatability = claim.repeatability(of: self, within: repeatFor)
        return repeatability == .yes ? nil : repeatability.verdict
    }
}

extension ReleaseVerdict {
    /// True if there is no further repeat.
    ///
    /// - Parameter isUsedUp: of the claim, after this verdict; asked for only where it counts.
    func isLast(_ isUsedUp: () throws -> Bool) rethrows -> Bool {
        switch self {
        case .repeated: try isUsedUp()
        case .repeatedTooOften: true
        case .released, .replayed, .releasedByOther, .keyNotActive, .forgotten, .beforeRestore, .held: false
        }
    }

    /// The outcome as a record and the caller have it.
    var outcome: AuditOutcome {
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

/// The decision of a store's transaction.
struct Decision<Verdict: Sendable>: Sendable {
    let verdict: Verdict
    let line: AuditLine?
    /// There is no further repeat of this transaction.
    var isUsedUp = false
}

typealias ReleaseDecision = Decision<ReleaseVerdict>

/// Transactions whose repeats are used up, as far as this process has seen it happen: whoever goes on repeating one is
/// refused before the HSM is asked, without a look into the database for all other requests.
final class UsedUpRepeats: Sendable {
    private struct State {
        var known: Set<TransactionIdentifier> = []
        /// In the order in which they came; the oldest is forgotten first.
        var order: [TransactionIdentifier] = []
        var next = 0
    }

    /// A million repeats fill it. One that is forgotten costs one more operation of the HSM, and is known again.
    private let capacity: Int
    private let state = Mutex(State())

    init(capacity: Int = 10_000) {
        self.capacity = capacity
    }

    func contains(_ transaction: TransactionIdentifier) -> Bool {
        state.withLock { $0.known.contains(transaction) }
    }

    func insert(_ transaction: TransactionIdentifier) {
        state.withLock { state in
            guard state.known.insert(transaction).inserted else { return }
            if state.order.count < capacity {
                state.order.append(transaction)
            } else {
                state.known.remove(state.order[state.next])
                state.order[state.next] = transaction
                state.next = (state.next + 1) % capacity
            }
        }
    }
}

/// The caller's own name for one request to release: 8 bytes, not all of them zero, which the caller takes at random for each
/// request and uses once.
public struct AttemptName: Sendable, Hashable {
    /// Of the 8 bytes as a big-endian number; never zero.
    private let number: UInt64

    /// Nil unless `text` is 16 lower-case hexadecimal digits, and not all of them zero.
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

/// What a caller says of a request: its name, and after the release of which other attempts it may be released too.
///
/// A caller cannot know whether an earlier attempt of its own, whose answer got lost, was released; and after its own store was
/// restored from a copy it does not know of all its attempts. So it says beforehand which attempts it knows of, and that it has
/// made certain that none of them led to a payment. A transaction whose last release was by any other attempt is not released.
public struct NamedAttempt: Sendable {
    public let name: AttemptName
    /// Those of which the caller knows that they led to no payment. At most a hundred (`DecryptRequest.mostAfter`).
    public let after: [AttemptName]

    public init(_ name: AttemptName, after: [AttemptName] = []) {
        self.name = name
        self.after = after
    }
}

/// What a claim keeps of an attempt: 16 bytes, of which the first 8 are its name, or zeros where the caller named none, and the
/// others come from the system's generator. By all 16 a release is found again whose commit was not acknowledged, and callers
/// that name two attempts alike do not make them one.
///
/// A version that knew no names wrote 16 random bytes. Their first 8 are a name that no caller has given: a named attempt never
/// follows such a release.
enum StoredAttempt {
    static func make(_ name: AttemptName?) -> [UInt8] {
        guard let name else { return [UInt8](repeating: 0, count: AttemptName.length) + Release.random(words: 1) }
        return name.bytes + Release.random(words: 1)
    }

    /// The caller's name in them; nil where it named none.
    static func name(in stored: [UInt8]) -> AttemptName? { AttemptName(bytes: stored.prefix(AttemptName.length)) }
}

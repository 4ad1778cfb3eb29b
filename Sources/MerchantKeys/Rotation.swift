public import Foundation
public import PaymentToken
public import WorkerProtocol

/// A merchant's way from one key to the next, read off the keys themselves: nothing else remembers a rotation, so
/// nothing can disagree with it.
///
/// Of several active keys the one that came here last is the new one, and the others are old. Beside a single active key a
/// generated one without a certificate is. EC and RSA keys are rotated apart, since tokens of both versions may arrive.
public struct Rotation: Sendable, Equatable {
    /// How far it has come.
    public enum Phase: String, Sendable, CaseIterable {
        /// No rotation is under way.
        case none
        /// The new key waits for its certificate.
        case certificate
        /// The new key could open tokens, and has opened none: Apple still encrypts to the old one.
        case activation
        /// The new key opens tokens, and the old one too.
        case overlap
        /// The new key opens tokens, and for an hour the old one has opened none.
        case finish
        /// The old key is deactivated and still opens late tokens, until its cut-off.
        case cutOff = "cut-off"
    }

    /// One key of the merchant, with what is known of its use.
    public struct Key: Sendable, Equatable {
        public let keyRecord: KeyRecord
        /// As tokens and ledger show it now; nil when nothing does.
        public let entry: KeyEntry?
        /// First releases within the last hour, of the ledger: tokens that were opened with this very key.
        public let lastHour: KeyUses
        /// Tokens that named it and were refused within the last hour. It proves nothing, neither that a certificate is
        /// activated nor that a key is in use: Apple does not sign the publicKeyHash.
        public let refusedLastHour: Int
        /// Whether it is known to have opened a token before.
        public var wasUsed: Bool
        /// Why it opens nothing now whatever its state, a sentence; nil when a token that is there shows it in good order.
        public let fault: String?

        public init(
            keyRecord: KeyRecord, entry: KeyEntry?, lastHour: KeyUses = KeyUses(), refusedLastHour: Int = 0,
            wasUsed: Bool = false, fault: String? = nil
        ) {
            self.keyRecord = keyRecord
            self.entry = entry
            self.lastHour = lastHour
            self.refusedLastHour = refusedLastHour
            self.wasUsed = wasUsed
            self.fault = fault
        }

        public var publicKeyHash: PublicKeyHash { keyRecord.publicKeyHash }
        var isWaiting: Bool { keyRecord.state == .preActivation && keyRecord.origin == .generated }
        /// Apple has been seen to encrypt to it: it has opened a token.
        public var isProven: Bool { wasUsed || lastHour.count > 0 }
    }

    public let merchantIdentifier: String
    public let algorithm: KeyAlgorithm
    public let phase: Phase
    /// The key that is to stay; where no rotation is under way the one that serves. Nil when no key does.
    public let newKey: Key?
    /// Active keys that the new one replaces, the oldest first.
    public let oldKeys: [Key]
    /// Deactivated keys that still open tokens, the first to end first.
    public let endingKeys: [Key]
    /// Generated and without a certificate, beside the new key.
    public let leftOver: [Key]
    /// Suspended keys, and deactivated ones past their cut-off.
    public let silentKeys: [Key]

    /// - Parameter keys: of one merchant and algorithm; in any state, in any order.
    init(merchantIdentifier: String, algorithm: KeyAlgorithm, keys: [Key], now: Date) {
        let waiting = keys.filter(\.isWaiting).sorted(by: Self.older)
        let active = keys.filter { $0.keyRecord.state == .active }.sorted(by: Self.older)
        self.merchantIdentifier = merchantIdentifier
        self.algorithm = algorithm
        // A key that somebody generates meanwhile does not hold up a rotation that has its certificate.
        let isWaiting = active.count < 2 && !waiting.isEmpty
        newKey = isWaiting ? waiting.last : active.last
        oldKeys = isWaiting ? active : active.dropLast()
        leftOver = isWaiting ? waiting.dropLast() : waiting
        silentKeys = keys.filter {
            $0.keyRecord.state == .suspended || $0.keyRecord.state == .deactivated && !$0.keyRecord.decrypts(at: now)
        }.sorted(by: Self.older)
        endingKeys = keys.filter { $0.keyRecord.state == .deactivated && $0.keyRecord.decrypts(at: now) }
            .sorted {
                ($0.keyRecord.cutOff ?? now, $0.publicKeyHash.hex) < ($1.keyRecord.cutOff ?? now, $1.publicKeyHash.hex)
            }
        phase =
            if isWaiting {
                .certificate
            } else if !oldKeys.isEmpty {
                newKey?.isProven != true
                    ? .activation : oldKeys.contains { $0.lastHour.count > 0 } ? .overlap : .finish
            } else {
                endingKeys.isEmpty ? .none : .cutOff
            }
    }

    public var isUnderWay: Bool { phase != .none }

    /// All of a ledger's keys, by merchant and algorithm. Keys that were destroyed or compromised begin nothing.
    public static func all(among keys: [Key], now: Date) -> [Rotation] {
        let groups = Dictionary(grouping: keys.filter { $0.keyRecord.state.mayBelong }) {
            Group(merchant: $0.keyRecord.merchantIdentifier, algorithm: $0.keyRecord.algorithm.name)
        }
        return groups.sorted { $0.key < $1.key }.map { group, keys in
            Rotation(
                merchantIdentifier: group.merchant, algorithm: keys[0].keyRecord.algorithm, keys: keys, now: now)
        }
    }

    private struct Group: Hashable, Comparable {
        let merchant: String
        let algorithm: String

        static func < (one: Group, other: Group) -> Bool {
            (one.merchant, one.algorithm) < (other.merchant, other.algorithm)
        }
    }

    /// By the day on which they came: a renewed certificate makes no key younger.
    private static func older(_ one: Key, _ other: Key) -> Bool {
        (one.keyRecord.createdAt, one.publicKeyHash.hex) < (other.keyRecord.createdAt, other.publicKeyHash.hex)
    }
}

extension KeyState {
    fileprivate var mayBelong: Bool {
        switch self {
        case .preActivation, .active, .suspended, .deactivated: true
        case .compromised, .destroyed: false
        }
    }
}

public import Foundation
public import KeyTypes
public import PaymentToken

/// A merchant's way from one key to the next, derived from the keys themselves: there is no record of a rotation that
/// could disagree with them.
///
/// Of several active keys the one that came here last is the new one, and the others are old. While only one key is
/// active, a generated key without a certificate is the new one. EC and RSA keys are rotated separately, since payment
/// tokens of both versions may arrive, and so are keys of different use. ``RotationFinishError`` says when a rotation may be
/// finished.
public struct Rotation: Sendable, Equatable {
    /// How far it has come.
    public enum Phase: String, Sendable, CaseIterable {
        /// No rotation is under way.
        case none
        /// The new key waits for its certificate.
        case certificate
        /// The new key could open payment tokens, and has opened none: Apple still encrypts to the old one.
        case activation
        /// The new key opens payment tokens, and the old one too.
        case overlap
        /// The new key opens payment tokens, and for an hour the old one has opened none.
        case finish
        /// The old key is deactivated and still opens late payment tokens, until its cut-off.
        case cutOff = "cut-off"
    }

    /// One key of the merchant, with what is known of its use.
    public struct Key: Sendable, Equatable {
        public let keyRecord: KeyRecord
        /// As the HSM tokens and the ledger show it now; nil when nothing does.
        public let entry: KeyEntry?
        /// Within the last hour, from the ledger: payment tokens that were opened with this very key for the first time, or
        /// its signatures.
        public let lastHour: KeyUses
        /// Payment tokens that named this key and were refused within the last hour. They prove neither that the key's
        /// certificate is activated nor that the key is in use: Apple does not sign the publicKeyHash.
        public let refusedLastHour: Int
        /// Whether it is known to have opened a payment token, or signed, before.
        public var wasUsed: Bool
        /// Why it opens nothing now whatever its state, one sentence; nil when an available HSM token shows it in good
        /// order.
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
        /// Enough of the hash to name the key on a command line.
        public var short: String { String(publicKeyHash.hex.prefix(16)) }
        /// It has opened a payment token, so Apple encrypts to it; or signed.
        public var isProven: Bool { wasUsed || lastHour.count > 0 }
        fileprivate var awaitsCertificate: Bool {
            keyRecord.state == .preActivation && keyRecord.origin == .generated
        }
    }

    public let merchantIdentifier: String
    public let algorithm: KeyAlgorithm
    public let use: KeyUse
    public let phase: Phase
    /// The key that is to stay; where no rotation is under way the one that serves. Nil when no key does.
    public let newKey: Key?
    /// Active keys that the new one replaces, the oldest first.
    public let oldKeys: [Key]
    /// Deactivated keys that still open payment tokens, the first to end first.
    public let endingKeys: [Key]
    /// Generated and without a certificate, beside the new key.
    public let leftOver: [Key]
    /// Suspended keys, and deactivated ones past their cut-off.
    public let silentKeys: [Key]

    /// - Parameter keys: of one merchant, algorithm and use; in any state, in any order.
    init(merchantIdentifier: String, algorithm: KeyAlgorithm, use: KeyUse, keys: [Key], now: Date) {
        let waiting = keys.filter(\.awaitsCertificate).sorted(by: Self.older)
        let active = keys.filter { $0.keyRecord.state == .active }.sorted(by: Self.older)
        self.merchantIdentifier = merchantIdentifier
        self.algorithm = algorithm
        self.use = use
        // With two active keys the rotation has its certificate already. A further key that somebody generates then does
        // not send it back to waiting.
        let isWaiting = active.count < 2 && !waiting.isEmpty
        newKey = isWaiting ? waiting.last : active.last
        oldKeys = isWaiting ? active : active.dropLast()
        leftOver = isWaiting ? waiting.dropLast() : waiting
        silentKeys = keys.filter {
            $0.keyRecord.state == .suspended || $0.keyRecord.state == .deactivated && !$0.keyRecord.serves(at: now)
        }.sorted(by: Self.older)
        endingKeys = keys.filter { $0.keyRecord.state == .deactivated && $0.keyRecord.serves(at: now) }
            .sorted {
                ($0.keyRecord.cutOff ?? now, $0.publicKeyHash.hex) < ($1.keyRecord.cutOff ?? now, $1.publicKeyHash.hex)
            }
        phase =
            if isWaiting {
                .certificate
            } else if oldKeys.isEmpty {
                endingKeys.isEmpty ? .none : .cutOff
            } else if newKey?.isProven != true {
                .activation
            } else {
                oldKeys.contains { $0.lastHour.count > 0 } ? .overlap : .finish
            }
    }

    public var isUnderWay: Bool { phase != .none }

    /// How many payment tokens the old keys opened, or signatures they made, within the last hour.
    public var oldInLastHour: Int { oldKeys.reduce(0) { $0 + $1.lastHour.count } }

    public var lastUnderOld: Date? { oldKeys.compactMap(\.lastHour.last).max() }

    /// All of a ledger's keys, by merchant, algorithm and use. A merchant whose keys are all destroyed or compromised has no
    /// rotation.
    public static func all(among keys: [Key], now: Date) -> [Rotation] {
        let groups = Dictionary(grouping: keys.filter { $0.keyRecord.state.canStillDecrypt }) {
            Group(
                merchant: $0.keyRecord.merchantIdentifier, algorithm: $0.keyRecord.algorithm.name,
                use: $0.keyRecord.use)
        }
        return groups.sorted { $0.key < $1.key }.map { group, keys in
            Rotation(
                merchantIdentifier: group.merchant, algorithm: keys[0].keyRecord.algorithm, use: group.use, keys: keys,
                now: now)
        }
    }

    private struct Group: Hashable, Comparable {
        let merchant: String
        let algorithm: String
        let use: KeyUse

        static func < (one: Group, other: Group) -> Bool {
            (one.merchant, one.algorithm, one.use.rawValue) < (other.merchant, other.algorithm, other.use.rawValue)
        }
    }

    /// By the day on which they came, since a renewed certificate makes no key younger.
    private static func older(_ one: Key, _ other: Key) -> Bool {
        (one.keyRecord.createdAt, one.publicKeyHash.hex) < (other.keyRecord.createdAt, other.publicKeyHash.hex)
    }
}

/// One step of a rotation, in the order in which they are taken.
public struct RotationStep: Sendable, Equatable {
    public enum Name: String, Sendable, CaseIterable {
        case generate
        case certificate
        case activate
        case drain
        case finish
        case cutOff = "cut-off"
    }

    public enum Status: String, Sendable, CaseIterable {
        case done
        /// The step to take now.
        case next
        /// Later.
        case open
    }

    public let name: Name
    public let status: Status
}

extension Rotation {
    /// All steps in their order; none where no rotation is under way, or a key was retired without a successor.
    public var steps: [RotationStep] {
        guard isUnderWay, newKey != nil else { return [] }
        let current: RotationStep.Name =
            switch phase {
            case .none, .certificate: .certificate
            case .activation: .activate
            case .overlap: .drain
            case .finish: .finish
            case .cutOff: .cutOff
            }
        let earlier = RotationStep.Name.allCases.prefix { $0 != current }
        // The old key may have been deactivated before anybody saw a payment token under the new one.
        let isActivationMissed = phase == .cutOff && newKey?.isProven == false
        return RotationStep.Name.allCases.map { name in
            let status: RotationStep.Status =
                switch name {
                case .activate where isActivationMissed: .next
                case .cutOff where isActivationMissed: .open
                case current: .next
                default: earlier.contains(name) ? .done : .open
                }
            return RotationStep(name: name, status: status)
        }
    }
}

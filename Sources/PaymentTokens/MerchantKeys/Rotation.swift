public import Foundation
public import KeyTypes
public import PaymentToken

/// A merchant's change from one key to the next, derived from the keys themselves. No record of a rotation exists that
/// could contradict them.
///
/// The active key that arrived last is the new key, and the others are old. While only one key is
/// active, a generated key without a certificate is the new key. EC and RSA keys are rotated separately, since payment
/// tokens of both versions may arrive. Keys of different uses are rotated separately as well. ``RotationFinishError``
/// lists the obstacles to finishing a rotation.
public struct Rotation: Sendable, Equatable {
    /// The progress of the rotation.
    public enum Phase: String, Sendable, CaseIterable {
        /// No rotation is under way.
        case none
        /// The new key has no certificate yet.
        case certificate
        /// Not every node has proved the new Google Pay key.
        case proof
        /// Every node has proved the new Google Pay key, and no person has stated that it is in Google's console.
        case console
        /// The new key could decrypt payment tokens, but has decrypted none: wallets still encrypt to the old one.
        case activation
        /// Both the new and the old key decrypt payment tokens.
        case overlap
        /// The new key decrypts payment tokens, and the old ones are unused: for an hour, or for `google_pay.quiet`.
        case finish
        /// The old key is deactivated, and decrypts late payment tokens until its cut-off.
        case cutOff = "cut-off"
    }

    /// One key of the merchant, with its recorded use.
    public struct Key: Sendable, Equatable {
        public let keyRecord: KeyRecord
        /// The key as the HSM tokens and the ledger show it now; nil if neither does.
        public let entry: KeyEntry?
        /// The key's uses within the last hour, from the ledger: payment tokens decrypted for the first time, or
        /// signatures made.
        public let lastHour: KeyUses
        /// The number of payment tokens that named this key and were refused within the last hour. They do not prove
        /// that the key's certificate is activated or that the key is in use, because the publicKeyHash is not signed.
        public let refusedLastHour: Int
        /// True if the key is known to have decrypted a payment token, or made a signature, before.
        public var wasUsed: Bool
        /// The time from which the key counts as unused, if that depends on more than the last hour: for a Google Pay key
        /// (``GooglePayRotation/unused(watchedFrom:lastUse:quiet:)``).
        public var unusedFrom: Date?
        /// The required nodes that have not proved a Google Pay key before its activation, ordered by name.
        public var unprovedNodes: [String] = []
        /// One sentence with the reason why no HSM token can use the key now, regardless of its state. nil if an
        /// available HSM token has the key without a fault.
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
        /// The first digits of the hash, enough to identify the key on a command line.
        public var short: String { String(publicKeyHash.hex.prefix(16)) }
        /// True if the key has decrypted a payment token, which shows that Apple encrypts to it, or has made a
        /// signature.
        public var isProven: Bool { wasUsed || lastHour.count > 0 }
        /// True if the key waits for its activation: by a certificate, or by ``Rotation/Phase/console``. An Apple Pay key
        /// of another origin was put into the ledger with its certificate.
        public var awaitsActivation: Bool {
            keyRecord.state == .preActivation && (keyRecord.origin == .generated || keyRecord.use == .googlePay)
        }

        /// Returns true if the key had a payment or signature so recently that it is not to be retired.
        public func isInUse(at now: Date) -> Bool { unusedFrom.map { now < $0 } ?? (lastHour.count > 0) }
    }

    public let merchantIdentifier: String
    public let algorithm: KeyAlgorithm
    public let use: KeyUse
    public let phase: Phase
    /// The key that remains in use after the rotation; if no rotation is under way, the key in use. Nil if there is no
    /// such key.
    public let newKey: Key?
    /// Active keys that the new key replaces, oldest first.
    public let oldKeys: [Key]
    /// Deactivated keys that still decrypt payment tokens, ordered by their cut-off.
    public let endingKeys: [Key]
    /// Keys that wait for their activation, other than the new key.
    public let leftOver: [Key]
    /// Suspended keys, and deactivated ones whose cut-off has passed.
    public let silentKeys: [Key]
    /// The time for which this was derived.
    public let now: Date

    /// - Parameter keys: keys of one merchant, algorithm and use, in any state and order.
    init(merchantIdentifier: String, algorithm: KeyAlgorithm, use: KeyUse, keys: [Key], now: Date) {
        let waiting = keys.filter(\.awaitsActivation).sorted(by: Self.older)
        let active = keys.filter { $0.keyRecord.state == .active }.sorted(by: Self.older)
        self.merchantIdentifier = merchantIdentifier
        self.algorithm = algorithm
        self.use = use
        self.now = now
        // With two active keys, the new key already has its certificate. A further generated key without a certificate
        // is then left over, and the rotation continues.
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
                use.hasCertificate ? .certificate : newKey?.unprovedNodes.isEmpty == true ? .console : .proof
            } else if oldKeys.isEmpty {
                endingKeys.isEmpty ? .none : .cutOff
            } else if newKey?.isProven != true {
                .activation
            } else {
                oldKeys.contains { $0.isInUse(at: now) } ? .overlap : .finish
            }
    }

    public var isUnderWay: Bool { phase != .none }

    /// The number of payment tokens that the old keys decrypted within the last hour, or of signatures that they made.
    public var oldInLastHour: Int { oldKeys.reduce(0) { $0 + $1.lastHour.count } }

    public var lastUnderOld: Date? { oldKeys.compactMap(\.lastHour.last).max() }

    /// The rotations of all keys, by merchant, algorithm and use. A merchant whose keys are all destroyed or
    /// compromised has none. Service keys have none either: Apple makes them, and revokes them at once.
    public static func all(among keys: [Key], now: Date) -> [Rotation] {
        let groups = Dictionary(
            grouping: keys.filter { $0.keyRecord.state.canStillDecrypt && $0.keyRecord.use != .service }
        ) {
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

    /// Returns true if the first key entered the ledger before the second. The date of the certificate is not used,
    /// since a renewed certificate does not make a key newer.
    private static func older(_ one: Key, _ other: Key) -> Bool {
        (one.keyRecord.createdAt, one.publicKeyHash.hex) < (other.keyRecord.createdAt, other.publicKeyHash.hex)
    }
}

/// One step of a rotation. The steps are taken in order.
public struct RotationStep: Sendable, Equatable {
    public enum Name: String, Sendable, CaseIterable {
        case generate
        /// Apple Pay keys only.
        case certificate
        /// Google Pay keys only: every node proves the new key.
        case prove
        /// Google Pay keys only: a person adds the public key in Google's console.
        case console
        case activate
        case drain
        case finish
        case cutOff = "cut-off"
    }

    public enum Status: String, Sendable, CaseIterable {
        case done
        /// The step that the operator takes now.
        case next
        /// A step that follows later.
        case open
    }

    public let name: Name
    public let status: Status

    /// The steps for keys of this use, in order.
    static func names(for use: KeyUse) -> [Name] {
        Name.allCases.filter { use.hasCertificate ? $0 != .prove && $0 != .console : $0 != .certificate }
    }
}

extension Rotation {
    /// All steps in order, without those of an old key if there is none; empty without a rotation, or if a key was retired
    /// without a successor.
    public var steps: [RotationStep] {
        guard isUnderWay, newKey != nil else { return [] }
        let current: RotationStep.Name =
            switch phase {
            case .none, .certificate: .certificate
            case .proof: .prove
            case .console: .console
            case .activation: .activate
            case .overlap: .drain
            case .finish: .finish
            case .cutOff: .cutOff
            }
        let isFirst = oldKeys.isEmpty && endingKeys.isEmpty
        let names = RotationStep.names(for: use).filter { !isFirst || ![.drain, .finish, .cutOff].contains($0) }
        let earlier = names.prefix { $0 != current }
        // The old key may have been deactivated before the new one decrypted any payment token.
        let isActivationMissed = phase == .cutOff && newKey?.isProven == false
        return names.map { name in
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

import Encodings
public import Foundation
public import KeyTypes
import Locks
public import PaymentToken
public import WorkerProtocol

// MerchantKeys: merchants' keys and certificates, without a database and without an HSM.
//
// The daemon gives the index the keys that the HSM tokens show (`KeyDescription`) and the ledger's records
// (`KeyRecord`). For each payment it looks up one key (`KeyEntry`). A key is used only if both agree. The publicKeyHash
// is recomputed, certificates are parsed again, and only the ledger decides the merchant and the state.
//
// Start here, then KeyEntry. KeyState and KeyTransition are a key's states and transitions (SP 800-57). Rotation
// derives from the keys the progress of a merchant's change from one key to the next. MerchantCertificate parses
// Apple's certificates; CertificateRequest makes the request for one.

/// Every merchant key by its publicKeyHash.
///
/// A lookup takes a lock briefly and probes a hash table once, however many keys there are. So does
/// ``update(_:hsmTokens:keyRecord:now:)`` of one key. ``rebuild(hsmTokens:keyRecords:now:)`` makes a new table while
/// the old one is in use, then swaps them. Only one rebuild runs at a time, and with thousands of keys it may take a
/// while, so do not call it on an event loop.
public final class KeyIndex: Sendable {
    private let current = Mutex(KeyIndexTable())
    private let rebuilding = Mutex(())
    private let usage = Mutex<[PublicKeyHash: (count: Int, last: Date)]>([:])

    public init() {}

    public func entry(_ hash: PublicKeyHash) -> KeyEntry? { current.withLock { $0.byHash[hash] } }

    /// All entries, in ascending order of their hashes.
    public var entries: [KeyEntry] { current.withLock { $0.sorted } }

    /// Returns those of these HSM tokens that show another active key of this merchant, use and algorithm, and not this key.
    /// Payments would fail there if the key replaced the other. One that was not read yet may show any key.
    public func hsmTokens(
        _ names: [String], without key: PublicKeyHash, of merchant: String, _ use: KeyUse, _ algorithm: KeyAlgorithm
    ) -> [String] {
        let table = current.withLock { $0 }
        let others = table.sorted.filter {
            $0.merchantIdentifier == merchant && $0.use == use && $0.algorithm == algorithm && $0.state == .active
                && $0.publicKeyHash != key
        }
        let needing = Set(others.flatMap(\.hsmTokens))
        let showing = table.byHash[key]?.hsmTokens ?? []
        return names.filter { !showing.contains($0) && (needing.contains($0) || !table.hasRead($0)) }
    }

    /// A number that rises with each change of the entries.
    public var generation: Int { current.withLock { $0.generation } }

    /// The entries whose hash in lower-case hex sorts after `hex`, ascending.
    public func entries(after hex: String) -> ArraySlice<KeyEntry> { current.withLock { $0 }.entries(after: hex) }

    /// A key's SubjectPublicKeyInfo in DER, from an HSM token; nil if no HSM token shows it.
    public func subjectPublicKeyInfo(_ hash: PublicKeyHash) -> [UInt8]? {
        current.withLock { $0.subjectPublicKeyInfo(hash) }
    }

    /// Returns true if an HSM token has a certificate for the key, even if its copy of the key has a fault.
    public func hasCertificate(_ hash: PublicKeyHash) -> Bool { current.withLock { $0.hasCertificate(hash) } }

    /// One sentence for each object that cannot be listed as a key, and for each key that only one HSM token has.
    public var warnings: [String] { current.withLock { $0 }.warnings }

    /// Compares all keys in the HSM tokens with the ledger's records again.
    ///
    /// - Parameters:
    ///   - hsmTokens: by configured name, the keys that each HSM token shows now. An HSM token that is not included
    ///     keeps the keys that it showed last, since an unreachable HSM token has not lost its keys.
    ///   - keyRecords: all records of the ledger.
    public func rebuild(
        hsmTokens: [(name: String, keys: [KeyDescription])], keyRecords: [KeyRecord], now: Date = Date()
    ) {
        rebuilding.withLock { _ in
            let before = current.withLock { $0 }
            let next = KeyIndexTable(after: before, hsmTokens: hsmTokens, keyRecords: keyRecords, now: now)
            current.withLock { $0 = next }
        }
    }

    /// Compares one key in the HSM tokens with the ledger's record again.
    ///
    /// - Parameters:
    ///   - hsmTokens: by configured name, the objects that HSM tokens show under this CKA_ID now. An HSM token that
    ///     is not included keeps the objects that it showed last.
    ///   - keyRecord: the ledger's record; nil if the ledger does not know the key.
    public func update(
        _ hash: PublicKeyHash, hsmTokens: [(name: String, keys: [KeyDescription])], keyRecord: KeyRecord?,
        now: Date = Date()
    ) {
        rebuilding.withLock { _ in
            current.withLock { $0.update(hash, hsmTokens: hsmTokens, keyRecord: keyRecord, now: now) }
        }
    }

    /// The keys with which a message for this merchant at Google is tried, in this order; see ``GooglePayKeys``.
    public func googlePayKeys(of merchant: String, at now: Date) -> [KeyEntry] {
        GooglePayKeys.tried(
            current.withLock { table in table.googlePay[merchant, default: []].compactMap { table.byHash[$0] } },
            at: now)
    }

    /// Returns true if the ledger has a Google Pay key of this merchant, in any state.
    public func hasGooglePayKeys(of merchant: String) -> Bool { current.withLock { $0.googlePay[merchant] != nil } }

    /// Counts one released payment with that key.
    public func countUse(_ hash: PublicKeyHash, at time: Date) {
        usage.withLock { uses in
            let before = uses[hash]
            uses[hash] = ((before?.count ?? 0) + 1, max(before?.last ?? time, time))
        }
    }

    /// The number of released payments since this process started, and the time of the last.
    public func uses(_ hash: PublicKeyHash) -> (count: Int, last: Date?) {
        usage.withLock { uses in uses[hash].map { ($0.count, $0.last) } ?? (0, nil) }
    }

    /// Finds the key that the user named. 44 characters are base64; other text is hex or a prefix of at least 8
    /// characters that only one key has.
    public func find(_ text: String) throws(KeyLookupError) -> KeyEntry {
        guard let reference = KeyReference(text) else {
            throw text.utf8.count == KeyReference.base64Length ? .notBase64 : .notHexadecimal
        }
        let candidates: [KeyEntry] =
            if let hash = PublicKeyHash(hex: reference.hex) {
                entry(hash).map { [$0] } ?? []
            } else {
                entries.filter { reference.matches($0.publicKeyHash.bytes) }
            }
        guard candidates.count < 2 else { throw .ambiguous(count: candidates.count) }
        guard let found = candidates.first else { throw .unknown }
        return found
    }
}

/// The reason why a name does not identify a key.
public enum KeyLookupError: Error, Sendable, Equatable {
    /// The name has 44 characters, but is not base64 of 32 bytes.
    case notBase64
    /// The name has neither 44 characters nor 8 to 64 hexadecimal digits.
    case notHexadecimal
    /// Several keys begin with this prefix.
    case ambiguous(count: Int)
    case unknown
}

/// One merchant key as the daemon knows it: from the HSM tokens and from the ledger.
public struct KeyEntry: Sendable, Equatable {
    public enum Condition: Sendable, Equatable {
        /// An HSM token shows the key, the ledger has its record, and they agree. The state must still permit
        /// decryption.
        case served
        /// The key is in an HSM token but not in the ledger: it was not adopted, so it cannot decrypt.
        case external
        /// The HSM token's objects contradict each other or the ledger; the sentence describes the contradiction. The
        /// key is not used.
        case inconsistent(String)
        /// The ledger has the key's record, or an HSM token showed the key before, but no HSM token shows it now. It
        /// may return.
        case missing
    }

    public let publicKeyHash: PublicKeyHash
    /// The ledger's merchant identifier. For an external key it is the certificate's, or empty without a certificate.
    public let merchantIdentifier: String
    public let algorithm: KeyAlgorithm
    /// The ledger's use. For a key without a record it is the use that the HSM token permits.
    public let use: KeyUse
    /// The ledger's state; pre-activation for a key without a record.
    public let state: KeyState
    /// The time until which a deactivated key still decrypts.
    public let cutOff: Date?
    public let condition: Condition
    /// The newest valid certificate of several; nil if no HSM token has one.
    public let certificate: MerchantCertificate?
    /// The configured names of the HSM tokens whose copies of the key have no fault.
    public let hsmTokens: [String]
    /// The configured names of all HSM tokens that show the key, with or without faults.
    public internal(set) var shownBy: [String] = []
    /// The time at which the ledger recorded the key; nil for a key without a record.
    public internal(set) var createdAt: Date?
    /// Facts that an operator should know although they do not prevent the key's use: no certificate, or a fault in
    /// another HSM token's copy.
    public let warnings: [String]

    /// Returns true if use and state permit decryption at `now`. ``condition`` shows whether the key is available.
    public func decrypts(at now: Date) -> Bool {
        use.restores && use.isPermitted(in: state, at: now, cutOff: cutOff)
    }

    /// Returns true if use and state permit signing TLS handshakes at `now`.
    public func signs(at now: Date) -> Bool {
        use == .identity && use.isPermitted(in: state, at: now, cutOff: cutOff)
    }
}

extension KeyEntry.Condition {
    /// `served`, `external`, `inconsistent` or `missing`, as the API writes it.
    public var name: String {
        switch self {
        case .served: "served"
        case .external: "external"
        case .inconsistent: "inconsistent"
        case .missing: "missing"
        }
    }

    /// The reason for the condition, in one sentence; nil if there is nothing to explain.
    public var explanation: String? {
        switch self {
        case .served: nil
        case .external: "The key was made in the HSM token by other means, and serves nothing until it is adopted."
        case .inconsistent(let reason): reason
        case .missing: "No HSM token shows this key now."
        }
    }
}

/// The ledger's record of a key. It alone decides the merchant and the state: in the HSM token, anyone with the PIN
/// can change labels and identifiers.
public struct KeyRecord: Sendable, Equatable {
    /// The way in which the key entered the ledger.
    public enum Origin: String, Sendable, CaseIterable {
        /// Imported from a file.
        case imported
        /// Generated in the HSM token.
        case generated
        /// Created in the HSM token by other means, then adopted.
        case adopted
    }

    public var publicKeyHash: PublicKeyHash
    /// The merchant identifier, or a service key's key id at Apple.
    public var merchantIdentifier: String
    public var algorithm: KeyAlgorithm
    /// The key's use, which never changes.
    public var use: KeyUse
    public var state: KeyState
    /// The time until which a deactivated key still decrypts; nil in the other states.
    public var cutOff: Date?
    public var createdAt: Date
    public var origin: Origin

    public init(
        publicKeyHash: PublicKeyHash, merchantIdentifier: String, algorithm: KeyAlgorithm,
        use: KeyUse = .processing, state: KeyState, cutOff: Date? = nil, createdAt: Date, origin: Origin
    ) {
        self.publicKeyHash = publicKeyHash
        self.merchantIdentifier = merchantIdentifier
        self.algorithm = algorithm
        self.use = use
        self.state = state
        self.cutOff = cutOff
        self.createdAt = createdAt
        self.origin = origin
    }

    /// Returns true if the key may now decrypt or sign, according to its use.
    public func serves(at now: Date) -> Bool { use.isPermitted(in: state, at: now, cutOff: cutOff) }
}

extension KeyUse {
    /// `processing`, `identity`, `service` or `google-pay`, as the API and the ledger write it.
    public var name: String {
        switch self {
        case .processing: "processing"
        case .identity: "identity"
        case .service: "service"
        case .googlePay: "google-pay"
        }
    }

    public init?(name: String) {
        guard let known = Self.allCases.first(where: { $0.name == name }) else { return nil }
        self = known
    }

    /// Returns true if the state permits a key of this use to decrypt or sign.
    ///
    /// A deactivated key of a wallet decrypts until its cut-off, because payment tokens encrypted to it arrive late. A
    /// deactivated identity or service key signs nothing: the originator-usage period of a signature key has then ended
    /// (SP 800-57 part 1 §5.3.6). No signature is needed later.
    public func isPermitted(in state: KeyState, at now: Date, cutOff: Date?) -> Bool {
        switch self {
        case .processing, .googlePay: state.decrypts(at: now, cutOff: cutOff)
        case .identity, .service: state == .active
        }
    }
}

/// The number of payments that a key decrypted within a period.
public struct KeyUses: Sendable, Equatable {
    public var count: Int
    /// The time of the newest payment; nil if there was none.
    public var last: Date?

    public init(count: Int = 0, last: Date? = nil) {
        self.count = count
        self.last = last
    }
}

/// A key's state, with the names of SP 800-57 part 1 §7.
public enum KeyState: String, Sendable, CaseIterable {
    /// The key waits for its certificate or, for Google Pay, for a person's statement that it is in Google's console. A key
    /// that is in an HSM token but not in the ledger has this state too.
    case preActivation = "pre-activation"
    case active
    /// The key was retired. It still decrypts until its cut-off, because payment tokens encrypted to it arrive for
    /// hours after a rotation.
    case deactivated
    /// The key is temporarily out of use. It may be resumed.
    case suspended
    /// The key must never decrypt again.
    case compromised
    /// The key was deleted from the HSM token.
    case destroyed

    /// Returns true for a transition of SP 800-57 part 1 §7, with one restriction. An active key cannot be destroyed
    /// directly: it must first be deactivated, suspended or compromised, so that a mistake can be undone.
    public func canBecome(_ next: KeyState) -> Bool {
        switch self {
        case .preActivation: [.active, .compromised, .destroyed].contains(next)
        case .active: [.suspended, .deactivated, .compromised].contains(next)
        case .deactivated: [.suspended, .compromised, .destroyed].contains(next)
        case .suspended: [.active, .deactivated, .compromised, .destroyed].contains(next)
        case .compromised: next == .destroyed
        case .destroyed: false
        }
    }

    /// Returns true if a key in this state decrypts now or may decrypt later. Compromised and destroyed are final.
    public var canStillDecrypt: Bool {
        switch self {
        case .preActivation, .active, .suspended, .deactivated: true
        case .compromised, .destroyed: false
        }
    }

    /// Returns true if a key in this state decrypts at `now`.
    ///
    /// - Parameter cutOff: the time until which a deactivated key still decrypts; without one, it does not decrypt.
    public func decrypts(at now: Date, cutOff: Date?) -> Bool {
        switch self {
        case .active: true
        case .deactivated: cutOff.map { now < $0 } ?? false
        case .preActivation, .suspended, .compromised, .destroyed: false
        }
    }
}

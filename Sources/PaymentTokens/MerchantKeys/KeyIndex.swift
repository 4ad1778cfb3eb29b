import Encodings
public import Foundation
public import KeyTypes
public import PaymentToken
import Synchronization
public import WorkerProtocol

// MerchantKeys: what is known of merchants' keys and certificates, without a database and without an HSM.
//
// The daemon gives the index what HSM tokens show (`KeyDescription`) and what the ledger recorded (`KeyRecord`), and asks
// it for one key at each payment (`KeyEntry`). The index guarantees that a key is served only where both agree: the
// publicKeyHash is recomputed, certificates are read again, and merchant and state are believed from the ledger alone.
//
// Start here, then KeyEntry. KeyState and KeyTransition are a key's life (SP 800-57); Rotation derives from the keys how far
// a merchant has come from one to the next. MerchantCertificate reads Apple's certificates, CertificateRequest makes
// the request for one.

/// Every merchant key by its publicKeyHash.
///
/// A look-up costs a short lock and one probe of a hash table, however many keys there are, and so does
/// ``update(_:hsmTokens:keyRecord:now:)`` of one key. ``rebuild(hsmTokens:keyRecords:now:)`` makes a new table beside the
/// old one and swaps them; it does so one at a time and may take a while with thousands of keys, so it is not for an
/// event loop.
public final class KeyIndex: Sendable {
    private let current = Mutex(KeyIndexTable())
    private let rebuilding = Mutex(())
    private let usage = Mutex<[PublicKeyHash: (count: Int, last: Date)]>([:])

    public init() {}

    public func entry(_ hash: PublicKeyHash) -> KeyEntry? { current.withLock { $0.byHash[hash] } }

    /// All of them, by hash, ascending.
    public var entries: [KeyEntry] { current.withLock { $0.sorted } }

    /// Rises with each change of the entries.
    public var generation: Int { current.withLock { $0.generation } }

    /// Those whose hash in lower-case hex comes after `hex`, ascending.
    public func entries(after hex: String) -> ArraySlice<KeyEntry> { current.withLock { $0 }.entries(after: hex) }

    /// A key's SubjectPublicKeyInfo in DER, as a token shows it; nil when none does.
    public func subjectPublicKeyInfo(_ hash: PublicKeyHash) -> [UInt8]? {
        current.withLock { $0.subjectPublicKeyInfo(hash) }
    }

    /// What HSM tokens hold that cannot be listed as a key, and what only one of them holds, a sentence each.
    public var warnings: [String] { current.withLock { $0 }.warnings }

    /// Compares anew what the HSM tokens show with what the ledger says.
    ///
    /// - Parameters:
    ///   - hsmTokens: by configured name, what each token shows now. A token that is not named keeps what it showed
    ///     last: one that cannot be reached has not lost its keys.
    ///   - keyRecords: all of the ledger's.
    public func rebuild(
        hsmTokens: [(name: String, keys: [KeyDescription])], keyRecords: [KeyRecord], now: Date = Date()
    ) {
        rebuilding.withLock { _ in
            let before = current.withLock { $0 }
            let next = KeyIndexTable(after: before, hsmTokens: hsmTokens, keyRecords: keyRecords, now: now)
            current.withLock { $0 = next }
        }
    }

    /// Compares anew what the HSM tokens show of one key with what the ledger says of it.
    ///
    /// - Parameters:
    ///   - hsmTokens: by configured name, what tokens show under this CKA_ID now; the others keep what they showed last.
    ///   - keyRecord: the ledger's; nil when it does not know the key.
    public func update(
        _ hash: PublicKeyHash, hsmTokens: [(name: String, keys: [KeyDescription])], keyRecord: KeyRecord?,
        now: Date = Date()
    ) {
        rebuilding.withLock { _ in
            current.withLock { $0.update(hash, hsmTokens: hsmTokens, keyRecord: keyRecord, now: now) }
        }
    }

    /// Counts one release with that key.
    public func countUse(_ hash: PublicKeyHash, at time: Date) {
        usage.withLock { uses in
            let before = uses[hash]
            uses[hash] = ((before?.count ?? 0) + 1, max(before?.last ?? time, time))
        }
    }

    /// Releases since this process started, and the last one's time.
    public func uses(_ hash: PublicKeyHash) -> (count: Int, last: Date?) {
        usage.withLock { uses in uses[hash].map { ($0.count, $0.last) } ?? (0, nil) }
    }

    /// Finds the key that a person names: 44 characters are base64, anything else is hex or a prefix of at least 8
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

/// Why a name leads to no key.
public enum KeyLookupError: Error, Sendable, Equatable {
    /// 44 characters that are not base64 of 32 bytes.
    case notBase64
    /// Neither 44 characters nor 8 to 64 hexadecimal digits.
    case notHexadecimal
    /// So many keys begin with it.
    case ambiguous(count: Int)
    case unknown
}

/// One merchant key as the daemon knows it: what the HSM tokens show of it, and what the ledger says of it.
public struct KeyEntry: Sendable, Equatable {
    public enum Condition: Sendable, Equatable {
        /// An HSM token shows it, the ledger knows it, and they agree. Its state still has to permit decryption.
        case served
        /// In an HSM token, without a record in the ledger: not adopted, so it does not decrypt.
        case external
        /// The HSM token's objects contradict each other or the ledger; the sentence says how. Not served.
        case inconsistent(String)
        /// The ledger knows it, or an HSM token showed it before, and none shows it now. It may come back.
        case missing
    }

    public let publicKeyHash: PublicKeyHash
    /// From the ledger; for an external key from its certificate, and empty when it has none.
    public let merchantIdentifier: String
    public let algorithm: KeyAlgorithm
    /// From the ledger; for a key that it does not know what the HSM token permits.
    public let use: KeyUse
    /// From the ledger; pre-activation for a key that it does not know.
    public let state: KeyState
    /// Until when a deactivated key still decrypts.
    public let cutOff: Date?
    public let condition: Condition
    /// Of several the newest valid one; nil when no HSM token holds one.
    public let certificate: MerchantCertificate?
    /// The configured names of the HSM tokens that show the key in good order.
    public let hsmTokens: [String]
    /// The configured names of all HSM tokens that show the key, in good order or not.
    public internal(set) var shownBy: [String] = []
    /// What a person should know though it stops nothing: no certificate, another HSM token's copy out of order.
    public let warnings: [String]

    /// Whether use and state permit decryption now. Whether the key is there to do it is ``condition``.
    public func decrypts(at now: Date) -> Bool {
        use == .processing && use.isPermitted(in: state, at: now, cutOff: cutOff)
    }

    /// Whether use and state permit signing TLS handshakes now.
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

    /// Why, in one sentence; nil when there is nothing to explain.
    public var explanation: String? {
        switch self {
        case .served: nil
        case .external: "The key was made in the token by other means; it decrypts when it has been adopted."
        case .inconsistent(let reason): reason
        case .missing: "No token shows this key now."
        }
    }
}

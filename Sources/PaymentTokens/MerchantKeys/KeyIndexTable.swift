import Foundation
import PaymentToken
import WorkerProtocol

/// The whole index at one time: the objects that every HSM token showed when it was last read, compared with the
/// ledger's records.
struct KeyIndexTable: Sendable {
    private(set) var byHash: [PublicKeyHash: KeyEntry] = [:]
    /// The entries, in ascending order of their hashes.
    private(set) var sorted: [KeyEntry] = []
    /// The number of changes of the entries so far; see ``KeyIndex/generation``.
    private(set) var generation = 0
    /// By merchant, the keys that the ledger recorded for Google Pay. A key's merchant and use never change.
    private(set) var googlePay: [String: Set<PublicKeyHash>] = [:]
    private var held: [PublicKeyHash: [HeldKey]] = [:]
    /// For each HSM token that has been read, one sentence for each of its private keys that cannot be listed.
    private var unlisted: [String: [String]] = [:]

    /// Returns true if the HSM token's keys were read since this process started.
    func hasRead(_ hsmToken: String) -> Bool { unlisted[hsmToken] != nil }

    /// One HSM token's copy of a key.
    private struct HeldKey {
        let hsmToken: String
        /// The key's CKA_ID in this HSM token.
        let identifier: [UInt8]
        let key: HSMTokenKey
    }

    init() {}

    /// Compares all keys again. An HSM token that is not included keeps the keys that it showed last.
    init(
        after previous: KeyIndexTable, hsmTokens: [(name: String, keys: [KeyDescription])], keyRecords: [KeyRecord],
        now: Date
    ) {
        generation = previous.generation + 1
        let asked = Set(hsmTokens.map(\.name))
        unlisted = previous.unlisted
        held = previous.held.compactMapValues { copies in
            let others = copies.filter { !asked.contains($0.hsmToken) }
            return others.isEmpty ? nil : others
        }
        for (hsmToken, keys) in hsmTokens.sorted(by: { $0.name < $1.name }) {
            unlisted[hsmToken] = []
            for description in keys {
                let certificates = previous.certificates(under: description.identifier)
                if let key = HSMTokenKey(description, known: certificates) {
                    hold(HeldKey(hsmToken: hsmToken, identifier: description.identifier, key: key))
                } else {
                    unlisted[hsmToken]?.append(
                        "HSM token \(hsmToken) holds a private key that cannot be listed: its CKA_ID has "
                            + "\(description.identifier.count) bytes, and it has no public key.")
                }
            }
        }

        let recorded = Dictionary(keyRecords.map { ($0.publicKeyHash, $0) }) { $1 }
        for hash in Set(held.keys).union(recorded.keys).union(previous.byHash.keys) {
            byHash[hash] = self.entry(hash, recorded[hash], previous.byHash[hash], now)
            byHash[hash].map { note($0) }
        }
        sorted = byHash.values.sorted(by: Self.inOrder)
    }

    /// Compares one key again. The cost does not depend on the number of keys.
    ///
    /// - Parameter hsmTokens: by name, the objects that HSM tokens show under this hash as CKA_ID now. An HSM token
    ///   that is not included keeps the objects that it showed last. An object whose public key has a different hash is
    ///   ignored until the HSM token's next complete listing.
    mutating func update(
        _ hash: PublicKeyHash, hsmTokens: [(name: String, keys: [KeyDescription])], keyRecord: KeyRecord?, now: Date
    ) {
        generation += 1
        for (hsmToken, keys) in hsmTokens {
            unlisted[hsmToken] = unlisted[hsmToken] ?? []
            let certificates = certificates(under: hash.bytes)
            held[hash]?.removeAll { $0.hsmToken == hsmToken && $0.identifier == hash.bytes }
            for description in keys {
                guard let key = HSMTokenKey(description, known: certificates), key.publicKeyHash == hash else {
                    continue
                }
                hold(HeldKey(hsmToken: hsmToken, identifier: description.identifier, key: key))
            }
        }
        if held[hash]?.isEmpty == true { held[hash] = nil }
        guard let entry = self.entry(hash, keyRecord, byHash[hash], now) else { return }
        note(entry)
        let place = sorted.partitioningIndex { !Self.inOrder($0, entry) }
        if byHash.updateValue(entry, forKey: hash) != nil {
            sorted[place] = entry
        } else {
            sorted.insert(entry, at: place)
        }
    }

    /// The SubjectPublicKeyInfo in DER; nil if no HSM token has the public key.
    func subjectPublicKeyInfo(_ hash: PublicKeyHash) -> [UInt8]? {
        held[hash]?.first { $0.identifier == hash.bytes && !$0.key.subjectPublicKeyInfo.isEmpty }?
            .key.subjectPublicKeyInfo
    }

    func hasCertificate(_ hash: PublicKeyHash) -> Bool {
        byHash[hash]?.certificate != nil || held[hash]?.contains { !$0.key.certificates.isEmpty } == true
    }

    private mutating func note(_ entry: KeyEntry) {
        if entry.use == .googlePay { googlePay[entry.merchantIdentifier, default: []].insert(entry.publicKeyHash) }
    }

    private mutating func hold(_ copy: HeldKey) {
        var copies = held[copy.key.publicKeyHash] ?? []
        copies.insert(copy, at: copies.firstIndex { $0.hsmToken > copy.hsmToken } ?? copies.endIndex)
        held[copy.key.publicKeyHash] = copies
    }

    private func certificates(under identifier: [UInt8]) -> [MerchantCertificate] {
        PublicKeyHash(bytes: identifier).flatMap { held[$0] }?.flatMap(\.key.certificates) ?? []
    }

    private static func inOrder(_ one: KeyEntry, _ other: KeyEntry) -> Bool {
        one.publicKeyHash.bytes.lexicographicallyPrecedes(other.publicKeyHash.bytes)
    }

    private func entry(
        _ hash: PublicKeyHash, _ keyRecord: KeyRecord?, _ previous: KeyEntry?, _ now: Date
    ) -> KeyEntry? {
        if let copies = held[hash] {
            return KeyEntry(hash, copies: copies.map { ($0.hsmToken, $0.key) }, keyRecord: keyRecord, now: now)
        }
        if let keyRecord { return KeyEntry(missing: keyRecord, certificate: previous?.certificate) }
        // An HSM token showed this key before, but no HSM token shows it now, and the ledger has no record of it. The
        // key stays in the index, so that operators see that it has disappeared.
        return previous.map { KeyEntry(gone: $0) }
    }
}

extension KeyIndexTable {
    /// The entries whose hash in hex sorts after this text, which may be a prefix.
    func entries(after hex: String) -> ArraySlice<KeyEntry> {
        sorted[sorted.partitioningIndex { $0.publicKeyHash.hex > hex }...]
    }

    /// One sentence for each object that cannot be listed as a key, and for each key that only one HSM token has.
    var warnings: [String] {
        unlisted.sorted { $0.key < $1.key }.flatMap(\.value) + soleHolders
    }

    /// One sentence for each key that only one of several HSM tokens has. Such a key is lost or unavailable if that HSM
    /// token is.
    private var soleHolders: [String] {
        guard unlisted.count > 1 else { return [] }
        let alone = sorted.filter { $0.condition == .served && $0.hsmTokens.count == 1 && $0.state.canStillDecrypt }
        return Dictionary(grouping: alone) { $0.hsmTokens[0] }.sorted { $0.key < $1.key }.map { hsmToken, entries in
            let most = 5
            let names = entries.prefix(most).map { String($0.publicKeyHash.hex.prefix(16)) }
            let more = entries.count > most ? " and \(entries.count - most) more" : ""
            return "Only HSM token \(hsmToken) shows the key\(entries.count == 1 ? "" : "s") "
                + names.joined(separator: ", ") + more
                + "; import into another HSM token what must survive its loss."
        }
    }
}

extension Array {
    /// The first index for which `isAfter` returns true, found by binary search. It must return false for all elements
    /// before that index, and true from there on.
    fileprivate func partitioningIndex(_ isAfter: (Element) -> Bool) -> Int {
        var (low, high) = (startIndex, endIndex)
        while low < high {
            let middle = low + (high - low) / 2
            if isAfter(self[middle]) { high = middle } else { low = middle + 1 }
        }
        return low
    }
}

extension KeyEntry {
    fileprivate init(
        _ hash: PublicKeyHash, copies: [(hsmToken: String, key: HSMTokenKey)], keyRecord: KeyRecord?, now: Date
    ) {
        let compared = copies.map { copy in
            (copy.hsmToken, copy.key, keyRecord.map { copy.key.disagreement(with: $0) } ?? copy.key.disagreement)
        }
        let good = compared.filter { $0.2 == nil }
        let serving = good.isEmpty ? compared : good
        let certificate = serving.flatMap { $0.1.certificates }.newestValid(at: now)
        var warnings =
            good.isEmpty ? [] : compared.compactMap { hsmToken, _, why in why.map { "HSM token \(hsmToken): \($0)" } }
        let use = keyRecord?.use ?? serving[0].1.use
        if certificate == nil, use.hasCertificate {
            warnings.append("The HSM token holds no certificate for this key.")
        }

        publicKeyHash = hash
        merchantIdentifier = keyRecord?.merchantIdentifier ?? certificate?.merchantIdentifier ?? ""
        algorithm = keyRecord?.algorithm ?? serving[0].1.algorithm
        self.use = use
        state = keyRecord?.state ?? .preActivation
        cutOff = keyRecord?.cutOff
        condition =
            if let why = compared[0].2, good.isEmpty { .inconsistent(why) } else {
                keyRecord == nil ? .external : .served
            }
        self.certificate = certificate
        hsmTokens = good.map(\.0)
        shownBy = copies.map(\.hsmToken)
        createdAt = keyRecord?.createdAt
        self.warnings = warnings
    }

    fileprivate init(missing keyRecord: KeyRecord, certificate: MerchantCertificate?) {
        self.init(
            publicKeyHash: keyRecord.publicKeyHash, merchantIdentifier: keyRecord.merchantIdentifier,
            algorithm: keyRecord.algorithm, use: keyRecord.use, state: keyRecord.state, cutOff: keyRecord.cutOff,
            condition: .missing,
            certificate: certificate, hsmTokens: [], warnings: [])
        createdAt = keyRecord.createdAt
    }

    fileprivate init(gone entry: KeyEntry) {
        self.init(
            publicKeyHash: entry.publicKeyHash, merchantIdentifier: entry.merchantIdentifier,
            algorithm: entry.algorithm, use: entry.use, state: .preActivation, cutOff: nil, condition: .missing,
            certificate: entry.certificate, hsmTokens: [], warnings: [])
    }
}

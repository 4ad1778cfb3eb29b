import Foundation
import PaymentToken
import WorkerProtocol

/// Everything the index knows at one moment: what every token showed when it was last asked, and what that is worth
/// beside the ledger's records.
struct KeyTable: Sendable {
    private(set) var byHash: [PublicKeyHash: KeyEntry] = [:]
    /// By hash, ascending.
    private(set) var sorted: [KeyEntry] = []
    private var held: [PublicKeyHash: [HeldKey]] = [:]
    /// By token, for those that have been asked: private keys that cannot be listed as keys, a sentence each.
    private var unlisted: [String: [String]] = [:]

    /// One token's copy of a key.
    private struct HeldKey {
        let token: String
        /// CKA_ID.
        let identifier: [UInt8]
        let key: TokenKey
    }

    init() {}

    /// Judges all keys anew. A token that is not named keeps what it showed last.
    init(
        after previous: KeyTable, tokens: [(name: String, keys: [KeyDescription])], records: [KeyRecord], now: Date
    ) {
        let asked = Set(tokens.map(\.name))
        unlisted = previous.unlisted
        held = previous.held.compactMapValues { copies in
            let others = copies.filter { !asked.contains($0.token) }
            return others.isEmpty ? nil : others
        }
        for (token, keys) in tokens.sorted(by: { $0.name < $1.name }) {
            unlisted[token] = []
            for description in keys {
                let certificates = previous.certificates(under: description.identifier)
                if let key = TokenKey(description, known: certificates) {
                    hold(HeldKey(token: token, identifier: description.identifier, key: key))
                } else {
                    unlisted[token]?.append(
                        "Token \(token) holds a private key that cannot be listed: its CKA_ID has "
                            + "\(description.identifier.count) bytes and there is no public key beside it.")
                }
            }
        }

        let recorded = Dictionary(records.map { ($0.publicKeyHash, $0) }) { $1 }
        for hash in Set(held.keys).union(recorded.keys).union(previous.byHash.keys) {
            byHash[hash] = judge(hash, recorded[hash], previous.byHash[hash], now)
        }
        sorted = byHash.values.sorted(by: Self.inOrder)
    }

    /// Judges one key anew, at a cost that does not depend on how many others there are.
    ///
    /// - Parameter tokens: by name, what tokens show under this hash as CKA_ID now; others keep what they showed last.
    ///   What is there and is another key waits for the token's next whole listing.
    mutating func update(
        _ hash: PublicKeyHash, tokens: [(name: String, keys: [KeyDescription])], record: KeyRecord?, now: Date
    ) {
        for (token, keys) in tokens {
            unlisted[token] = unlisted[token] ?? []
            let certificates = certificates(under: hash.bytes)
            held[hash]?.removeAll { $0.token == token && $0.identifier == hash.bytes }
            for description in keys {
                guard let key = TokenKey(description, known: certificates), key.publicKeyHash == hash else { continue }
                hold(HeldKey(token: token, identifier: description.identifier, key: key))
            }
        }
        if held[hash]?.isEmpty == true { held[hash] = nil }
        guard let entry = judge(hash, record, byHash[hash], now) else { return }
        let place = sorted.partitioningIndex { !Self.inOrder($0, entry) }
        if byHash.updateValue(entry, forKey: hash) != nil {
            sorted[place] = entry
        } else {
            sorted.insert(entry, at: place)
        }
    }

    /// In DER; nil when no token shows the key with its public key.
    func subjectPublicKeyInfo(_ hash: PublicKeyHash) -> [UInt8]? {
        held[hash]?.first { $0.identifier == hash.bytes && !$0.key.subjectPublicKeyInfo.isEmpty }?
            .key.subjectPublicKeyInfo
    }

    private mutating func hold(_ copy: HeldKey) {
        var copies = held[copy.key.publicKeyHash] ?? []
        copies.insert(copy, at: copies.firstIndex { $0.token > copy.token } ?? copies.endIndex)
        held[copy.key.publicKeyHash] = copies
    }

    private func certificates(under identifier: [UInt8]) -> [MerchantCertificate] {
        PublicKeyHash(bytes: identifier).flatMap { held[$0] }?.flatMap(\.key.certificates) ?? []
    }

    private static func inOrder(_ one: KeyEntry, _ other: KeyEntry) -> Bool {
        one.publicKeyHash.bytes.lexicographicallyPrecedes(other.publicKeyHash.bytes)
    }

    private func judge(
        _ hash: PublicKeyHash, _ record: KeyRecord?, _ previous: KeyEntry?, _ now: Date
    ) -> KeyEntry? {
        if let copies = held[hash] {
            return KeyEntry(hash, copies: copies.map { ($0.token, $0.key) }, record: record, now: now)
        }
        if let record { return KeyEntry(missing: record, certificate: previous?.certificate) }
        // Seen once, not shown now and never recorded: listed still, so that nobody wonders where it went.
        return previous.map { KeyEntry(gone: $0) }
    }
}

extension KeyTable {
    /// The entries whose hash comes after this text, in hex, as far as it goes.
    func entries(after hex: String) -> ArraySlice<KeyEntry> {
        sorted[sorted.partitioningIndex { $0.publicKeyHash.hex > hex }...]
    }

    /// What the tokens hold and cannot be listed as a key, and what only one of them holds, a sentence each.
    var remarks: [String] {
        unlisted.sorted { $0.key < $1.key }.flatMap(\.value) + soleHolders
    }

    /// Keys that would be lost, or away, with one token though there are several.
    private var soleHolders: [String] {
        guard unlisted.count > 1 else { return [] }
        let alone = sorted.filter { $0.condition == .served && $0.tokens.count == 1 && $0.state.isOfUse }
        return Dictionary(grouping: alone) { $0.tokens[0] }.sorted { $0.key < $1.key }.map { token, entries in
            let most = 5
            let names = entries.prefix(most).map { String($0.publicKeyHash.hex.prefix(16)) }
            let more = entries.count > most ? " and \(entries.count - most) more" : ""
            return "Only token \(token) shows the key\(entries.count == 1 ? "" : "s") "
                + names.joined(separator: ", ") + more
                + "; import what is to survive its loss into another token too."
        }
    }
}

extension Array {
    /// The first index at which `isBehind` holds, for an array that is divided by it: a binary search.
    fileprivate func partitioningIndex(_ isBehind: (Element) -> Bool) -> Int {
        var (low, high) = (startIndex, endIndex)
        while low < high {
            let middle = low + (high - low) / 2
            if isBehind(self[middle]) { high = middle } else { low = middle + 1 }
        }
        return low
    }
}

extension KeyState {
    /// Whether there may still be payments for the key.
    fileprivate var isOfUse: Bool {
        switch self {
        case .preActivation, .active, .suspended, .deactivated: true
        case .compromised, .destroyed: false
        }
    }
}

extension KeyEntry {
    fileprivate init(
        _ hash: PublicKeyHash, copies: [(token: String, key: TokenKey)], record: KeyRecord?, now: Date
    ) {
        let judged = copies.map { copy in
            (copy.token, copy.key, record.map { copy.key.disagreement(with: $0) } ?? copy.key.disagreement)
        }
        let good = judged.filter { $0.2 == nil }
        let serving = good.isEmpty ? judged : good
        let certificate = serving.flatMap { $0.1.certificates }.newestValid(at: now)
        var remarks = good.isEmpty ? [] : judged.compactMap { token, _, why in why.map { "Token \(token): \($0)" } }
        if certificate == nil { remarks.append("The token holds no certificate for this key.") }

        publicKeyHash = hash
        merchantIdentifier = record?.merchantIdentifier ?? certificate?.merchantIdentifier ?? ""
        algorithm = record?.algorithm ?? serving[0].1.algorithm
        state = record?.state ?? .preActivation
        cutOff = record?.cutOff
        condition =
            if let why = judged[0].2, good.isEmpty { .inconsistent(why) } else { record == nil ? .external : .served }
        self.certificate = certificate
        tokens = good.map(\.0)
        self.remarks = remarks
    }

    fileprivate init(missing record: KeyRecord, certificate: MerchantCertificate?) {
        self.init(
            publicKeyHash: record.publicKeyHash, merchantIdentifier: record.merchantIdentifier,
            algorithm: record.algorithm, state: record.state, cutOff: record.cutOff, condition: .missing,
            certificate: certificate, tokens: [], remarks: [])
    }

    fileprivate init(gone entry: KeyEntry) {
        self.init(
            publicKeyHash: entry.publicKeyHash, merchantIdentifier: entry.merchantIdentifier,
            algorithm: entry.algorithm, state: .preActivation, cutOff: nil, condition: .missing,
            certificate: entry.certificate, tokens: [], remarks: [])
    }
}

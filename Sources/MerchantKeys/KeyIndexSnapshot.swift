import Foundation
import PaymentToken
import WorkerProtocol

/// Everything the index knows at one moment, never changed afterwards: a reader takes a reference and looks in peace.
final class KeyIndexSnapshot: Sendable {
    let byHash: [PublicKeyHash: KeyEntry]
    /// By hash, ascending.
    let sorted: [KeyEntry]
    /// Private keys that cannot be listed as keys, a sentence each.
    let remarks: [String]
    /// What each token showed when it was last asked.
    let shown: [String: [KeyDescription]]
    private let certificates: [[UInt8]: MerchantCertificate]

    init() {
        (byHash, sorted, remarks, shown, certificates) = ([:], [], [], [:], [:])
    }

    init(
        after previous: KeyIndexSnapshot, tokens: [(name: String, keys: [KeyDescription])], records: [KeyRecord],
        now: Date
    ) {
        let shown = previous.shown.merging(tokens.map { ($0.name, $0.keys) }) { $1 }
        var remarks: [String] = []
        var held: [PublicKeyHash: [(token: String, key: TokenKey)]] = [:]
        for (token, keys) in shown.sorted(by: { $0.key < $1.key }) {
            for description in keys {
                if let key = TokenKey(description, known: previous.certificates) {
                    held[key.publicKeyHash, default: []].append((token, key))
                } else {
                    remarks.append(
                        "Token \(token) holds a private key that cannot be listed: its CKA_ID has "
                            + "\(description.identifier.count) bytes and there is no public key beside it.")
                }
            }
        }

        let recorded = Dictionary(records.map { ($0.publicKeyHash, $0) }) { $1 }
        var entries: [PublicKeyHash: KeyEntry] = [:]
        for (hash, copies) in held {
            entries[hash] = KeyEntry(hash, copies: copies, record: recorded[hash], now: now)
        }
        for (hash, record) in recorded where entries[hash] == nil {
            entries[hash] = KeyEntry(missing: record, certificate: previous.byHash[hash]?.certificate)
        }
        // Seen once, not shown now and never recorded: listed still, so that nobody wonders where it went.
        for (hash, entry) in previous.byHash where entries[hash] == nil {
            entries[hash] = KeyEntry(gone: entry)
        }

        remarks += Self.soleHolders(of: entries.values, among: shown.keys.count)

        byHash = entries
        sorted = entries.values.sorted { $0.publicKeyHash.bytes.lexicographicallyPrecedes($1.publicKeyHash.bytes) }
        self.remarks = remarks
        self.shown = shown
        certificates = Dictionary(held.values.joined().flatMap(\.key.certificates).map { ($0.der, $0) }) { $1 }
    }
}

extension KeyIndexSnapshot {
    /// Keys that would be lost, or away, with one token though there are several.
    private static func soleHolders(of entries: some Sequence<KeyEntry>, among tokens: Int) -> [String] {
        guard tokens > 1 else { return [] }
        let alone = entries.filter { $0.condition == .served && $0.tokens.count == 1 && $0.state.isOfUse }
        return Dictionary(grouping: alone) { $0.tokens[0] }.sorted { $0.key < $1.key }.map { token, entries in
            let most = 5
            let names = entries.map { String($0.publicKeyHash.hex.prefix(16)) }.sorted()
            let more = names.count > most ? " and \(names.count - most) more" : ""
            return "Only token \(token) shows the key\(names.count == 1 ? "" : "s") "
                + names.prefix(most).joined(separator: ", ") + more
                + "; import what is to survive its loss into another token too."
        }
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

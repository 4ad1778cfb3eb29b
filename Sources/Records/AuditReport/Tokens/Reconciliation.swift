public import AuditChain

/// What tokens say of their keys' uses, beside what the record says of them.
///
/// Of each record it is known whether its key was used in a token for certain, or perhaps: a call that ended without an answer may
/// have been carried out. So the record gives a least and a most. What a token counts beyond the most passed this program by.
public struct Reconciliation: Sendable {
    /// Of one key.
    public struct Uses: Sendable, Equatable {
        public var least = 0
        public var most = 0
    }

    public let logs: [TokenUseLog]
    /// Of each log, by key, what the record has for it.
    public private(set) var recorded: [[AuditDigest: Uses]]
    /// The same of days, the most.
    private(set) var days: [[AuditDigest: [Int: Int]]]

    init(_ logs: [TokenUseLog]) {
        self.logs = logs
        recorded = Array(repeating: [:], count: logs.count)
        days = recorded.map { _ in [:] }
    }

    /// A key whose numbers differ, or not.
    public struct Comparison: Sendable, Equatable {
        public let key: AuditDigest
        public let counted: Int
        public let recorded: Uses
        /// Uses that no record can have caused.
        public var unexplained: Int { max(0, counted - recorded.most) }
        /// Uses that the token did not count.
        public var missing: Int { max(0, recorded.least - counted) }
    }

    /// The keys of a log, those with a difference first.
    public func comparisons(of log: Int) -> [Comparison] {
        let keys = Set(logs[log].uses.keys).union(recorded[log].keys)
        return keys.map { key in
            Comparison(key: key, counted: logs[log].uses[key] ?? 0, recorded: recorded[log][key] ?? Uses())
        }.sorted { left, right in
            (right.unexplained, right.missing, left.key.hex) < (left.unexplained, left.missing, right.key.hex)
        }
    }

    /// Of all logs together.
    public var unexplained: Int {
        logs.indices.reduce(0) { $0 + comparisons(of: $1).reduce(0) { $0 + $1.unexplained } }
    }

    /// The days on which a log has more uses of a key than the record.
    func daysWithMore(_ key: AuditDigest, of log: Int) -> [Int] {
        (logs[log].days[key] ?? [:]).filter { $0.value > days[log][key]?[$0.key] ?? 0 }.keys.sorted()
    }

    mutating func take(_ entry: AuditEntry) {
        guard let key = entry.publicKeyHash, let (least, most) = Self.uses(of: entry) else { return }
        add(key, least, most, node: entry.node, token: entry.hsmToken, at: entry.time)
    }

    /// A checkpoint is a signature with the audit key, whose keyId is the hash of its public key like any other's.
    mutating func take(_ checkpoint: Checkpoint) {
        add(checkpoint.keyId, 1, 1, node: checkpoint.node, token: nil, at: checkpoint.time)
    }

    private mutating func add(
        _ key: AuditDigest, _ least: Int, _ most: Int, node: AuditNode, token: String?, at time: AuditTime
    ) {
        for log in logs.indices {
            guard let isSure = logs[log].covers(node: node, token: token, at: time) else { continue }
            recorded[log][key, default: Uses()].least += isSure ? least : 0
            recorded[log][key, default: Uses()].most += most
            days[log][key, default: [:]][KeyUseTally.index(time, 86_400_000), default: 0] += most
        }
    }

    /// Nil for what uses no key in a token.
    private static func uses(of entry: AuditEntry) -> (least: Int, most: Int)? {
        let isDone = entry.outcome == AuditOutcome.ok.text
        switch AuditEvent.Name(rawValue: entry.event) {
        case .decrypt, .tlsSignature:
            // The record names the token once that has answered.
            if entry.hsmToken != nil { return (1, 1) }
            return entry.leavesUseOpen ? (0, 1) : nil
        // The record names the token before that is asked: without one a refusal used none.
        case .csrCreate where isDone || entry.hsmToken != nil: return (isDone ? 1 : 0, 1)
        // The worker has the token use it twice with a peer of its own, and compares.
        case .keyGenerate where isDone || entry.hsmToken != nil, .keyImport where isDone || entry.hsmToken != nil,
            .keyAdopt where isDone:
            return (0, 2)
        default: return nil
        }
    }
}

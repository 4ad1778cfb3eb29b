public import AuditChain

/// The uses of the keys, by caller and time: requests for payment data and signatures for merchant sessions.
public struct KeyUseTally: Sendable {
    /// A key and a caller. The key is nil if the request did not identify one; the caller is nil if no rule matched.
    public struct Pair: Sendable, Hashable {
        public let key: AuditDigest?
        public let caller: String?
    }

    public struct Use: Sendable, Equatable {
        public var merchant: String?
        public var released = RecordReferences()
        public var repeated = RecordReferences()
        public var signed = RecordReferences()
        /// The refusals by code.
        public var refused: [String: RecordReferences] = [:]
        /// The releases and repeats that the key made after it had been deactivated.
        public var afterSuperseded = RecordReferences()
        public var firstAfterSuperseded: AuditTime?
        public var lastAfterSuperseded: AuditTime?
        public var firstUse: AuditTime?
        public var lastUse: AuditTime?

        public var uses: Int { released.count + repeated.count + signed.count }
    }

    public private(set) var uses: [Pair: Use] = [:]
    /// The number of releases, repeats and signatures by key and day. Days are counted from 1970-01-01.
    /// ``daysOfCallers`` has these numbers by caller instead of by key.
    private(set) var daysOfKeys: [AuditDigest: [Int: Int]] = [:]
    private(set) var daysOfCallers: [String: [Int: Int]] = [:]
    /// The number of releases, repeats and signatures by caller and hour, for ``CallerAnomaly``. Hours are counted from
    /// 1970-01-01.
    private(set) var hoursOfCallers: [String: [Int: Int]] = [:]
    /// True if the records have more than ``maximumPairs`` pairs. The uses of further pairs are counted together, in a
    /// pair without key and caller.
    public private(set) var hasFurtherPairs = false

    static let maximumPairs = 20_000
    static let maximumCharted = 2_000
    /// The number of uses whose days or hours are not kept, because the key or the caller is beyond the first
    /// ``maximumCharted``.
    public private(set) var unchartedUses = 0

    mutating func take(_ entry: AuditEntry, superseded: AuditTime?) {
        var pair = Pair(key: entry.publicKeyHash, caller: entry.callerText)
        if uses[pair] == nil, uses.count >= Self.maximumPairs {
            pair = Pair(key: nil, caller: nil)
            hasFurtherPairs = true
        }
        uses[pair, default: Use()].take(entry, superseded: superseded)
        let day = Self.index(entry.time, 86_400_000)
        guard AuditOutcome.used.contains(entry.outcome) else { return }
        var isCharted = true
        if let key = entry.publicKeyHash {
            isCharted = daysOfKeys.count < Self.maximumCharted || daysOfKeys[key] != nil
            if isCharted { daysOfKeys[key, default: [:]][day, default: 0] += 1 }
        }
        if let caller = entry.callerText {
            if daysOfCallers.count < Self.maximumCharted || daysOfCallers[caller] != nil {
                daysOfCallers[caller, default: [:]][day, default: 0] += 1
                hoursOfCallers[caller, default: [:]][Self.index(entry.time, 3_600_000), default: 0] += 1
            } else {
                isCharted = false
            }
        }
        if !isCharted { unchartedUses += 1 }
    }

    static func index(_ time: AuditTime, _ unit: Int64) -> Int {
        Int((time.milliseconds - (time.milliseconds % unit + unit) % unit) / unit)
    }
}

extension KeyUseTally.Use {
    fileprivate mutating func take(_ entry: AuditEntry, superseded: AuditTime?) {
        merchant = merchant ?? entry.merchant
        let isSignature = entry.event == AuditEvent.Name.tlsSignature.rawValue
        switch AuditOutcome(entry.outcome) {
        case .ok where isSignature: signed.add(entry)
        case .ok: released.add(entry)
        case .repeated: repeated.add(entry)
        case .refused, nil: return refused[entry.outcome, default: RecordReferences()].add(entry)
        }
        firstUse = min(firstUse ?? entry.time, entry.time)
        lastUse = max(lastUse ?? entry.time, entry.time)
        if !isSignature, let superseded, entry.time > superseded {
            afterSuperseded.add(entry)
            firstAfterSuperseded = min(firstAfterSuperseded ?? entry.time, entry.time)
            lastAfterSuperseded = max(lastAfterSuperseded ?? entry.time, entry.time)
        }
    }
}

extension AuditOutcome {
    /// The outcomes that count as a use of the key.
    static let used: Set<String> = [AuditOutcome.ok.text, AuditOutcome.repeated.text]
}

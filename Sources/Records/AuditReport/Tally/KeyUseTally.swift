import AuditChain

/// Requests: their number, their records, and the times of the first and of the last.
struct RequestTally: Sendable, Equatable {
    private(set) var count = 0
    private(set) var records = RecordReferences()
    private(set) var first: AuditTime?
    private(set) var last: AuditTime?

    /// - Parameters:
    ///   - requests: the number of requests that the record counts.
    ///   - since: the time from which they were counted, for a record that is a sum.
    mutating func take(_ entry: AuditEntry, _ requests: Int = 1, since: AuditTime? = nil) {
        take(RecordPlace(entry), at: entry.time, requests, since: since)
    }

    mutating func take(_ place: RecordPlace, at time: AuditTime, _ requests: Int = 1, since: AuditTime? = nil) {
        let begun = min(since ?? time, time)
        (first, last) = (min(first ?? begun, begun), max(last ?? time, time))
        count = count.addingReportingOverflow(requests).partialValue
        records.add(place)
    }

    mutating func add(_ other: RequestTally) {
        (first, last) = ([first, other.first].compactMap(\.self).min(), [last, other.last].compactMap(\.self).max())
        count = count.addingReportingOverflow(other.count).partialValue
        records.add(other.records)
    }
}

/// Requests, with their number by key.
struct RequestsByKey: Sendable, Equatable {
    private(set) var requests = RequestTally()
    private(set) var keys: [String: Int] = [:]

    var count: Int { requests.count }

    mutating func take(_ place: RecordPlace, at time: AuditTime, _ key: AuditDigest?) {
        requests.take(place, at: time)
        if let key { keys[key.base64, default: 0] += 1 }
    }

    mutating func take(_ entry: AuditEntry) { take(RecordPlace(entry), at: entry.time, entry.publicKeyHash) }
}

/// The uses of the keys, by caller and time: requests for payment data and signatures for merchant sessions.
struct KeyUseTally: Sendable {
    /// A key and a caller. The key is nil if the request did not identify one; the caller is nil if no rule matched.
    struct Pair: Sendable, Hashable {
        let key: AuditDigest?
        let caller: String?
    }

    struct Use: Sendable, Equatable {
        fileprivate(set) var merchant: String?
        fileprivate(set) var released = RecordReferences()
        fileprivate(set) var repeated = RecordReferences()
        fileprivate(set) var signed = RecordReferences()
        /// The refusals by code.
        fileprivate(set) var refused: [String: RecordReferences] = [:]
        /// The releases and repeats that the key made after it had been deactivated.
        fileprivate(set) var late = RequestTally()
        fileprivate(set) var firstUse: AuditTime?
        fileprivate(set) var lastUse: AuditTime?

        var uses: Int { released.count + repeated.count + signed.count }
    }

    private(set) var uses: [Pair: Use] = [:]
    /// The number of releases, repeats and signatures by key and day. Days are counted from 1970-01-01.
    /// ``daysOfCallers`` has these numbers by caller instead of by key.
    private(set) var daysOfKeys: [AuditDigest: [Int: Int]] = [:]
    private(set) var daysOfCallers: [String: [Int: Int]] = [:]
    /// The releases, repeats and signatures by caller and hour. Hours are counted from 1970-01-01.
    private(set) var hoursOfCallers: [String: [Int: RequestsByKey]] = [:]
    /// The number of uses and refusals beyond ``maximumPairs`` pairs, which are counted in a pair without key and caller.
    private(set) var furtherUses = 0

    static let maximumPairs = 20_000
    static let maximumCharted = 2_000
    /// The number of uses whose days or hours are not kept, because the key or the caller is beyond the first
    /// ``maximumCharted``.
    private(set) var unchartedUses = 0

    mutating func take(_ entry: AuditEntry, superseded: AuditTime?) {
        var pair = Pair(key: entry.publicKeyHash, caller: entry.callerText)
        if uses[pair] == nil, uses.count >= Self.maximumPairs {
            pair = Pair(key: nil, caller: nil)
            furtherUses += 1
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
                let hour = Self.index(entry.time, 3_600_000)
                hoursOfCallers[caller, default: [:]][hour, default: RequestsByKey()].take(entry)
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
        if !isSignature, let superseded, entry.time > superseded { late.take(entry) }
    }
}

extension AuditOutcome {
    /// The outcomes that count as a use of the key.
    static let used: Set<String> = [AuditOutcome.ok.text, AuditOutcome.repeated.text]
}

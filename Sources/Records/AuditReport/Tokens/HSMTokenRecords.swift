import AuditChain
import StrictJSON

/// The HSM tokens' statements about themselves and their keys, as each node recorded them last: the events
/// `token_attributes` and `key_attributes`.
struct HSMTokenRecords: Sendable {
    /// An HSM token, as one node uses it.
    struct Source: Hashable, Comparable {
        let node: AuditNode
        let hsmToken: String

        static func < (left: Source, right: Source) -> Bool {
            (left.hsmToken, left.node) < (right.hsmToken, right.node)
        }
    }

    struct Statement {
        let time: AuditTime
        let place: RecordPlace
        /// The members that only records of this event have.
        let details: JSONObject
    }

    /// Equal statements of one HSM token about a key, with the first time and place.
    struct Distinct {
        let hsmToken: String
        fileprivate(set) var first: Statement
        fileprivate(set) var records = RecordReferences()
    }

    private(set) var hsmTokens: [Source: Statement] = [:]
    /// All serial numbers that records have for an HSM token.
    private(set) var serials: [Source: Set<String>] = [:]
    /// The last statements of each key.
    private(set) var keys: [AuditDigest: [Source: Statement]] = [:]
    /// All different statements of each key.
    private(set) var distinct: [AuditDigest: [Distinct]] = [:]
    /// The number of keys' statements that were not kept, since there are more than ``maximumStatements``.
    private(set) var omitted = 0
    private var kept = 0

    private static let maximumStatements = 200_000

    mutating func take(_ entry: AuditEntry) {
        guard let hsmToken = entry.hsmToken else { return }
        let source = Source(node: entry.node, hsmToken: hsmToken)
        let statement = Statement(time: entry.time, place: RecordPlace(entry), details: entry.details)
        switch AuditEvent.Name(rawValue: entry.event) {
        case .tokenAttributes:
            hsmTokens[source] = statement
            if let serial = entry.details["serialNumber"]?.stringValue { serials[source, default: []].insert(serial) }
        case .keyAttributes:
            guard let key = entry.publicKeyHash else { return }
            let (known, said) = (distinct[key, default: []], entry.details["keys"])
            let index = known.firstIndex { $0.hsmToken == hsmToken && $0.first.details["keys"] == said }
            let new = (keys[key]?[source] == nil ? 1 : 0) + (index == nil ? 1 : 0)
            guard new == 0 || kept + new <= Self.maximumStatements else {
                omitted += 1
                return
            }
            kept += new
            keys[key, default: [:]][source] = statement
            var changed = index.map { known[$0] } ?? Distinct(hsmToken: hsmToken, first: statement)
            if (statement.time, statement.place) < (changed.first.time, changed.first.place) {
                changed.first = statement
            }
            changed.records.add(entry)
            if let index { distinct[key]?[index] = changed } else { distinct[key, default: []].append(changed) }
        default: break
        }
    }

    /// Returns the serial numbers that records have for the HSM token of a log.
    func serials(of log: TokenUseLog) -> [String] {
        let found = serials.filter { source, _ in
            (log.node ?? source.node) == source.node && (log.token ?? source.hsmToken) == source.hsmToken
        }
        return Set(found.values.flatMap(\.self)).sorted()
    }

    /// Returns true if the log names a serial number, and records have only others for its HSM token.
    func hasOtherSerial(_ log: TokenUseLog) -> Bool {
        guard let serial = log.serial else { return false }
        let recorded = serials(of: log)
        return !recorded.isEmpty && !recorded.contains(serial)
    }
}

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

    private(set) var hsmTokens: [Source: Statement] = [:]
    private(set) var keys: [AuditDigest: [Source: Statement]] = [:]
    /// The number of keys' statements that were not kept, since there are more than ``maximumStatements``.
    private(set) var omitted = 0
    private var kept = 0

    private static let maximumStatements = 200_000

    mutating func take(_ entry: AuditEntry) {
        guard let hsmToken = entry.hsmToken else { return }
        let source = Source(node: entry.node, hsmToken: hsmToken)
        let statement = Statement(time: entry.time, place: RecordPlace(entry), details: entry.details)
        switch AuditEvent.Name(rawValue: entry.event) {
        case .tokenAttributes: hsmTokens[source] = statement
        case .keyAttributes:
            guard let key = entry.publicKeyHash else { return }
            let isNew = keys[key]?[source] == nil
            guard !isNew || kept < Self.maximumStatements else {
                omitted += 1
                return
            }
            kept += isNew ? 1 : 0
            keys[key, default: [:]][source] = statement
        default: break
        }
    }
}

public import Encodings
internal import StrictJSON

/// The conditions of `audit list`, all of which a record must meet.
///
/// A filter is for display, since an export for verification must have no gaps. Only a filter by time yields an
/// export without gaps: the daemon then extends the export to the checkpoint before the matching records, and to the
/// checkpoint after them. If ``leavesGaps`` is true, the first line of the export states that it has gaps
/// (``FilteredExport``).
public struct AuditFilter: Sendable, Equatable {
    /// The earliest time of matching records, inclusive.
    public var since: AuditTime?
    /// The time before which matching records must be.
    public var until: AuditTime?
    public var key: KeyReference?
    /// The merchant identifier that matching records have.
    public var merchant: AuditText?
    /// The name of the matching records' caller, or the caller's uid in decimal.
    public var caller: AuditText?
    public var outcome: AuditOutcome?
    public var transaction: AuditDigest?

    public init() {}

    /// Returns true if the record meets every condition.
    public func matches(_ entry: AuditEntry) -> Bool {
        if let since, entry.time < since { return false }
        if let until, entry.time >= until { return false }
        if let key {
            guard let hash = entry.publicKeyHash, key.matches(hash.bytes) else { return false }
        }
        if let merchant, entry.merchant != merchant.text { return false }
        if let caller {
            guard let known = entry.caller else { return false }
            guard known.name == caller || String(known.uid) == caller.text else { return false }
        }
        if let outcome, entry.outcome != outcome.text { return false }
        if let transaction, entry.transactionId != transaction { return false }
        return true
    }
}

extension AuditFilter {
    /// The error for a condition that cannot be parsed. It names the condition's option.
    public struct Unreadable: Error, Sendable, Equatable, CustomStringConvertible {
        public let name: String

        public var description: String {
            switch name {
            case "since", "until": "\(name) is not an RFC 3339 time such as 2026-01-31T12:00:00Z."
            case "key": "key is neither a publicKeyHash in base64 nor 8 to 64 hexadecimal digits of one."
            case "outcome": "outcome is neither ok nor repeat nor a refusal's code."
            case "transaction": "transaction is not 64 hexadecimal digits."
            default: "There is no filter of this name: since, until, key, merchant, caller, outcome, transaction."
            }
        }
    }

    /// Parses conditions from a command line or a query: `since`, `until`, `key`, `merchant`, `caller`, `outcome`,
    /// `transaction`. If several are invalid, it throws the first in the order of their names.
    public init(_ conditions: [String: String]) throws(Unreadable) {
        for (name, text) in conditions.sorted(by: { $0.key < $1.key }) {
            switch name {
            case "since": since = try Self.read(name, AuditTime(rfc3339: text))
            case "until": until = try Self.read(name, AuditTime(rfc3339: text))
            case "key": key = try Self.read(name, KeyReference(text))
            case "merchant": merchant = AuditText(merchantAtGoogle: text)
            case "caller": caller = AuditText(text)
            case "outcome": outcome = try Self.read(name, AuditOutcome(text))
            case "transaction": transaction = try Self.read(name, AuditDigest(hex: text.lowercased()))
            default: throw Unreadable(name: name)
            }
        }
    }

    private static func read<Value>(_ name: String, _ value: Value?) throws(Unreadable) -> Value {
        guard let value else { throw Unreadable(name: name) }
        return value
    }
}

/// The first line of an export whose records were selected by conditions other than time.
///
/// A chain is verified from each record to the next, so the records of such a selection cannot be verified: they may
/// be changed or incomplete. Each of its lines is also in a complete export of the same node, byte for byte. For a
/// proof, verify the complete export and find the lines in it.
public enum FilteredExport {
    /// Returns the first line of such an export, without a line feed: `{"filter":{"node":…,"through":…, …the
    /// conditions…},"proves":"…"}`.
    ///
    /// - Parameter last: the last sequence read.
    public static func firstLine(_ filter: AuditFilter, node: AuditNode, through last: Int) -> [UInt8] {
        JSONWriter.object { json in
            json.member("filter") { json in
                json.member("node", node.name)
                json.member("through", last)
                for (name, value) in filter.conditions { json.member(name, value) }
            }
            json.member("proves", proves)
        }
    }

    static let proves =
        "nothing by itself: records that do not match are left out, so the hashes cannot be followed. Every line is also, "
        + "byte for byte, in an export without conditions; verify that one, and find these lines in it."

    private static let beginning = Array("{\"filter\":{".utf8)

    static func isFirstLine(_ line: [UInt8]) -> Bool { line.starts(with: beginning) }
}

extension AuditFilter {
    /// True if the filter has conditions other than time, so that intermediate records may be missing.
    public var leavesGaps: Bool {
        key != nil || merchant != nil || caller != nil || outcome != nil || transaction != nil
    }

    /// The conditions that are set, with the names of their options.
    var conditions: [(name: String, value: String)] {
        [
            ("since", since?.text), ("until", until?.text), ("key", key?.hex), ("merchant", merchant?.text),
            ("caller", caller?.text), ("outcome", outcome?.text), ("transaction", transaction?.hex),
        ].compactMap { name, value in value.map { (name, $0) } }
    }
}

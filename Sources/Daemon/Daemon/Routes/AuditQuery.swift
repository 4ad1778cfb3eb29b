import AuditChain
import Ledger
import Refusals

/// Whose record is asked for: `node=NAME`, `node=all`, or nothing for this node's.
enum NodeQuery: Sendable, Equatable {
    case own
    case one(AuditNode)
    case all

    /// Takes the parameter out of a query.
    init(takenFrom query: inout [String: String]) throws(Refusal) {
        switch query.removeValue(forKey: Self.parameter) {
        case nil: self = .own
        case "all": self = .all
        case let text?:
            guard let node = AuditNode(text) else {
                throw .parameter(Self.parameter, "must be a node's name, or all.")
            }
            self = .one(node)
        }
    }

    static let parameter = "node"
}

/// What `GET /v1/audit/records` asks for.
struct AuditPageQuery: Sendable, Equatable {
    var node: NodeQuery
    var filter: AuditFilter
    var order = AuditOrder.newestFirst
    /// Where the page begins, in the order's direction.
    var cursor: MergedRecords.Cursor?
    var limit = 100

    /// - Throws: malformed_request, which names the parameter.
    init(_ query: [String: String]) throws(Refusal) {
        var conditions = query
        node = try NodeQuery(takenFrom: &conditions)
        if let text = conditions.removeValue(forKey: "limit") {
            guard let limit = Int(text), (1...1000).contains(limit) else {
                throw .parameter("limit", "must be a number from 1 to 1000.")
            }
            self.limit = limit
        }
        if let text = conditions.removeValue(forKey: "cursor") {
            guard let cursor = MergedRecords.Cursor(text, of: node) else {
                throw .parameter("cursor", "must be the next of the page before.")
            }
            self.cursor = cursor
        }
        switch conditions.removeValue(forKey: "order") {
        case nil, "newest": order = .newestFirst
        case "oldest": order = .oldestFirst
        default: throw .parameter("order", "must be newest or oldest.")
        }
        filter = try AuditFilter(query: conditions, known: Self.conditions)
    }

    fileprivate static let conditions: Set = [
        "since", "until", "key", "merchant", "caller", "outcome", "transaction",
    ]
    static let parameters = conditions.union(["limit", "cursor", "order", NodeQuery.parameter])
}

/// What `GET /v1/audit/export` asks for.
struct AuditExportQuery: Sendable, Equatable {
    enum Purpose: String, Sendable {
        case export, verify
    }

    var node: NodeQuery
    var filter: AuditFilter
    var format = AuditExportFormat.jsonl
    var follows = false
    var purpose = Purpose.export
    /// The sequence of the first record that is wanted; nil: the filter's times say it.
    var from: Int?

    /// - Throws: malformed_request, which names the parameter.
    init(_ query: [String: String]) throws(Refusal) {
        var conditions = query
        node = try NodeQuery(takenFrom: &conditions)
        if let text = conditions.removeValue(forKey: "format") {
            guard let format = AuditExportFormat(rawValue: text) else {
                throw .parameter("format", "must be jsonl or csv.")
            }
            self.format = format
        }
        if let text = conditions.removeValue(forKey: "purpose") {
            guard let purpose = Purpose(rawValue: text) else {
                throw .parameter("purpose", "must be export or verify.")
            }
            self.purpose = purpose
        }
        switch conditions.removeValue(forKey: "follow") {
        case nil, "false": break
        case "true": follows = true
        default: throw .parameter("follow", "must be true or false.")
        }
        if let text = conditions.removeValue(forKey: "from") {
            guard let sequence = Int(text), sequence >= 1 else {
                throw .parameter("from", "must be a record's sequence, from 1.")
            }
            from = sequence
        }
        filter = try AuditFilter(query: conditions, known: AuditPageQuery.conditions)
        if from != nil, filter != AuditFilter() || follows || node == .all || format == .csv {
            throw .parameter(
                "from",
                "is of one node's chain to its end, as JSON lines: leave out follow, node=all, csv, and all conditions."
            )
        }
        if filter.leavesGaps, follows || purpose == .verify {
            throw Refusal(
                .malformedRequest,
                "The query's conditions other than since and until choose single records, which cannot be followed or "
                    + "verified; leave out follow and purpose=verify, or the conditions.",
                details: follows ? "follow" : "purpose")
        }
        if follows, node != .own {
            throw .parameter(
                "follow", "is of this node's record alone: another node seals its own, which ends with its seals.")
        }
        if follows, filter.until != nil || purpose == .verify {
            throw .parameter("follow", "has no end: leave out until, and purpose=verify.")
        }
        if purpose == .verify, format == .csv {
            throw .parameter("format", "must be jsonl for purpose=verify: CSV cannot be verified.")
        }
    }
}

extension AuditExportQuery {
    static let parameters = AuditPageQuery.conditions.union([
        "format", "follow", "from", "purpose", NodeQuery.parameter,
    ])
}

extension AuditFilter {
    fileprivate init(query: [String: String], known: Set<String>) throws(Refusal) {
        for (name, text) in query.sorted(by: { $0.key < $1.key }) {
            // An unknown name is not repeated: it may be anything, a mistyped account number too.
            guard known.contains(name) else {
                throw Refusal(
                    .malformedRequest, "The query has a parameter that is not known here.",
                    details: "conditions are: \(known.sorted().joined(separator: ", "))")
            }
            guard !text.isEmpty else { throw .parameter(name, "is empty.") }
        }
        do throws(AuditFilter.Unreadable) {
            try self.init(query)
        } catch {
            throw Refusal(.malformedRequest, "In the query, \(error.description)", details: error.name)
        }
    }
}

extension Refusal {
    fileprivate static func parameter(_ name: String, _ rule: String) -> Refusal {
        Refusal(.malformedRequest, "The query's \(name) \(rule)", details: name)
    }
}
